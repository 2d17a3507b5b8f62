"""Hold the run's tables against the paper's claims: verdicts as JSON and as a Markdown table."""

import argparse
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from .. import claims, provenance
from ..files import replacing, sha256
from ..table_files import markdown, read_table, shown


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the stage's options; settings: run, config, tables and figures (names of all that a run can have),
    drawn (figures of this run), and models, a list of {name, title, repository or null}."""
    parser.add_argument("--claims", type=Path, required=True, metavar="YAML", help="the ledger, config/claims.yaml")
    parser.add_argument("--tables", type=Path, nargs="+", required=True, metavar="CSV", help="the run's tables")
    parser.add_argument("--output", type=Path, required=True, metavar="JSON", help="the verdicts; .md goes beside it")


def run(options: argparse.Namespace) -> None:
    """Write the verdicts."""
    settings = options.settings
    ledger = yaml.safe_load(options.claims.read_text(encoding="utf-8"))
    ledger = claims.check(ledger, str(options.claims), settings["tables"], settings["figures"])
    used = {test["table"] for claim in ledger["claims"] for test in claim["tests"]}
    paths = sorted(path for path in options.tables if path.stem in used)
    tables = {path.stem: read_table(path) for path in paths}
    repositories = {model["name"]: model["repository"] for model in settings["models"]}
    found = [claims.evaluate(claim, tables, repositories, ledger["models"]) for claim in ledger["claims"]]
    for claim in found:
        claim |= evidence(claim, settings, tables)
    inputs = {path.name: sha256(path) for path in (options.claims, *paths)}
    record = provenance.record("claims", settings, sources={}, inputs=inputs)
    with replacing(options.output) as path:
        path.write_text(
            json.dumps({"claims": found, "provenance": record}, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
        )
    with replacing(options.output.with_suffix(".md")) as path:
        path.write_text(markdown(table(found)), encoding="utf-8")


def evidence(claim: dict[str, Any], settings: dict[str, Any], tables: Iterable[str]) -> dict[str, Any]:
    """Files of the claim's tables and figure, and the command that rebuilds the figure and all that it needs.

    tables: those that the run has. The figure and its command are None in a run that does not draw it.
    """
    run, used = settings["run"], dict.fromkeys(test["table"] for test in _tests(claim))
    figure = f"figures/{run}/{claim['figure']}.pdf" if claim["figure"] in settings["drawn"] else None
    return {
        "evidence": [f"results/{run}/tables/{name}.csv" for name in used if name in tables],
        "figure_file": figure,
        "command": figure and f"snakemake --cores all {figure} --configfile {settings['config']}",
    }


def table(found: list[dict[str, Any]]) -> pd.DataFrame:
    """A row a claim; measured: the range of each test's values, replication first."""
    rows = []
    for claim in found:
        rows.append(
            {
                "claim": claim["id"],
                "the paper says": claim["statement"],
                "paper's value": claim["paper"],
                "replication": claim["replication"]["verdict"],
                "generalisation": claim["generalisation"]["verdict"],
                "measured": "; ".join(filter(None, map(measured, _tests(claim)))) or "nothing",
            }
        )
    return pd.DataFrame(rows)


def _tests(claim: dict[str, Any]) -> list[dict[str, Any]]:
    return [test for kind in claims.KINDS for test in claim[kind]["tests"]]


def measured(test: dict[str, Any]) -> str:
    """What the test is, how many of its rows hold, and the range of their values; empty without rows."""
    values = [row["value"] for row in test["rows"] if row["value"] is not None]
    if not values:
        return ""
    low, high = shown(min(values)), shown(max(values))
    held = sum(row["outcome"] == "yes" for row in test["rows"])
    return f"{test['says']}: {low if low == high else f'{low} to {high}'} ({held} of {len(test['rows'])} hold)"
