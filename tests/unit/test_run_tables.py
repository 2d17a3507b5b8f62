"""The tables of a whole run: nothing is lost or rounded on the way from the parts, and they read well."""

import argparse
import json

import numpy as np
import pandas as pd
import pytest

import synthetic
from headgeom import table_files
from headgeom.errors import UserError
from headgeom.stages import bounds, metrics, tables, taxonomy
from headgeom.tables import write_parquet

MODELS, CORPORA = ("big", "NA"), ("news", "007")  # names that a CSV reader could take for something else
PYPI = {"kind": "pypi", "packages": [{"package": "a==1", "member": "x"}, {"package": "a==1", "member": "y"}]}
HUB = {"kind": "hub", "repository": "org/model", "revision": "0" * 40}
SOURCES = {"big": HUB, "NA": PYPI, "news": PYPI, "007": {"kind": "local", "path": "data/texts.csv"}}
SETTINGS = {
    "models": [{"name": "big", "title": "Big", "licence": "Free", "dtype": "bfloat16"}, {"name": "NA"}],
    "corpora": [{"name": "news", "title": "News | all"}, {"name": "007"}],
}


def source(name):
    return SOURCES[name] | {"licence": "stated there", "files": [], "sha256": name * 3}


def model_provenance(name):
    counts = {"layers": 3, "heads": 4, "key_value_heads": 2, "head_dim": 8, "parameters": 123456789}
    window = {
        "big": {"sliding_window": 10, "sliding_layers": [1]},
        "NA": {"sliding_window": None, "sliding_layers": []},
    }
    return (
        {"model_class": "LlamaForCausalLM", "stored_dtype": "float32", "source": source(name)} | counts | window[name]
    )


def write_tokens(path, model, corpus):
    splits = ["geometry"] * 5 + ["score"] * 2 + ["evaluate"]
    frame = pd.DataFrame({"split": splits, "tokens": [[1, 2]] * 8})
    record = {
        "settings": {"model": model, "corpus": corpus, "length": 16},
        "sources": {"model": {}, "corpus": {"source": source(corpus), "duplicates": 7, "documents": 30}},
        "bos": {"token": 1, "rule": "bos of tokenizer"},
        "documents": 30,
        "too_short": 3,
        "read": 11,
    }
    write_parquet(frame, path, record)


@pytest.fixture(scope="module")
def options(tmp_path_factory):
    """The parts of two models on two corpora, and the stage's options."""
    folder = tmp_path_factory.mktemp("run")
    paths = {"metrics": [], "taxonomy": [], "bounds": [], "models": [], "tokens": []}
    for number, (model, corpus) in enumerate((m, c) for m in MODELS for c in CORPORA):
        data = synthetic.geometry(distances=("euclidean",), seed=number)
        shards = synthetic.write_shards(data, folder / "geometry" / model / corpus, 1)
        settings = {"model": model, "corpus": corpus, "seed": 1, "replicates": 20, "confidence": 0.9}
        for stage, name in ((metrics, "metrics"), (taxonomy, "taxonomy")):
            paths[name].append(folder / name / model / corpus)
            stage.run(argparse.Namespace(settings=settings, geometry=shards, output=paths[name][-1]))
        paths["bounds"].append(folder / "bounds" / model / corpus)
        regimes = {"taxonomy": paths["taxonomy"][-1], "output": paths["bounds"][-1]}
        bounds.run(argparse.Namespace(settings=settings, geometry=shards, **regimes))
        paths["tokens"].append(folder / "tokens" / model / f"{corpus}.parquet")
        write_tokens(paths["tokens"][-1], model, corpus)
    for model in MODELS:
        paths["models"].append(folder / "models" / model / "provenance.json")
        paths["models"][-1].parent.mkdir(parents=True)
        paths["models"][-1].write_text(json.dumps(model_provenance(model)))
    return argparse.Namespace(settings=SETTINGS, output=folder / "tables", **paths)


@pytest.fixture(scope="module")
def output(options):
    tables.run(options)
    return options.output


def test_each_row_of_each_part_stands_in_the_run_table_as_it_was(options, output):
    for name, parts in tables.PARTS.items():
        lines = (output / f"{name}.csv").read_text().splitlines()
        folders = {kind: getattr(options, kind) for kind in ("metrics", "taxonomy", "bounds")}
        texts = [(folder / f"{file}.csv").read_text().splitlines() for kind, file in parts for folder in folders[kind]]
        assert lines[0] == texts[0][0]
        expected = [line for text in texts for line in text[1:]]
        assert lines[1 : len(expected) + 1] == expected
        assert len(lines) - 1 - len(expected) == (len(MODELS) if name == "stability" else 0)


