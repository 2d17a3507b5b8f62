"""The manifest lists what it is given, with hashes that tell a changed file, and what made each."""

import json
from argparse import Namespace

import pandas as pd
import pytest

from headgeom.errors import UserError
from headgeom.files import sha256
from headgeom.provenance import record
from headgeom.stages import manifest
from headgeom.table_files import write_table
from headgeom.tables import write_parquet

SOURCES = {"model": {"sha256": "a"}, "corpus": {"sha256": "b"}}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Tables, a figure, windows, logs; the test runs in their folder."""
    monkeypatch.chdir(tmp_path)
    frame = pd.DataFrame({"x": [1]})
    write_table(tmp_path / "tables", "one", frame, record("tables", {"a": 1}, inputs={"part.csv": "c"}), frame)
    write_parquet(frame, tmp_path / "tokens.parquet", record("tokenize", {}, sources=SOURCES))
    for suffix in (".pdf", ".png", ".ipynb", ".html"):
        (tmp_path / f"drawn{suffix}").write_text("drawn")
    (tmp_path / "drawn.json").write_text(json.dumps(record("figure", {})))
    for name in ("tables.log", "figure/drawn.log", "other.log"):
        (tmp_path / "logs" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "logs" / name).write_text("")
    (tmp_path / "tables" / ".hidden").write_text("")
    return tmp_path


def made(folder, *artifacts):
    """Path to entry, and the whole, of the manifest of ``artifacts``."""
    paths = [folder.__class__(name) for name in artifacts]
    output = folder / "manifest.json"
    manifest.run(Namespace(settings={"run": "r"}, artifacts=paths, logs=[folder.__class__("logs")], output=output))
    content = json.loads(output.read_text())
    return {file["path"]: file for file in content["files"]}, content


def test_each_file_has_its_hash_and_what_made_it(folder):
    files, content = made(folder, "tables", "tokens.parquet", "drawn.pdf")
    hashed = {"tables/one.csv", "tables/one.md", "tables/one.json", "tokens.parquet"}
    hashed |= {"drawn.pdf", "drawn.png", "drawn.json"}
    assert {name for name, file in files.items() if "sha256" in file} == hashed
    assert set(files) - hashed == {"drawn.ipynb", "drawn.html", "logs/tables.log", "logs/figure/drawn.log"}
    for name in hashed:
        assert files[name]["sha256"] == sha256(folder / name)
    table = files["tables/one.csv"]
    assert (table["kind"], table["stage"], table["inputs"]) == ("table", "tables", {"part.csv": "c"})
    assert set(table["code"]) == {"commit", "modified"}
    assert files["tokens.parquet"]["kind"] == "array"
    assert content["run"] == "r"
    assert content["provenance"]["sources"] == [SOURCES]


def test_equal_files_give_equal_bytes(folder):
    made(folder, "tables", "drawn.pdf")
    first = (folder / "manifest.json").read_bytes()
    (folder / "drawn.html").write_text("other")
    made(folder, "drawn.pdf", "tables/one.csv")
    assert (folder / "manifest.json").read_bytes() == first
    (folder / "drawn.png").write_text("other")
    made(folder, "tables", "drawn.pdf")
    assert (folder / "manifest.json").read_bytes() != first


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda folder: (folder / "drawn.pdf").unlink(), "drawn.pdf is missing"),
        (lambda folder: (folder / "drawn.json").unlink(), "has no provenance: drawn.json is missing"),
        (
            lambda folder: (folder / "tables/x.xyz").write_text(""),
            "tables/x.xyz: a manifest knows no files of kind '.xyz'",
        ),
    ],
)
def test_what_cannot_be_listed_is_named(folder, spoil, message):
    spoil(folder)
    with pytest.raises(UserError, match=message):
        made(folder, "tables", "drawn.pdf")
