# The run's tables: all models and corpora together.


rule tables:
    input:
        metrics=of_pairs("results/{run}/metrics/{model}/{corpus}"),
        taxonomy=of_pairs("results/{run}/taxonomy/{model}/{corpus}"),
        bounds=of_pairs("results/{run}/bounds/{model}/{corpus}"),
        tokens=of_pairs("results/{run}/tokens/{model}/{corpus}.parquet"),
        checkpoints=[f"resources/models/{model}/checkpoint" for model in MODELS],
    output:
        [reported_table(path) for path in tables()],
    log:
        f"results/{RUN}/logs/tables.log",
    benchmark:
        f"results/{RUN}/benchmarks/tables.tsv"
    conda:
        "../../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=2000,
    params:
        settings=settings(
            models=named(MODELS, "name", "title", "licence", "dtype"),
            corpora=named(CORPORA, "name", "title", "licence"),
        ),
        code=closure.stage("tables"),
        models=[f"resources/models/{model}/checkpoint/provenance.json" for model in MODELS],
        output=lambda wildcards, output: str(Path(output[0]).parent),
    message:
        "Joining the tables of run {RUN}"
    shell:
        "python workflow/run.py tables --settings {params.settings:q} --metrics {input.metrics} --taxonomy {input.taxonomy}"
        " --bounds {input.bounds} --tokens {input.tokens} --models {params.models} --output {params.output} --log {log}"