def test_a_rerun_gives_the_same_bytes(options, output):
    before = {path.name: path.read_bytes() for path in output.iterdir()}
    assert len(before) == 21 * 2 + 10
    tables.run(options)
    assert {path.name: path.read_bytes() for path in output.iterdir()} == before


def test_stability_compares_corpora_within_a_model(options, output):
    frame = table_files.read_table(output / "stability.csv").query("comparison == 'corpora'")
    assert list(zip(frame["model"], frame["first"], frame["second"], strict=True)) == [(m, *CORPORA) for m in MODELS]
    assert frame["corpus"].isna().all()
    heads = table_files.read_table(output / "heads.csv").set_index(["model", "corpus", "layer", "head"])["regime"]
    for row in frame.itertuples():
        first, second = (heads[row.model][corpus] for corpus in CORPORA)
        assert row.agreement == (first == second).mean()
        assert row.heads == 12


def test_models(output):
    frame = table_files.read_table(output / "models.csv")
    assert list(frame["model"]) == list(MODELS)
    first, second = frame.to_dict("records")
    assert first["title"] == "Big"
    assert second["title"] == "NA"
    assert [first["sliding_window"], first["sliding_layers"]] == [10, 1]
    assert np.isnan(second["sliding_window"])
    assert second["sliding_layers"] == 0
    assert [first["dtype"], second["dtype"]] == ["bfloat16", "float32"]
    assert first["bos"] == "1 (bos of tokenizer)"
    assert [first["licence"], second["licence"]] == ["Free", "stated there"]
    assert first["source"] == f"Hugging Face Hub: org/model @ {'0' * 40}"
    assert second["source"] == "PyPI: a==1"
    assert first["sha256"] == "bigbigbig"
    assert "| parameters | 123456789 | 123456789 |" in (output / "models.md").read_text()


def test_corpora(output):
    frame = table_files.read_table(output / "corpora.csv")
    assert list(frame["corpus"]) == [*CORPORA, *CORPORA]
    assert list(frame["model"]) == [m for m in MODELS for _ in CORPORA]
    row = frame.iloc[1]
    numbers = ["length", "documents", "duplicates", "read", "too_short", "geometry", "score", "evaluate"]
    assert list(row[numbers]) == [16, 30, 7, 11, 3, 5, 2, 1]
    assert row["source"] == "local: data/texts.csv"
    assert "News \\| all" in (output / "corpora.md").read_text()


def test_readable_tables_hold_the_numbers_of_the_csv(output):
    frame = table_files.read_table(output / "separability.csv")
    text = (output / "separability.md").read_text().splitlines()
    assert text[0].split(" | ")[-1] == "N = 12 |"
    assert len(text) == 2 + len(frame) // len(synthetic.SIZES)
    row = frame.iloc[3]
    line = [x.strip() for x in text[3].strip("|").split("|")]
    assert line[:6] == ["big", "news", "euclidean", "all", "attention", "recall"]
    shown = frame[(frame[["model", "corpus", "pool", "ranking", "metric"]] == [*line[:2], *line[3:6]]).all(axis=1)]
    assert line[6:] == [f"{v.mean:.3g} [{v.low:.3g}, {v.high:.3g}]" for v in shown.itertuples()]
    assert row["size"] == 2
    header = (output / "sink_geometry.md").read_text().splitlines()[0]
    assert [x.strip() for x in header.strip("|").split("|")] == ["model", "corpus", *metrics.SINK_QUANTITIES]


def test_provenance_names_inputs_without_folders_of_the_machine(options, output):
    record = json.loads((output / "depth.json").read_text())
    pairs = [f"{m}/{c}" for m in MODELS for c in CORPORA]
    names = [f"{pair}/{name}.csv" for pair in pairs for name in ("depth", "depth_regimes")]
    assert sorted(record["inputs"]) == sorted(names)
    assert sorted(record["sources"]) == sorted(pairs)
    for path in output.glob("*.json"):
        assert str(options.output.parent) not in path.read_text()


def test_as_many_models_as_provenance_files_are_needed(options, tmp_path):
    fewer = argparse.Namespace(**vars(options) | {"models": options.models[:1], "output": tmp_path})
    with pytest.raises(UserError, match="1 provenance files of models for 2 models"):
        tables.run(fewer)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.123456, "0.123"),
        (-0.00012345, "-0.000123"),
        (1234.5, "1230"),
        (1.0, "1"),
        (np.nan, "–"),
        (pd.NA, "–"),
        (12, "12"),
        ("a|b", "a\\|b"),
        (True, "True"),
    ],
)
def test_what_a_reader_sees(value, text):
    assert table_files.shown(value) == text
