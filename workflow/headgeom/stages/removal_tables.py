"""The run's tables of head removal, all models and corpora together, from the losses of every document."""

import argparse
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd

from .. import provenance, removal_tables
from ..files import sha256
from ..statistics import Bootstrap
from ..table_files import labelled, read_table, with_interval, write_table

PAIR = ["model", "corpus"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the stage's options; settings: seed, replicates, confidence. Rows follow the order of the files."""
    for name, files in (
        ("scores", "tables of scores"),
        ("losses", "of every score"),
        ("ablation", "of the regime ablation"),
        ("scan", "of all shards of the scan"),
        ("regimes", "tables of the heads' regimes"),
    ):
        parser.add_argument(f"--{name}", type=Path, nargs="+", required=True, metavar="CSV", help=files)
    parser.add_argument("--output", type=Path, required=True, metavar="DIR", help="folder of the tables")


def run(options: argparse.Namespace) -> None:
    """Write each table as CSV and JSON, and the small ones as Markdown."""
    parts = {name: read(getattr(options, name)) for name in ("losses", "ablation", "scan", "regimes")}
    regimes = dict(iter(parts["regimes"].groupby(PAIR)))
    settings = options.settings

    def scanned(frame: pd.DataFrame, bootstrap: Bootstrap) -> pd.DataFrame:
        return removal_tables.head_scan(frame, regimes[tuple(frame[PAIR].iloc[0])], bootstrap)

    made = {
        "head_scores": read(options.scores),
        "removal": joined(parts["losses"], removal_tables.removal, settings),
        "regime_ablation": joined(parts["ablation"], removal_tables.regime_ablation, settings),
        "head_scan": joined(parts["scan"], scanned, settings),
    }
    worst = [labelled(removal_tables.critical_heads(x), **names) for names, x in of_pairs(made["head_scan"])]
    made["critical_heads"] = pd.concat(worst, ignore_index=True)
    files = {
        "head_scores": options.scores,
        "removal": options.losses,
        "regime_ablation": options.ablation,
        "head_scan": options.scan + options.regimes,
        "critical_heads": options.scan + options.regimes,
    }
    for name, frame in made.items():
        inputs = {"/".join(path.parts[-4:]): sha256(path) for path in files[name]}
        records = (json.loads(path.with_suffix(".json").read_text(encoding="utf-8")) for path in files[name])
        sources = {"/".join(r["settings"][key] for key in PAIR): r["sources"] for r in records}
        record = provenance.record("removal_tables", settings, sources=sources, inputs=inputs)
        write_table(options.output, name, frame, record, readable(name, frame))


def read(paths: list[Path]) -> pd.DataFrame:
    """The files' rows one after the other."""
    return pd.concat(map(read_table, paths), ignore_index=True)


def of_pairs(frame: pd.DataFrame) -> Iterator[tuple[dict[str, str], pd.DataFrame]]:
    """Names and rows of each (model, corpus), in the order of the rows."""
    for names, part in frame.groupby(PAIR, sort=False):
        yield dict(zip(PAIR, names, strict=True)), part


def joined(
    frame: pd.DataFrame, table: Callable[[pd.DataFrame, Bootstrap], pd.DataFrame], settings: dict
) -> pd.DataFrame:
    """``table`` of each (model, corpus); documents are resampled alike in all tables that have as many."""
    tables = []
    for names, part in of_pairs(frame):
        bootstrap = Bootstrap.draw(part["document"].nunique(), **settings)
        tables.append(labelled(table(part, bootstrap), **names))
    return pd.concat(tables, ignore_index=True)


def readable(name: str, frame: pd.DataFrame) -> pd.DataFrame | None:
    """The table as a reader wants it; None for those too long to read."""
    values = {
        "removal": ("loss", "increase", "from_random", "from_baseline"),
        "regime_ablation": ("treated", "control", "difference"),
    }
    if name == "critical_heads":
        return with_interval(frame, "increase")
    if name not in values:
        return None
    for value in values[name]:
        limits = frame.rename(columns={f"{value}_low": "low", f"{value}_high": "high"})
        frame = with_interval(limits, value)
    return frame
