"""Print what a run will take before it is started: `make plan CONFIG=config/paper.yaml`.

Jobs by rule, hours, peak memory, disk and downloads, from the models' shapes and the throughput in
workflow/headgeom/estimates.py. Needs no network and no GPU.
"""

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import runs
from snakemake.utils import update_config

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "workflow"))

from headgeom import estimates, hub  # noqa: E402
from headgeom.config import own_removal, validated  # noqa: E402
from headgeom.errors import UserError  # noqa: E402

GB = 10**9
ROW_BYTES = 5000
UNKNOWN = "  its size is not known, nor in the totals: state its `shape`, or convert it first, as `make reproduce` does"
ASSUMPTIONS = """\
Assumptions
- Time: {flops:.0e} operations a second in the forward pass, {numbers:.1e} numbers a second in the measurement;
  {origin}.
- Head removal: at most, as if each pruned model had whole passes; they start at the first removed head.
- Memory: {libraries:.1f} GB for libraries, the weights, and what measuring holds at once.
- Downloads: a model's size is that of its lock file, else 2 bytes a weight; a streamed document has {row} kB.
- Disk: downloads (checkpoints are hard links where the file system has them, else twice that) and results.
- One try for each job; starting, loading the model in each job and waiting in the queue are not counted.
"""


def load(path: str) -> dict[str, Any]:
    """The config, over the default one as Snakemake lays it. Raises UserError."""
    config, own = (runs.read(file) for file in (ROOT / "config/config.yaml", path))
    if "run" not in own:
        raise UserError(f"{path}: lacks the key 'run'; name the run, as in `run: mine`")
    update_config(config, own)
    return validated(own_removal(config, own), path)


def jobs(path: str) -> str:
    """Snakemake's table of the jobs that are left to do."""
    command = [sys.executable, "-m", "snakemake", "--dry-run", "--cores", "1", "--configfile", path]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UserError((done.stderr or done.stdout).strip())
    table = re.search(r"^job +count\n.*?^total +\d+$", done.stdout + done.stderr, re.MULTILINE | re.DOTALL)
    return table[0] if table else "nothing is left to do"


def shape_of(model: dict[str, Any]) -> estimates.Shape | None:
    """The model's shape, from the config or the checkpoint; None if neither is there."""
    if "shape" in model:
        return estimates.from_config(model["shape"])
    try:
        return estimates.from_checkpoint(ROOT / f"resources/models/{model['name']}/checkpoint")
    except FileNotFoundError:
        return None


def model_bytes(model: dict[str, Any], shape: estimates.Shape) -> int:
    """Size of the download: fetched, locked or guessed."""
    source = ROOT / f"resources/models/{model['name']}/source/source.json"
    lock = ROOT / f"config/pins/model-{model['name']}.json"
    if source.is_file():
        return sum(file["bytes"] for file in json.loads(source.read_text())["files"])
    if lock.is_file():
        return sum(file["bytes"] for file in json.loads(lock.read_text())["files"].values())
    return 2 * shape.parameters


def corpus_bytes(corpus: dict[str, Any]) -> int | None:
    """The same of a corpus; None if it is not known before it is fetched."""
    source = ROOT / f"resources/corpora/{corpus['name']}/source/source.json"
    if source.is_file():
        return sum(file["bytes"] for file in json.loads(source.read_text())["files"])
    documents = corpus["source"].get("documents")
    return None if documents is None else documents * ROW_BYTES


