"""Join the tables of all models and corpora of a run, and list the models and corpora themselves."""

import argparse
import itertools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from .. import interpretation, provenance, tables
from ..errors import UserError
from ..files import sha256
from ..table_files import read_table, wide, with_interval, write_table
from ..taxonomy import agreement

# Each table: the folder (metrics, taxonomy or bounds) and the file of its parts.
PARTS = {
    "separability": [("metrics", "separability")],
    "sink_effect": [("metrics", "sink_effect")],
    "sink_geometry": [("metrics", "sink_geometry")],
    "sink_heads": [("metrics", "sink_heads")],
    "depth": [("metrics", "depth"), ("taxonomy", "depth_regimes")],
    "heads": [("taxonomy", "heads")],
    "taxonomy": [("taxonomy", "taxonomy")],
    "stability": [("taxonomy", "stability")],
    "alignment": [("taxonomy", "alignment")],
    "similarity": [("metrics", "similarity")],
    "attention_profile": [("metrics", "attention_profile")],
    "first_version": [("metrics", "first_version")],
    "contrasts": [("metrics", "contrasts"), ("taxonomy", "contrasts")],
    "bounds": [("bounds", "bounds")],
    "tightness": [("bounds", "tightness")],
    "prediction": [("bounds", "prediction")],
    "violations": [("bounds", "violations")],
    "certificates": [("bounds", "certificates")],
}
COUNTS = ("layers", "heads", "key_value_heads", "head_dim", "sliding_window", "sliding_layers", "parameters")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the stage's options.

    Settings: models and corpora, lists of {name, title, licence}; of a model also dtype. All lists of files follow
    the order of the run's config, which is the order of the tables' rows.
    """
    parser.add_argument("--metrics", type=Path, nargs="+", required=True, metavar="DIR", help="of each pair")
    parser.add_argument("--taxonomy", type=Path, nargs="+", required=True, metavar="DIR", help="of each pair")
    parser.add_argument("--bounds", type=Path, nargs="+", required=True, metavar="DIR", help="of each pair")
    parser.add_argument("--models", type=Path, nargs="+", required=True, metavar="JSON", help="their provenance")
    parser.add_argument("--tokens", type=Path, nargs="+", required=True, metavar="PARQUET", help="of each pair")
    parser.add_argument("--output", type=Path, required=True, metavar="DIR", help="folder of the tables")


def run(options: argparse.Namespace) -> None:
    """Write each table as CSV and JSON, and the small ones as Markdown."""
    settings = options.settings
    folders = {"metrics": options.metrics, "taxonomy": options.taxonomy, "bounds": options.bounds}
    for name, parts in PARTS.items():
        paths = [folder / f"{file}.csv" for kind, file in parts for folder in folders[kind]]
        frame = pd.concat([read_table(path) for path in paths], ignore_index=True)
        inputs = {"/".join(path.parts[-3:]): sha256(path) for path in paths}
        sources = {"/".join(path.parts[-3:-1]): _record(path)["sources"] for path in paths}
        if name == "stability":
            heads = [folder / "heads.csv" for folder in options.taxonomy]
            frame = pd.concat([frame, between_corpora([read_table(path) for path in heads])], ignore_index=True)
            inputs |= {"/".join(path.parts[-3:]): sha256(path) for path in heads}
        record = provenance.record("tables", settings, sources=sources, inputs=inputs)
        write_table(options.output, name, frame, record, readable(name, frame))
    write_interpretation(options)
    tokens = [Tokens.read(path) for path in options.tokens]
    write_models(options, tokens)
    write_corpora(options, tokens)


def _record(table: Path) -> dict[str, Any]:
    return json.loads(table.with_suffix(".json").read_text(encoding="utf-8"))


def write_interpretation(options: argparse.Namespace) -> None:
    """The table ``interpretation``, from the tables that are there already."""
    paths = {name: options.output / f"{name}.csv" for name in ("separability", "taxonomy", "contrasts")}
    frame = interpretation.rows(**{name: read_table(path) for name, path in paths.items()})
    inputs = {path.name: sha256(path) for path in paths.values()}
    sources = {path.name: _record(path)["sources"] for path in paths.values()}
    record = provenance.record("tables", options.settings, sources=sources, inputs=inputs)
    write_table(options.output, "interpretation", frame, record, frame)


def between_corpora(heads: list[pd.DataFrame]) -> pd.DataFrame:
    """Agreement of the heads' regimes between each two corpora, model by model, as rows of ``stability``."""
    rows = []
    for first, second in itertools.combinations(heads, 2):
        (model, corpus), (other_model, other_corpus) = (frame.loc[0, ["model", "corpus"]] for frame in (first, second))
        if model == other_model:
            share = agreement(first["regime"].to_numpy(), second["regime"].to_numpy())
            rows.append((model, None, "corpora", corpus, other_corpus, len(first), share))
    return pd.DataFrame(
        rows, columns=["model", "corpus", "comparison", "first", "second", "heads", "agreement"]
    ).astype({"heads": "int64", "agreement": "float64"})


