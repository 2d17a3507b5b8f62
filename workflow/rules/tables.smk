# The run's tables: all models and corpora together.
PAIRS = [(model, corpus) for model in MODELS for corpus in CORPORA]
TABLES = [
    "models",
    "corpora",
    "separability",
    "sink_effect",
    "sink_geometry",
    "sink_heads",
    "depth",
    "heads",
    "taxonomy",
    "stability",
    "alignment",
    "similarity",
    "attention_profile",
    "first_version",
]


def tables(names=TABLES):
    """Paths of tables of this run."""
    return [f"results/{RUN}/tables/{name}.csv" for name in names]


def of_pairs(pattern):
    """A path for each (model, corpus) pair, in the config's order."""
    return [pattern.format(run=RUN, model=model, corpus=corpus) for model, corpus in PAIRS]


def named(entries, *keys):
    """What the tables say of models or corpora besides measurements."""
    return [{key: entry[key] for key in keys} for entry in entries.values()]


rule tables:
    input:
        metrics=of_pairs("results/{run}/metrics/{model}/{corpus}"),
        taxonomy=of_pairs("results/{run}/taxonomy/{model}/{corpus}"),
        tokens=of_pairs("results/{run}/tokens/{model}/{corpus}.parquet"),
        checkpoints=[f"resources/models/{model}/checkpoint" for model in MODELS],
    output:
        tables(),
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
        output=f"results/{RUN}/tables",
    message:
        "Joining the tables of run {RUN}"
    shell:
        "{STAGE} tables --settings {params.settings:q} --metrics {input.metrics} --taxonomy {input.taxonomy}"
        " --tokens {input.tokens} --models {params.models} --output {params.output} --log {log}"
