"""List what a run has made: each file with its hash, and the stage, code version and inputs that made it."""

import argparse
import json
import logging
from pathlib import Path
from typing import Any

import h5py

from .. import provenance, tables
from ..errors import UserError
from ..files import replacing, sha256

logger = logging.getLogger(__name__)
KINDS = {
    ".nc": "array", ".parquet": "array", ".csv": "table", ".md": "table", ".pdf": "figure", ".png": "figure",
    ".json": "record", ".ipynb": "notebook", ".html": "html",
}  # fmt: skip
# They name times, machines or interpreters, so equal runs differ in them.
UNHASHED = ("notebook", "html")
KEPT = ("stage", "code", "settings_sha256", "inputs")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the stage's options; settings: run."""
    parser.add_argument(
        "--artifacts", type=Path, nargs="+", required=True, metavar="PATH",
        help="files, each with what has the same name but for the suffix, and folders",
    )  # fmt: skip
    parser.add_argument(
        "--logs", type=Path, nargs="*", default=[], metavar="DIR", help="folders of logs and benchmarks"
    )
    parser.add_argument("--output", type=Path, required=True, metavar="JSON")


def run(options: argparse.Namespace) -> None:
    """Write the manifest."""
    found = sorted({file for path in options.artifacts for file in expanded(path)})
    files = [entry(path) for path in found]
    stages = {file["stage"] for file in files}
    files += [
        {"path": path.as_posix(), "kind": folder.name}
        for folder in options.logs
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.relative_to(folder).parts[0].partition(".")[0] in stages
    ]
    sources = [record_of(path)["sources"] for path in found if path.suffix == ".parquet"]
    record = provenance.record("manifest", options.settings, sources=sources)
    content = {"run": options.settings["run"], "files": files, "provenance": record}
    with replacing(options.output) as path:
        path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    logger.info("%d files, %d with a hash", len(files), sum("sha256" in file for file in files))


def expanded(path: Path) -> list[Path]:
    """The files of a folder, hidden ones left out; of a file itself and those that differ from it in a known suffix."""
    if path.is_dir():
        return [file for file in path.rglob("*") if file.is_file() and not file.name.startswith(".")]
    if not path.is_file():
        raise UserError(f"{path} is missing: make it first, it is a result of this run")
    return [path, *(file for suffix in KINDS if (file := path.with_suffix(suffix)).is_file())]


def entry(path: Path) -> dict[str, Any]:
    """What the manifest says of one file."""
    if path.suffix not in KINDS:
        raise UserError(f"{path}: a manifest knows no files of kind {path.suffix!r}; known: {', '.join(KINDS)}")
    kind, record = KINDS[path.suffix], record_of(path)
    hashed = {} if kind in UNHASHED else {"sha256": sha256(path)}
    return {"path": path.as_posix(), "kind": kind, **hashed, **{key: record.get(key, {}) for key in KEPT}}


def record_of(path: Path) -> dict[str, Any]:
    """The provenance in a NetCDF or Parquet file, or in the JSON that has the name of any other file."""
    if path.suffix == ".nc":
        with h5py.File(path) as file:
            return json.loads(file.attrs["provenance"])
    if path.suffix == ".parquet":
        return tables.read_provenance(path)
    beside = path.with_suffix(".json")
    if not beside.is_file():
        raise UserError(f"{path} has no provenance: {beside} is missing. Make both anew")
    content = json.loads(beside.read_text(encoding="utf-8"))
    return content.get("provenance", content)
