# Head removal: scores of heads, losses of pruned models, regime ablation, the single-head scan, and their tables.


rule head_scores:
    input:
        checkpoint="resources/models/{model}/checkpoint",
        tokens=f"results/{RUN}/tokens/{{model}}/{{corpus}}.parquet",
        geometry=shards,
        taxonomy=f"results/{RUN}/taxonomy/{{model}}/{{corpus}}",
    output:
        csv=f"results/{RUN}/removal/{{model}}/{{corpus}}/head_scores.csv",
        provenance=f"results/{RUN}/removal/{{model}}/{{corpus}}/head_scores.json",
    log:
        f"results/{RUN}/logs/head_scores/{{model}}/{{corpus}}.log",
    benchmark:
        f"results/{RUN}/benchmarks/head_scores/{{model}}/{{corpus}}.tsv"
    conda:
        "../../envs/torch.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, input, attempt: removal_memory(wildcards.model, input.checkpoint, attempt),
        runtime=lambda wildcards, input, attempt: removal_time("head_scores", wildcards, input.checkpoint, attempt),
        gpu=lambda wildcards: gpus(wildcards.model),
    params:
        settings=lambda wildcards: removal_settings(
            wildcards, length=config["windows"]["length"], queries=config["extraction"]["queries"]
        ),
        code=closure.stage("head_scores"),
    message:
        "Scoring the heads of {wildcards.model} on {wildcards.corpus}"
    shell:
        "python workflow/run.py head_scores --settings {params.settings:q} --threads {threads} --checkpoint {input.checkpoint}"
        " --tokens {input.tokens} --geometry {input.geometry} --taxonomy {input.taxonomy} --output {output.csv} --log {log}"


rule removal:
    input:
        checkpoint="resources/models/{model}/checkpoint",
        tokens=f"results/{RUN}/tokens/{{model}}/{{corpus}}.parquet",
        scores=f"results/{RUN}/removal/{{model}}/{{corpus}}/head_scores.csv",
    output:
        csv=f"results/{RUN}/removal/{{model}}/{{corpus}}/losses/{{score,[a-z_]+}}.csv",
        provenance=f"results/{RUN}/removal/{{model}}/{{corpus}}/losses/{{score}}.json",
    log:
        f"results/{RUN}/logs/removal/{{model}}/{{corpus}}/{{score}}.log",
    benchmark:
        f"results/{RUN}/benchmarks/removal/{{model}}/{{corpus}}/{{score}}.tsv"
    conda:
        "../../envs/torch.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, input, attempt: removal_memory(wildcards.model, input.checkpoint, attempt),
        runtime=lambda wildcards, input, attempt: removal_time("removal", wildcards, input.checkpoint, attempt),
        gpu=lambda wildcards: gpus(wildcards.model),
    params:
        settings=lambda wildcards: removal_settings(
            wildcards, "retentions", "seeds", "batch_size", seed=config["seed"], score=wildcards.score
        ),
        code=closure.stage("removal"),
    message:
        "Removing heads of {wildcards.model} by {wildcards.score}, losses on {wildcards.corpus}"
    shell:
        "python workflow/run.py removal --settings {params.settings:q} --threads {threads} --checkpoint {input.checkpoint}"
        " --tokens {input.tokens} --scores {input.scores} --output {output.csv} --log {log}"


