# What the stages share: how they are called, the slices of the config that they depend on, and the names of files.
import json
import os
import shlex
import sys

import closure
import yaml
from headgeom import licences
from snakemake.settings.types import DeploymentMethod

# Inside a conda environment `python` is the environment's; otherwise it is the one that runs Snakemake.
# Packages of the user's own site or PYTHONPATH would come before the pinned ones.
PREFIX = "set -euo pipefail; export PYTHONNOUSERSITE=1; unset PYTHONPATH; "
# glibc gives large temporaries back to the system and asks for them again at every step, for up to a quarter of a job's
# time; with these it keeps up to 256 MiB (benchmarks/README.md).
PREFIX += "export MALLOC_MMAP_THRESHOLD_=134217728 MALLOC_TRIM_THRESHOLD_=268435456; "
if DeploymentMethod.CONDA not in workflow.deployment_settings.deployment_method:
    PREFIX += f"export PATH={shlex.quote(str(Path(sys.executable).parent))}:$PATH; "
shell.prefix(PREFIX)

PAPER = "paper/replication.typ"
PAPER_PARTS = sorted(f"paper/{path.name}" for path in Path(workflow.basedir, "paper").iterdir() if path.is_file())
PAPER_PARTS.remove(PAPER)

# As a user would name it in a command.
CONFIG = os.path.relpath((workflow.overwrite_configfiles or ["config/config.yaml"])[-1])

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
    "contrasts",
    "bounds",
    "tightness",
    "prediction",
    "violations",
    "certificates",
    "interpretation",
]

with open(f"{workflow.basedir}/workflow/notebooks/inputs.yaml") as stream:
    FIGURES = EVERY_FIGURE = yaml.safe_load(stream)


def settings(**values):
    """A stage's settings as JSON; Snakemake runs the stage again when they change."""
    return json.dumps(values, sort_keys=True)


def resource(entry, role):
    """The settings that fetching a model or a corpus depends on; of a hub source, with the revision of its lock."""
    source = {key: value for key, value in entry["source"].items() if key not in ("branch", "gated")}
    for lock in lock_file(entry, role):
        if not Path(lock).is_file():
            raise FileNotFoundError(2, "not pinned yet", lock)  # Snakemake takes it for "to be determined"
        source["revision"] = json.loads(Path(lock).read_text(encoding="utf-8"))["revision"]
    return settings(name=entry["name"], role=role, licence=entry["licence"], source=source)


def lock_file(entry, role):
    """The lock file of a hub source, in a list; an empty list for other kinds."""
    return [f"config/pins/{role}-{entry['name']}.json"] if entry["source"]["kind"] == "hub" else []


def lock_files():
    """All lock files of the run."""
    entries = [*((entry, "model") for entry in MODELS.values()), *((entry, "corpus") for entry in CORPORA.values())]
    return [path for entry, role in entries for path in lock_file(entry, role)]


def fetched_from(entry, role):
    """Input of a fetch: local files, or the lock, a change of which Snakemake sees by its content."""
    return local_source(entry) or lock_file(entry, role)


def require_writable():
    """Before the jobs start: stop if a folder of the run is read-only."""
    for name in ("results", "figures", "paper"):
        for folder in (name, f"{name}/{RUN}"):
            if Path(folder).exists() and not os.access(folder, os.W_OK):
                raise WorkflowError(f"{folder}: this folder may not be written to; make it writable, or run elsewhere")


def require_access(jobs):
    """Before the jobs start: stop unless the licences of what they fetch are accepted."""
    outputs = {str(job.output[0]) for job in jobs if job.rule.name in ("fetch_model", "fetch_corpus")}
    try:
        told = licences.require_access(
            {
                "model": [entry for entry in MODELS.values() if f"resources/models/{entry['name']}/source" in outputs],
                "corpus": [
                    entry for entry in CORPORA.values() if f"resources/corpora/{entry['name']}/source" in outputs
                ],
            }
        )
    except UserError as error:
        raise WorkflowError(str(error)) from None
    if told:
        logger.info(told)


def local_source(entry):
    """The files of a local source, so that a change of any is seen; nothing for other kinds."""
    path = entry["source"].get("path")
    if path is not None and Path(path).is_dir():
        files = (file for file in Path(path).rglob("*") if file.is_file())
        return sorted(str(file) for file in files if not any(part[0] == "." for part in file.relative_to(path).parts))
    return path or []


def shards(wildcards):
    """The shards of a (model, corpus) pair."""
    return shards_of(wildcards.model, wildcards.corpus)


def shards_of(model, corpus):
    """The same by name."""
    count = config["extraction"]["shards"]
    return [f"results/{RUN}/geometry/{model}/{corpus}/shard-{shard}-of-{count}.nc" for shard in range(count)]


def geometry():
    """The shards of all pairs."""
    return [path for pair in PAIRS for path in shards_of(*pair)]


def tables(names=TABLES):
    """Paths of tables of this run."""
    return [f"results/{RUN}/tables/{name}.csv" for name in names]


def of_pairs(pattern):
    """A path for each (model, corpus) pair, in the config's order."""
    return [pattern.format(run=RUN, model=model, corpus=corpus) for model, corpus in PAIRS]


def named(entries, *keys):
    """What the tables say of models or corpora besides measurements."""
    return [{key: entry[key] for key in keys} for entry in entries.values()]


def repositories():
    """Of each model the hub repository that it comes from, or None: the paper's models are told by it."""
    return [
        {"name": name, "title": model.get("title", name), "repository": model["source"].get("repository")}
        for name, model in MODELS.items()
    ]


def figures():
    """The run's figures."""
    return [f"figures/{RUN}/{name}.pdf" for name in FIGURES]


def gguf_files():
    """The name of the GGUF file of each model that comes from one, without the number of its part."""
    found = {}
    for name, model in MODELS.items():
        source = model["source"]
        paths = [file["member"] for file in source.get("files", [])] or [source.get("path", "")]
        if ".gguf" in paths[0]:
            found[name] = Path(paths[0]).name.removesuffix(".part00")
    return found


def paper_settings():
    """What the paper says of the run besides its results."""
    with open(f"{workflow.basedir}/config/claims.yaml") as stream:
        named = yaml.safe_load(stream)["models"]
    return settings(
        run=RUN,
        **{key: config["windows"][key] for key in ("length", "documents")},
        **{key: config["extraction"][key] for key in ("sizes", "repeats", "queries")},
        **config["statistics"],
        paper_models=[model["name"] for model in repositories() if model["repository"] in named],
        all_paper_models=list(named.values()),
        gguf=gguf_files(),
    )
