# Models and corpora: pinned (those of the hub), fetched once, verified, converted once.


rule pin:
    output:
        update("config/pins/{role}-{name}.json"),
    log:
        "resources/logs/pin/{role}-{name}.log",
    benchmark:
        "resources/benchmarks/pin/{role}-{name}.tsv"
    wildcard_constraints:
        role="model|corpus",
        name="[^/]+",
    # Downloads take hours, and a source that is not there should stop the run before them.
    priority: 100
    localrule: True
    conda:
        "../../envs/resources.yaml"
    threads: 1
    resources:
        mem_mb=500,
    params:
        settings=lambda wildcards: settings(
            name=wildcards.name, role=wildcards.role, source=ENTRIES[wildcards.role][wildcards.name]["source"]
        ),
    message:
        "Pinning {wildcards.role} {wildcards.name}"
    shell:
        "python workflow/run.py pin --settings {params.settings:q} --output {output} --log {log}"


rule pins:
    input:
        lock_files(),


rule fetch_model:
    input:
        lambda wildcards: fetched_from(MODELS[wildcards.model], "model"),
    output:
        directory("resources/models/{model}/source"),
    log:
        "resources/logs/fetch_model/{model}.log",
    benchmark:
        "resources/benchmarks/fetch_model/{model}.tsv"
    localrule: True
    conda:
        "../../envs/resources.yaml"
    threads: 1
    resources:
        mem_mb=1000,
    params:
        settings=lambda wildcards, input: resource(MODELS[wildcards.model], "model"),
        pin=lambda wildcards: [f"--pin={path}" for path in lock_file(MODELS[wildcards.model], "model")],
        code=closure.stage("fetch"),
    message:
        "Fetching model {wildcards.model}"
    shell:
        "python workflow/run.py fetch --settings {params.settings:q} {params.pin:q} --output {output} --log {log}"


rule convert_model:
    input:
        "resources/models/{model}/source",
    output:
        directory("resources/models/{model}/checkpoint"),
    log:
        "resources/logs/convert_model/{model}.log",
    benchmark:
        "resources/benchmarks/convert_model/{model}.tsv"
    conda:
        "../../envs/torch.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, input, attempt: conversion_memory(input[0], attempt),
        runtime=lambda wildcards, attempt: 60 * attempt,
    params:
        settings=lambda wildcards: settings(name=wildcards.model, **stated_shape(wildcards.model)),
        code=closure.stage("convert_model"),
    message:
        "Converting model {wildcards.model}"
    shell:
        "python workflow/run.py convert_model --settings {params.settings:q} --threads {threads} --source {input} --output {output}"
        " --log {log}"


rule fetch_corpus:
    input:
        lambda wildcards: fetched_from(CORPORA[wildcards.corpus], "corpus"),
    output:
        directory("resources/corpora/{corpus}/source"),
    log:
        "resources/logs/fetch_corpus/{corpus}.log",
    benchmark:
        "resources/benchmarks/fetch_corpus/{corpus}.tsv"
    localrule: True
    conda:
        "../../envs/resources.yaml"
    threads: 1
    resources:
        mem_mb=1000,
    params:
        settings=lambda wildcards, input: resource(CORPORA[wildcards.corpus], "corpus"),
        pin=lambda wildcards: [f"--pin={path}" for path in lock_file(CORPORA[wildcards.corpus], "corpus")],
        code=closure.stage("fetch"),
    message:
        "Fetching corpus {wildcards.corpus}"
    shell:
        "python workflow/run.py fetch --settings {params.settings:q} {params.pin:q} --output {output} --log {log}"


rule convert_corpus:
    input:
        "resources/corpora/{corpus}/source",
    output:
        "resources/corpora/{corpus}/documents.parquet",
    log:
        "resources/logs/convert_corpus/{corpus}.log",
    benchmark:
        "resources/benchmarks/convert_corpus/{corpus}.tsv"
    conda:
        "../../envs/resources.yaml"
    threads: 1
    resources:
        mem_mb=2000,
    params:
        settings=lambda wildcards: settings(
            name=wildcards.corpus,
            format=CORPORA[wildcards.corpus]["format"],
            columns=CORPORA[wildcards.corpus]["columns"],
        ),
        code=closure.stage("convert_corpus"),
    message:
        "Converting corpus {wildcards.corpus}"
    shell:
        "python workflow/run.py convert_corpus --settings {params.settings:q} --source {input} --output {output} --log {log}"
