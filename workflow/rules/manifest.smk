# What the run has made: every artifact with its hash and what made it.


rule manifest:
    input:
        geometry=geometry(),
        tokens=of_pairs("results/{run}/tokens/{model}/{corpus}.parquet"),
        metrics=of_pairs("results/{run}/metrics/{model}/{corpus}"),
        taxonomy=of_pairs("results/{run}/taxonomy/{model}/{corpus}"),
        bounds=of_pairs("results/{run}/bounds/{model}/{corpus}"),
        tables=tables(ALL_TABLES),
        removal=[path for paths in removal_parts().values() for path in paths],
        figures=figures(),
        claims=f"results/{RUN}/claims.json",
        paper=f"paper/{RUN}/replication.pdf",
    output:
        report(
            f"results/{RUN}/manifest.json",
            caption="../report/manifest.rst",
            category="Tables",
            subcategory="run",
            labels={"table": "manifest"},
        ),
    log:
        f"results/{RUN}/logs/manifest.log",
    benchmark:
        f"results/{RUN}/benchmarks/manifest.tsv"
    conda:
        "../../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=1000,
    params:
        settings=settings(run=RUN),
        code=closure.stage("manifest"),
        logs=[f"results/{RUN}/logs", f"results/{RUN}/benchmarks"],
    message:
        "Listing what run {RUN} has made"
    shell:
        "python workflow/run.py manifest --settings {params.settings:q} --artifacts {input} --logs {params.logs}"
        " --output {output} --log {log}"
