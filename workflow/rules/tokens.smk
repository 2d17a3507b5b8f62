# One token window a document, and the splits.


rule tokenize:
    input:
        checkpoint="resources/models/{model}/checkpoint",
        documents="resources/corpora/{corpus}/documents.parquet",
    output:
        f"results/{RUN}/tokens/{{model}}/{{corpus}}.parquet",
    log:
        f"results/{RUN}/logs/tokenize/{{model}}/{{corpus}}.log",
    benchmark:
        f"results/{RUN}/benchmarks/tokenize/{{model}}/{{corpus}}.tsv"
    conda:
        "../../envs/torch.yaml"
    threads: 1
    resources:
        mem_mb=2000,
    params:
        settings=lambda wildcards: settings(
            model=wildcards.model,
            corpus=wildcards.corpus,
            seed=config["seed"],
            bos=MODELS[wildcards.model]["bos"],
            **config["windows"],
        ),
        code=closure.stage("tokenize"),
    message:
        "Cutting windows of {wildcards.corpus} for {wildcards.model}"
    shell:
        "python workflow/run.py tokenize --settings {params.settings:q} --checkpoint {input.checkpoint} --documents {input.documents}"
        " --output {output} --log {log}"
