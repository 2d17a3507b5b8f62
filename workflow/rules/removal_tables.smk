# The tables of head removal, from scores, losses and scans.


rule removal_tables:
    input:
        **removal_parts(),
        taxonomy=of_removal_pairs("results/{run}/taxonomy/{model}/{corpus}"),
    output:
        [reported_table(path) for path in tables(REMOVAL_TABLES)],
    log:
        f"results/{RUN}/logs/removal_tables.log",
    benchmark:
        f"results/{RUN}/benchmarks/removal_tables.tsv"
    conda:
        "../../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=1000,
    params:
        settings=settings(seed=config["seed"], **config["statistics"]),
        code=closure.stage("removal_tables"),
        regimes=lambda wildcards, input: [f"{folder}/heads.csv" for folder in input.taxonomy],
        output=lambda wildcards, output: str(Path(output[0]).parent),
    message:
        "Joining the tables of head removal of run {RUN}"
    shell:
        "python workflow/run.py removal_tables --settings {params.settings:q} --scores {input.scores} --losses {input.losses}"
        " --ablation {input.ablation} --scan {input.scan} --regimes {params.regimes} --output {params.output} --log {log}"