rule regime_ablation:
    input:
        checkpoint="resources/models/{model}/checkpoint",
        tokens=f"results/{RUN}/tokens/{{model}}/{{corpus}}.parquet",
        taxonomy=f"results/{RUN}/taxonomy/{{model}}/{{corpus}}",
    output:
        csv=f"results/{RUN}/removal/{{model}}/{{corpus}}/ablation.csv",
        provenance=f"results/{RUN}/removal/{{model}}/{{corpus}}/ablation.json",
    log:
        f"results/{RUN}/logs/regime_ablation/{{model}}/{{corpus}}.log",
    benchmark:
        f"results/{RUN}/benchmarks/regime_ablation/{{model}}/{{corpus}}.tsv"
    conda:
        "../../envs/torch.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, input, attempt: removal_memory(wildcards.model, input.checkpoint, attempt),
        runtime=lambda wildcards, input, attempt: removal_time("regime_ablation", wildcards, input.checkpoint, attempt),
        gpu=lambda wildcards: gpus(wildcards.model),
    params:
        settings=lambda wildcards: removal_settings(
            wildcards, "ablation_share", "seeds", "batch_size", seed=config["seed"]
        ),
        code=closure.stage("regime_ablation"),
    message:
        "Removing heads of {wildcards.model} regime by regime, losses on {wildcards.corpus}"
    shell:
        "python workflow/run.py regime_ablation --settings {params.settings:q} --threads {threads}"
        " --checkpoint {input.checkpoint} --tokens {input.tokens} --taxonomy {input.taxonomy} --output {output.csv}"
        " --log {log}"


rule head_scan:
    input:
        checkpoint="resources/models/{model}/checkpoint",
        tokens=f"results/{RUN}/tokens/{{model}}/{{corpus}}.parquet",
    output:
        csv=f"results/{RUN}/removal/{{model}}/{{corpus}}/scan/shard-{{shard,[0-9]+}}-of-{{shards,[0-9]+}}.csv",
        provenance=f"results/{RUN}/removal/{{model}}/{{corpus}}/scan/shard-{{shard}}-of-{{shards}}.json",
    log:
        f"results/{RUN}/logs/head_scan/{{model}}/{{corpus}}/shard-{{shard}}-of-{{shards}}.log",
    benchmark:
        f"results/{RUN}/benchmarks/head_scan/{{model}}/{{corpus}}/shard-{{shard}}-of-{{shards}}.tsv"
    conda:
        "../../envs/torch.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, input, attempt: removal_memory(wildcards.model, input.checkpoint, attempt),
        runtime=lambda wildcards, input, attempt: removal_time("head_scan", wildcards, input.checkpoint, attempt),
        gpu=lambda wildcards: gpus(wildcards.model),
    params:
        settings=lambda wildcards: removal_settings(
            wildcards, "scan_documents", "batch_size", shard=int(wildcards.shard), shards=int(wildcards.shards)
        ),
        code=closure.stage("head_scan"),
    message:
        "Removing each head of {wildcards.model} alone, losses on {wildcards.corpus}, shard {wildcards.shard} of {wildcards.shards}"
    shell:
        "python workflow/run.py head_scan --settings {params.settings:q} --threads {threads} --checkpoint {input.checkpoint}"
        " --tokens {input.tokens} --output {output.csv} --log {log}"


# Not part of a run; asked for by its folder: results/laptop/pruned/smollm2-135m/wikipedia/taxonomy-0.9
rule export:
    input:
        checkpoint="resources/models/{model}/checkpoint",
        scores=f"results/{RUN}/removal/{{model}}/{{corpus}}/head_scores.csv",
    output:
        directory(f"results/{RUN}/pruned/{{model}}/{{corpus}}/{{score,[a-z_]+}}-{{retention,0\\.[0-9]+}}"),
    log:
        f"results/{RUN}/logs/export/{{model}}/{{corpus}}/{{score}}-{{retention}}.log",
    benchmark:
        f"results/{RUN}/benchmarks/export/{{model}}/{{corpus}}/{{score}}-{{retention}}.tsv"
    conda:
        "../../envs/torch.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, input, attempt: conversion_memory(input.checkpoint, attempt),
        runtime=lambda wildcards, attempt: 60 * attempt,
    params:
        settings=lambda wildcards: settings(
            model=wildcards.model,
            corpus=wildcards.corpus,
            seed=config["seed"],
            score=wildcards.score,
            retention=float(wildcards.retention),
        ),
        code=closure.stage("export"),
    message:
        "Writing {wildcards.model} with {wildcards.retention} of its heads by {wildcards.score}"
    shell:
        "python workflow/run.py export --settings {params.settings:q} --checkpoint {input.checkpoint} --scores {input.scores}"
        " --output {output} --log {log}"
