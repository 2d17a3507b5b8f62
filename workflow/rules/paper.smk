# The replication paper: Typst reads the run's results, so no number in it is typed.


rule paper:
    input:
        source=PAPER,
        parts=PAPER_PARTS,
        claims=f"results/{RUN}/claims.json",
        tables=tables(ALL_TABLES),
        figures=figures(),
    output:
        pdf=report(
            f"paper/{RUN}/replication.pdf",
            caption="../report/paper.rst",
            category="The paper",
            labels={"paper": "replication"},
        ),
        provenance=f"paper/{RUN}/replication.json",
    log:
        f"results/{RUN}/logs/paper.log",
    benchmark:
        f"results/{RUN}/benchmarks/paper.tsv"
    conda:
        "../../envs/paper.yaml"
    threads: 1
    resources:
        mem_mb=1000,
    params:
        settings=paper_settings(),
        code=closure.stage("paper"),
    message:
        "Writing the paper of run {RUN}"
    shell:
        "python workflow/run.py paper --settings {params.settings:q} --source {input.source} --inputs {input.claims} {input.tables}"
        " {input.figures} --output {output.pdf} --log {log}"
