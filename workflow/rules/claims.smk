# What became of the paper's claims: verdicts from the run's tables alone.


rule claims:
    input:
        ledger="config/claims.yaml",
        tables=tables(ALL_TABLES),
    output:
        json=report(
            f"results/{RUN}/claims.json",
            caption="../report/claims.rst",
            category="Claims",
            subcategory="All",
            labels={"figure": "Verdicts", "as": "JSON"},
        ),
        markdown=f"results/{RUN}/claims.md",
    log:
        f"results/{RUN}/logs/claims.log",
    benchmark:
        f"results/{RUN}/benchmarks/claims.tsv"
    conda:
        "../../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=1000,
    params:
        settings=settings(
            run=RUN,
            config=CONFIG,
            models=repositories(),
            tables=[*TABLES, *OF_REMOVAL],
            figures=list(EVERY_FIGURE),
            drawn=list(FIGURES),
        ),
        code=closure.stage("claims"),
    message:
        "Holding run {RUN} against the paper's claims"
    shell:
        "python workflow/run.py claims --settings {params.settings:q} --claims {input.ledger} --tables {input.tables}"
        " --output {output.json} --log {log}"
