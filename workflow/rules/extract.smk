# Counts and geometry of every head, by shards of documents.


rule extract:
    input:
        checkpoint="resources/models/{model}/checkpoint",
        tokens=f"results/{RUN}/tokens/{{model}}/{{corpus}}.parquet",
    output:
        f"results/{RUN}/geometry/{{model}}/{{corpus}}/shard-{{shard,[0-9]+}}-of-{{shards,[0-9]+}}.nc",
    log:
        f"results/{RUN}/logs/extract/{{model}}/{{corpus}}/shard-{{shard}}-of-{{shards}}.log",
    benchmark:
        f"results/{RUN}/benchmarks/extract/{{model}}/{{corpus}}/shard-{{shard}}-of-{{shards}}.tsv"
    conda:
        "../../envs/torch.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, input, attempt: extraction_memory(wildcards.model, input.checkpoint, attempt),
        runtime=lambda wildcards, input, attempt: extraction_time(wildcards.model, input.checkpoint, attempt),
        gpu=lambda wildcards: gpus(wildcards.model),
    params:
        settings=lambda wildcards: settings(
            **config["extraction"]
            | dict(
                model=wildcards.model,
                corpus=wildcards.corpus,
                seed=config["seed"],
                length=config["windows"]["length"],
                device=config["device"],
                dtype=MODELS[wildcards.model]["dtype"],
                shard=int(wildcards.shard),
                shards=int(wildcards.shards),
            )
        ),
        code=closure.stage("extract"),
    message:
        "Measuring the heads of {wildcards.model} on {wildcards.corpus}, shard {wildcards.shard} of {wildcards.shards}"
    shell:
        "python workflow/run.py extract --settings {params.settings:q} --threads {threads} --checkpoint {input.checkpoint}"
        " --tokens {input.tokens} --output {output} --log {log}"
