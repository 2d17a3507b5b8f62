"""Verdicts on the paper's claims, from tables alone (spec, section 8; config/claims.yaml).

A test holds the interval [low, high] of each row against a region. The row's outcome is

    yes      the whole interval lies in the region
    no       the whole interval lies outside of it
    unclear  anything else, a missing value too

A claim gets two verdicts: ``replication`` from the rows of the paper's own models, ``generalisation`` from the others':

    reproduced               every outcome of every test is yes
    partly                   some are
    not reproduced           none is
    not testable in this run there is no row
"""

import itertools
import math
from collections.abc import Iterable
from typing import Any

import pandas as pd

from .errors import UserError

KINDS = ("replication", "generalisation")
REPRODUCED, PARTLY, NOT, UNTESTABLE = VERDICTS = (
    "reproduced", "partly", "not reproduced", "not testable in this run",
)  # fmt: skip
REGIONS = ("above", "below", "at_least", "at_most", "nonzero")
_TEST = {"says", "table", "where", "of", "for", "value", "sizes_from", "any", "exact", "consistent", *REGIONS}
_CLAIM = {"id", "statement", "paper", "figure", "tests", "note"}
_LABELS = ("certificate", "score", "retention", "size")


def outcome(test: dict[str, Any], value: float, low: float, high: float) -> str:
    """Of one interval and the region of ``test``."""
    if any(math.isnan(x) for x in (value, low, high)):
        return "unclear"
    inside, outside = [], []
    for name, within, beyond in (
        ("above", lambda x: low > x, lambda x: high <= x),
        ("at_least", lambda x: low >= x, lambda x: high < x),
        ("below", lambda x: high < x, lambda x: low >= x),
        ("at_most", lambda x: high <= x, lambda x: low > x),
        ("nonzero", lambda _: low > 0 or high < 0, lambda _: low == high == 0),
    ):
        if name in test:
            inside.append(within(test[name]))
            outside.append(beyond(test[name]))
    return "yes" if all(inside) else "no" if any(outside) else "unclear"


def rows(test: dict[str, Any], table: pd.DataFrame, repositories: dict[str, str | None]) -> pd.DataFrame:
    """The rows of ``table`` that ``test`` is about, with ``low``, ``high`` and ``outcome``.

    repositories: of each model of the run; None for those without.
    """
    name = test.get("value", "value")
    asked = [name, *test.get("where", {}), *(column for where in test.get("of", {}).values() for column in where)]
    absent = [column for column in asked if column not in table]
    if absent:
        raise UserError(f"{test['says']!r}: table {test['table']!r} has no column {absent[0]!r}; see docs/results.md")
    chosen = table[_matches(table, test.get("where", {}))]
    if "of" in test:
        parts = [
            chosen[(chosen["model"].map(repositories) == repository) & _matches(chosen, where)]
            for repository, where in test["of"].items()
        ]
        chosen = pd.concat(parts) if parts else chosen.iloc[:0]
    if "sizes_from" in test:
        chosen = chosen[chosen["size"] >= test["sizes_from"]]
    ends = {end: f"{name}_{end}" if f"{name}_{end}" in chosen else end for end in ("low", "high")}
    columns = {"value": name} | (dict.fromkeys(ends, name) if test.get("exact") else ends)
    chosen = chosen.assign(**{key: chosen[column].astype(float) for key, column in columns.items()})
    found = [outcome(test, *map(float, row)) for row in chosen[["value", "low", "high"]].itertuples(index=False)]
    chosen = chosen.assign(outcome=pd.Series(found, index=chosen.index, dtype=object))
    if test.get("any"):
        chosen = _best_of_each_pair(chosen, largest=bool(test.keys() & {"above", "at_least"}))
    if "consistent" in test:
        chosen = _consistent(chosen, test["consistent"])
    return chosen


def _matches(table: pd.DataFrame, where: dict[str, Any]) -> pd.Series:
    keep = pd.Series(True, index=table.index)
    for column, wanted in where.items():
        keep &= table[column].isin(wanted if isinstance(wanted, list) else [wanted])
    return keep


def _best_of_each_pair(chosen: pd.DataFrame, largest: bool) -> pd.DataFrame:
    """Of each model and corpus the row that comes nearest to a yes; of equal ones the largest or smallest value."""
    order = chosen["outcome"].map({"yes": 0, "unclear": 1, "no": 2})
    ranked = chosen.assign(_order=order).sort_values(["_order", "value"], ascending=[True, not largest], kind="stable")
    return ranked.drop_duplicates(["model", "corpus"]).sort_index().drop(columns="_order")


