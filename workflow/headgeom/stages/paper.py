"""Compile the replication paper of a run: Typst reads the run's tables, verdicts and figures itself."""

import argparse
import json
from pathlib import Path

import typst

from .. import provenance
from ..errors import UserError
from ..files import replacing, sha256

KINDS = {"tables": ".csv", "figures": ".pdf"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the stage's options; settings: what paper/results.typ calls ``settings``."""
    parser.add_argument(
        "--source", type=Path, required=True, metavar="TYP", help="the paper; its folder's parent is the root"
    )
    parser.add_argument("--inputs", type=Path, nargs="+", required=True, metavar="FILE", help="results that it reads")
    parser.add_argument("--output", type=Path, required=True, metavar="PDF", help="provenance goes beside it as .json")


def run(options: argparse.Namespace) -> None:
    """Write the PDF; equal inputs give equal bytes."""
    names = {kind: [p.stem for p in options.inputs if p.suffix == suffix] for kind, suffix in KINDS.items()}
    inputs = {"settings": json.dumps(options.settings | names)}
    root = options.source.resolve().parent.parent
    try:
        content = typst.compile(options.source, root=root, sys_inputs=inputs, ignore_system_fonts=True, timestamp=0)
    except typst.TypstError as error:
        raise UserError(f"{options.source}: {error}") from error
    with replacing(options.output) as path:
        path.write_bytes(content)
    sources = sorted(path for path in options.source.parent.iterdir() if path.is_file())
    hashes = {path.name: sha256(path) for path in (*options.inputs, *sources)}
    record = provenance.record("paper", options.settings, sources={}, inputs=hashes)
    with replacing(options.output.with_suffix(".json")) as path:
        path.write_text(json.dumps(record, indent=1, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")
