# What a run with head removal adds: its pairs, shards and tables; nothing where the config has no `removal`.
from headgeom import estimates

REMOVAL = config.get("removal")
REMOVAL_PAIRS = [pair for pair in PAIRS if REMOVAL and pair[0] in REMOVAL["models"] and pair[1] in REMOVAL["corpora"]]
OF_REMOVAL = ["head_scores", "removal", "regime_ablation", "head_scan", "critical_heads"]
REMOVAL_TABLES = OF_REMOVAL if REMOVAL_PAIRS else []
ALL_TABLES = TABLES + REMOVAL_TABLES
REMOVAL_SCORES = estimates.removal_jobs(config)["removal"] if REMOVAL else []
REMOVAL_SHARDS = [f"{shard}-of-{REMOVAL['scan_shards']}" for shard in range(REMOVAL["scan_shards"])] if REMOVAL else []
if not REMOVAL_PAIRS:
    FIGURES = {name: figure for name, figure in FIGURES.items() if not figure.get("removal")}


def removal_settings(wildcards, *names, **values):
    """Settings of a stage that runs the model on windows; ``names`` are keys of `removal`."""
    return settings(
        model=wildcards.model,
        corpus=wildcards.corpus,
        device=config["device"],
        dtype=MODELS[wildcards.model]["dtype"],
        **{name: REMOVAL[name] for name in names},
        **values,
    )


def removal_parts():
    """Scores and losses that the tables of head removal are made of, by kind."""
    return {
        "scores": of_removal_pairs("results/{run}/removal/{model}/{corpus}/head_scores.csv"),
        "losses": of_removal_pairs("results/{run}/removal/{model}/{corpus}/losses/{score}.csv", score=REMOVAL_SCORES),
        "ablation": of_removal_pairs("results/{run}/removal/{model}/{corpus}/ablation.csv"),
        "scan": of_removal_pairs("results/{run}/removal/{model}/{corpus}/scan/shard-{shard}.csv", shard=REMOVAL_SHARDS),
    }


def of_removal_pairs(pattern, **lists):
    """A path for each pair whose heads are removed, and each combination of the ``lists``."""
    return [
        path
        for model, corpus in REMOVAL_PAIRS
        for path in expand(pattern, run=RUN, model=model, corpus=corpus, **lists)
    ]