def readable(name: str, frame: pd.DataFrame) -> pd.DataFrame | None:
    """The table as a reader wants it, sizes or quantities side by side; None for those too long to read."""
    match name:
        case "separability":
            return wide(with_interval(frame).drop(columns="documents"), "size", "mean", "N = ")
        case "sink_effect":
            return wide(with_interval(frame, "ratio").drop(columns="share"), "size", "ratio", "N = ")
        case "sink_geometry":
            return wide(with_interval(frame), "quantity", "mean")
        case "taxonomy":
            return with_interval(frame, "share")
        case "stability" | "violations" | "certificates":
            return frame
    return None


@dataclass(frozen=True)
class Tokens:
    """The windows of one (model, corpus) pair: the provenance in their file, and the split of each document."""

    record: dict[str, Any]
    splits: list[str]
    sha256: str

    @classmethod
    def read(cls, path: Path) -> "Tokens":
        """From a Parquet of windows."""
        frame, record = tables.read_parquet(path)
        return cls(record, list(frame["split"]), sha256(path))

    @property
    def model(self) -> str:
        """The model whose tokens these are."""
        return self.record["settings"]["model"]

    @property
    def corpus(self) -> str:
        """The corpus that was tokenized."""
        return self.record["settings"]["corpus"]


def write_models(options: argparse.Namespace, tokens: list[Tokens]) -> None:
    """The table ``models``; its Markdown has a column a model."""
    entries = options.settings["models"]
    if len(entries) != len(options.models):
        raise UserError(f"{len(options.models)} provenance files of models for {len(entries)} models in the settings")
    bos = {pair.model: pair.record["bos"] for pair in tokens}
    rows, inputs, sources = [], {}, {}
    for entry, path in zip(entries, options.models, strict=True):
        name, record = entry["name"], json.loads(path.read_text(encoding="utf-8"))
        rows.append(model_row(entry, record, bos.get(name)))
        inputs[f"{name}/{path.name}"] = sha256(path)
        sources[name] = record["source"]
    frame = pd.DataFrame(rows).astype(dict.fromkeys(COUNTS, "Int64"))
    turned = frame.astype(object).set_index("model").T.rename_axis("model").rename_axis(None, axis=1).reset_index()
    record = provenance.record("tables", options.settings, sources=sources, inputs=inputs)
    write_table(options.output, "models", frame, record, turned)


def model_row(entry: dict[str, Any], record: dict[str, Any], bos: dict[str, Any] | None) -> dict[str, Any]:
    """A row of ``models`` from the config's entry, the checkpoint's provenance and the BOS that the windows open with.

    ``sliding_layers`` is their number; they are listed in the provenance.
    """
    counts = {name: record[name] for name in COUNTS}
    return {
        "model": entry["name"],
        "title": entry.get("title", entry["name"]),
        "architecture": record["model_class"],
        **counts | {"sliding_layers": len(counts["sliding_layers"])},
        "dtype": entry.get("dtype", record["stored_dtype"]),
        "bos": None if bos is None else f"{bos['token']} ({bos['rule']})",
        **source_columns(entry, record["source"]),
    }


def write_corpora(options: argparse.Namespace, tokens: list[Tokens]) -> None:
    """The table ``corpora``, a row a (model, corpus) pair: how many documents have a window depends on the model."""
    entries = {entry["name"]: entry for entry in options.settings["corpora"]}
    frame = pd.DataFrame([corpus_row(entries[pair.corpus], pair) for pair in tokens])
    record = provenance.record(
        "tables",
        options.settings,
        sources={f"{pair.model}/{pair.corpus}": pair.record["sources"] for pair in tokens},
        inputs={f"{pair.model}/{pair.corpus}.parquet": pair.sha256 for pair in tokens},
    )
    write_table(options.output, "corpora", frame, record, frame.drop(columns="sha256"))


def corpus_row(entry: dict[str, Any], pair: Tokens) -> dict[str, Any]:
    """A row of ``corpora``; ``read`` counts the documents tokenized until the splits were full."""
    corpus, record = pair.record["sources"]["corpus"], pair.record
    return {
        "corpus": pair.corpus,
        "title": entry.get("title", pair.corpus),
        "model": pair.model,
        "length": record["settings"]["length"],
        "documents": record["documents"],
        "duplicates": corpus["duplicates"],
        **{name: record[name] for name in ("read", "too_short")},
        **{split: pair.splits.count(split) for split in ("geometry", "score", "evaluate")},
        **source_columns(entry, corpus["source"]),
    }


def source_columns(entry: dict[str, Any], source: dict[str, Any]) -> dict[str, str]:
    """Licence, origin in one line (packages, repository and revision, or a path in the project), and hash."""
    match source["kind"]:
        case "pypi":
            packages = dict.fromkeys(member["package"] for member in source["packages"])
            origin = f"PyPI: {', '.join(packages)}"
        case "hub":
            origin = f"Hugging Face Hub: {source['repository']} @ {source['revision']}"
        case _:
            origin = f"local: {source['path']}"
    return {"licence": entry.get("licence", source["licence"]), "source": origin, "sha256": source["sha256"]}