def _consistent(chosen: pd.DataFrame, column: str) -> pd.DataFrame:
    """Of each model the label that holds on most corpora; where it does not hold, its row says so."""
    parts = []
    for _, group in chosen.groupby("model", sort=False):
        held = group[group["outcome"] == "yes"].groupby(column, sort=False)["corpus"].nunique()
        label = held.idxmax() if len(held) else group.loc[group["value"].idxmax(), column]
        parts.append(group[group[column] == label])
    return pd.concat(parts) if parts else chosen


def verdict(outcomes: Iterable[str]) -> str:
    """Of all outcomes of a claim's tests on one kind of models."""
    outcomes = list(outcomes)
    if not outcomes:
        return UNTESTABLE
    held = outcomes.count("yes")
    return REPRODUCED if held == len(outcomes) else PARTLY if held else NOT


def evaluate(
    claim: dict[str, Any], tables: dict[str, pd.DataFrame], repositories: dict[str, str | None], paper: Iterable[str]
) -> dict[str, Any]:
    """The claim with its two verdicts, and of each test the rows that decided it.

    tables: those that the run has; paper: the repositories of the paper's models.
    """
    result = {key: claim[key] for key in ("id", "statement", "paper", "figure", "note") if key in claim}
    paper = set(paper)
    for kind in KINDS:
        tests = []
        for test in claim["tests"]:
            if test.get("for", kind) != kind:
                continue
            found = rows(test, tables[test["table"]], repositories) if test["table"] in tables else pd.DataFrame()
            if len(found):
                found = found[found["model"].map(repositories).isin(paper) == (kind == "replication")]
            tests.append({"says": test["says"], "table": test["table"], "rows": _records(found)})
        outcomes = [[row["outcome"] for row in test["rows"]] for test in tests]
        # A test without rows, of a claim that has others with rows, leaves the claim partly tested at best.
        complete = all(outcomes) or not any(outcomes)
        found = verdict(itertools.chain.from_iterable(outcomes))
        result[kind] = {"verdict": PARTLY if found == REPRODUCED and not complete else found, "tests": tests}
    return result


def _records(found: pd.DataFrame) -> list[dict[str, Any]]:
    """Model, corpus, label, value, interval and outcome of each row, as JSON has them."""
    records = []
    for row in found.to_dict("records"):
        label = {name: row[name] for name in _LABELS if name in row and not pd.isna(row[name])}
        if str(row.get("quantity", "")).startswith("dominance_"):
            label["regime"] = row["quantity"].removeprefix("dominance_")
        numbers = {key: None if pd.isna(row[key]) else float(row[key]) for key in ("value", "low", "high")}
        named = {"model": row["model"], "corpus": row["corpus"], "label": {k: _plain(v) for k, v in label.items()}}
        records.append(named | numbers | {"outcome": row["outcome"]})
    return records


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value


def check(content: Any, where: str, tables: Iterable[str]) -> dict[str, Any]:
    """A ledger as read from YAML, if it is well formed. Raises UserError that names the claim and the key.

    tables: names of all that a run can have.
    """
    tables = set(tables)
    if not isinstance(content, dict) or not {"models", "claims"} <= content.keys():
        raise UserError(f"{where}: needs the keys 'models' and 'claims'")
    seen = set()
    for claim in content["claims"]:
        name = claim.get("id", "a claim without id")
        lacking, unknown = {"id", "statement", "paper", "figure", "tests"} - claim.keys(), claim.keys() - _CLAIM
        if lacking or unknown:
            raise UserError(f"{where}: {name}: missing {sorted(lacking)}, unknown {sorted(unknown)}")
        if name in seen:
            raise UserError(f"{where}: {name} stands there twice")
        seen.add(name)
        for test in claim["tests"]:
            unknown, regions = test.keys() - _TEST, test.keys() & set(REGIONS)
            if unknown or not regions or not {"says", "table"} <= test.keys():
                raise UserError(
                    f"{where}: {name}: a test needs 'says', 'table' and one of {', '.join(REGIONS)}; "
                    f"unknown: {sorted(unknown)}"
                )
            if test["table"] not in tables:
                raise UserError(f"{where}: {name}: no run has a table {test['table']!r}; see docs/results.md")
    return content
