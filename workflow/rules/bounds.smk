# The certificates, held against the measurement on every attention operation; a violation fails the rule.


rule bounds:
    input:
        shards=shards,
        taxonomy=f"results/{RUN}/taxonomy/{{model}}/{{corpus}}",
    output:
        directory(f"results/{RUN}/bounds/{{model}}/{{corpus}}"),
    log:
        f"results/{RUN}/logs/bounds/{{model}}/{{corpus}}.log",
    benchmark:
        f"results/{RUN}/benchmarks/bounds/{{model}}/{{corpus}}.tsv"
    conda:
        "../../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, input, attempt: bounds_memory(input, attempt),
    params:
        settings=lambda wildcards: settings(
            model=wildcards.model, corpus=wildcards.corpus, seed=config["seed"], **config["statistics"]
        ),
        code=closure.stage("bounds"),
    message:
        "Verifying the certificates of {wildcards.model} on {wildcards.corpus}"
    shell:
        "python workflow/run.py bounds --settings {params.settings:q} --geometry {input.shards} --taxonomy {input.taxonomy}"
        " --output {output} --log {log}"
