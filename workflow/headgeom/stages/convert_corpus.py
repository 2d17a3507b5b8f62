"""Turn a fetched corpus into one Parquet file of documents: id, title, text."""

import argparse
import json
import logging
from pathlib import Path

from headgeom import corpora, documents
from headgeom.errors import UserError
from headgeom.provenance import record

logger = logging.getLogger(__name__)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The stage's own options."""
    parser.add_argument("--source", type=Path, required=True, help="folder that `fetch` wrote")
    parser.add_argument("--output", type=Path, required=True, help="documents.parquet to write")


def run(options: argparse.Namespace) -> None:
    """Read the source in the format of the settings (``format``, ``columns``), write documents and provenance."""
    settings = options.settings
    source = json.loads((options.source / "source.json").read_text(encoding="utf-8"))
    if len(source["files"]) != 1:
        found = ", ".join(file["name"] for file in source["files"])
        raise UserError(f"corpus {settings.get('name')}: `source` must name one file, but it gave: {found}.")
    path = options.source / source["files"][0]["name"]
    readers = {
        "mediawiki": lambda: corpora.read_mediawiki(path),
        "lines": lambda: corpora.read_lines(path),
        "rows": lambda: corpora.read_rows(path, settings.get("columns", {})),
        "wikitext": lambda: corpora.read_wikitext(path, settings.get("columns", {})),
    }
    found = readers[settings.get("format", "rows")]()
    provenance = record("convert_corpus", settings, source=source)
    counts = documents.write(found, options.output, str(path), provenance)
    skipped = ", ".join(f"{counts[reason]} {reason}" for reason in documents.SKIPPED)
    logger.info("%d documents; left out: %s", counts["documents"], skipped)
