# Every figure is a notebook that reads the run's tables: workflow/notebooks/inputs.yaml says which.


rule figure:
    input:
        tables=lambda wildcards: tables(FIGURES[wildcards.figure]["tables"]),
        notebook="workflow/notebooks/{figure}.py",
    output:
        pdf=reported_figure("pdf", "PDF"),
        png=reported_figure("png", "image"),
        notebook=f"figures/{RUN}/{{figure}}.ipynb",
        html=reported_figure("html", "notebook"),
        provenance=f"figures/{RUN}/{{figure}}.json",
    log:
        f"results/{RUN}/logs/figure/{{figure}}.log",
    benchmark:
        f"results/{RUN}/benchmarks/figure/{{figure}}.tsv"
    wildcard_constraints:
        figure="|".join(FIGURES),
    conda:
        "../../envs/notebook.yaml"
    threads: 1
    resources:
        mem_mb=1000,
    params:
        settings=settings(run=RUN),
        code=lambda wildcards: closure.digest("headgeom/stages/figure.py", f"notebooks/{wildcards.figure}.py"),
        tables=f"results/{RUN}/tables",
    message:
        "Drawing figure {wildcards.figure}"
    shell:
        "python workflow/run.py figure --settings {params.settings:q} --notebook {input.notebook} --tables {params.tables}"
        " --output {output.pdf} --log {log}"