def plan(config: dict[str, Any], seconds: float | None) -> str:
    """The estimate as text; ``seconds``: measured time of a document, instead of the estimate."""
    documents = config["windows"]["documents"]["geometry"] * len(config["corpora"])
    memory = "GPU memory" if config["device"] == "cuda" else "peak memory"
    columns = f"{'weights':>12}{'s/document':>12}{'hours':>9}{memory:>14}{'download':>11}{'results':>10}"
    lines = [f"{'extract':24}{columns}"]
    totals = [0.0, 0.0, 0.0]
    for model in config["models"]:
        shape = shape_of(model)
        if shape is None:
            lines.append(f"{model['name']:24}{UNKNOWN}")
            continue
        each = seconds or estimates.document_seconds(shape, config)
        figures = (
            each * documents / 3600,
            model_bytes(model, shape) / GB,
            estimates.shard_bytes(shape, config) * len(config["corpora"]) / GB,
        )
        totals = [total + figure for total, figure in zip(totals, figures, strict=True)]
        peak = estimates.peak_memory(shape, model["dtype"], config) / GB
        lines.append(
            f"{model['name']:24}{shape.parameters / 1e9:>10.2f} B{each:>12.2f}{figures[0]:>9.2f}{peak:>11.1f} GB"
            f"{figures[1]:>8.1f} GB{figures[2]:>7.2f} GB"
        )
    lines.append(f"{'all':24}{'':24}{totals[0]:>9.2f}{'':14}{totals[1]:>8.1f} GB{totals[2]:>7.2f} GB")
    for corpus in config["corpora"]:
        size = corpus_bytes(corpus)
        known = "not known before it is fetched" if size is None else f"{size / GB:.2f} GB"
        lines.append(f"{corpus['name']:24}download {known}")
    return "\n".join(lines)


def removal_hours(config: dict[str, Any]) -> str:
    """Hours of each rule of head removal, by model, as text; empty for a run without it."""
    removal = config.get("removal")
    if not removal:
        return ""
    rules = estimates.removal_jobs(config)
    lines = [f"{'head removal, hours':24}" + "".join(f"{name:>17}" for name in (*rules, "all"))]
    totals = [0.0] * (len(rules) + 1)
    for model in config["models"]:
        if model["name"] not in removal["models"]:
            continue
        shape = shape_of(model)
        if shape is None:
            lines.append(f"{model['name']:24}{UNKNOWN}")
            continue
        passes = [
            sum(estimates.removal_passes(rule, shape, config, score) for score in jobs) for rule, jobs in rules.items()
        ]
        hours = [
            estimates.passes_seconds(shape, config, each) * len(removal["corpora"]) / 3600
            for each in (*passes, sum(passes))
        ]
        totals = [total + figure for total, figure in zip(totals, hours, strict=True)]
        lines.append(f"{model['name']:24}" + "".join(f"{figure:>17.2f}" for figure in hours))
    lines.append(f"{'all':24}" + "".join(f"{total:>17.2f}" for total in totals))
    return "\n".join(lines)


def gated(config: dict[str, Any]) -> str:
    """Licences to accept; empty if there are none."""
    pages = [
        f"  {entry['name']}: {hub.page(entry['source']['repository'], hub.repo_type(role))}\n"
        for role, kind in (("model", "models"), ("corpus", "corpora"))
        for entry in config[kind]
        if entry["source"].get("gated")
    ]
    return f"Gated, so accept their licences and set HF_TOKEN:\n{''.join(pages)}\n" if pages else ""


def main() -> None:
    """Print the plan of a config."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("config", help="config file")
    parser.add_argument(
        "--seconds", type=float, help="seconds that extract takes for a document of every model, as measured"
    )
    options = parser.parse_args()
    try:
        config = load(options.config)
        table, text = jobs(options.config), plan(config, options.seconds)
    except (UserError, OSError) as error:
        sys.exit(f"plan: {error}")
    device = config["device"]
    where = "GPU" if device == "cuda" else "single-core CPU"
    print(f"Run {config['run']}, on {device}: hours are {where} hours.\n\n{table}\n\n{text}\n")
    print(removal_hours(config), end="\n\n" if config.get("removal") else "")
    origin = "measured on one core" if device == "cpu" else "assumed, for no GPU was measured"
    origin += (
        f"; extract as you measured, {options.seconds} s" if options.seconds else "; or pass --seconds, for extract"
    )
    facts = {"flops": estimates.FLOPS[device], "numbers": estimates.NUMBERS[device], "origin": origin}
    facts |= {"libraries": estimates.LIBRARIES[device] / GB, "row": ROW_BYTES // 1000}
    print(gated(config) + ASSUMPTIONS.format(**facts), end="")


if __name__ == "__main__":
    main()
