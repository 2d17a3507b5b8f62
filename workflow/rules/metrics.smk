# Precision, recall, F, sink and profiles with their intervals.


rule metrics:
    input:
        shards,
    output:
        directory(f"results/{RUN}/metrics/{{model}}/{{corpus}}"),
    log:
        f"results/{RUN}/logs/metrics/{{model}}/{{corpus}}.log",
    benchmark:
        f"results/{RUN}/benchmarks/metrics/{{model}}/{{corpus}}.tsv"
    conda:
        "../../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=2000,
    params:
        settings=lambda wildcards: settings(
            model=wildcards.model, corpus=wildcards.corpus, seed=config["seed"], **config["statistics"]
        ),
        code=closure.stage("metrics"),
    message:
        "Aggregating the metrics of {wildcards.model} on {wildcards.corpus}"
    shell:
        "python workflow/run.py metrics --settings {params.settings:q} --geometry {input} --output {output} --log {log}"
