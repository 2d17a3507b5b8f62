# Regimes of heads by the source-winner rule.


rule taxonomy:
    input:
        shards,
    output:
        directory(f"results/{RUN}/taxonomy/{{model}}/{{corpus}}"),
    log:
        f"results/{RUN}/logs/taxonomy/{{model}}/{{corpus}}.log",
    benchmark:
        f"results/{RUN}/benchmarks/taxonomy/{{model}}/{{corpus}}.tsv"
    conda:
        "../../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=2000,
    params:
        settings=lambda wildcards: settings(
            model=wildcards.model, corpus=wildcards.corpus, seed=config["seed"], **config["statistics"]
        ),
        code=closure.stage("taxonomy"),
    message:
        "Sorting the heads of {wildcards.model} on {wildcards.corpus} into regimes"
    shell:
        "python workflow/run.py taxonomy --settings {params.settings:q} --geometry {input} --output {output} --log {log}"
