"""Verdicts on the paper's claims, from tables alone (spec, section 8; config/claims.yaml).

A test holds the interval [low, high] of each row against a region. The row's outcome is

    yes      the whole interval lies in the region
    no       the whole interval lies outside of it
    unclear  the interval lies on both sides of its border
    missing  there is no finite value or interval

A claim gets two verdicts: ``replication`` from the rows of the paper's own models, ``generalisation`` from the others':

    reproduced               every outcome of every test is yes
    not reproduced           none is yes, and some are no
    not testable in this run there is no row, or all are missing
    partly                   anything else
"""

import itertools
import math
from collections.abc import Iterable
from typing import Any

import pandas as pd

from .errors import UserError
from .taxonomy import REGIMES

KINDS = ("replication", "generalisation")
REPRODUCED, PARTLY, NOT, UNTESTABLE = VERDICTS = (
    "reproduced", "partly", "not reproduced", "not testable in this run",
)  # fmt: skip
REGIONS = ("above", "below", "at_least", "at_most", "nonzero")
_TEST = {"says", "table", "where", "of", "for", "value", "sizes_from", "any", "exact", "consistent", *REGIONS}
_CLAIM = {"id", "statement", "paper", "figure", "tests", "note"}
_LABELS = ("certificate", "score", "retention", "size")
_METRICS = ("magnitude", "magnitude_qkvo", "entropy_high", "entropy_low", "separability", "gradient")
# All that a column can hold; a run may lack some of it. Quantities are a table's own.
VALUES = {
    "by": {"all", "layer", "regime", "sink"},
    "certificate": {
        "measured", "inversion", "interval", "per_token", "pairs", "selected", "selected_sink", "constant_norm",
    },
    "distance": {"euclidean", "cosine"},
    "metric": {"precision", "recall", "f", "margin_positive"},
    "operations": {"all", "sink_selected"},
    "pool": {"all", "no_sink"},
    "ranking": {"attention", "contribution", "random"},
    "regime": set(REGIMES),
    "score": {"unpruned", "random", "taxonomy", *(f"taxonomy_drop_{regime}" for regime in REGIMES), *_METRICS},
    "target": {"sink", "current"},
}  # fmt: skip
QUANTITIES = {
    "contrasts": {
        "advantage", "advantage_peak", "peak_share", "competing", "plateau", "recency", "mixer_sink",
        "retriever_current", *(f"dominance_{regime}" for regime in REGIMES),
    },
    "depth": {"f_all", "f_no_sink", "sink_mass", *REGIMES},
    "first_version": {
        "decay_amplitude", "decay_length", "decay_mae", "decay_error", "similarity_minimum", "recall_correlation",
    },
    "prediction": {"correlation", "coverage", "argmax_measured", "argmax_predicted"},
    "sink_geometry": {
        "norm_ratio", "norm_variation", "sink_alignment", "sink_negative_share", "sink_mass", "coherence_mean",
    },
}  # fmt: skip


def outcome(test: dict[str, Any], value: float, low: float, high: float) -> str:
    """Of one interval and the region of ``test``."""
    if not all(math.isfinite(x) for x in (value, low, high)):
        return "missing"
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

    A row of no records is no evidence and left out.
    repositories: of each model of the run; None for those without.
    """
    name = test.get("value", "value")
    ends = {end: f"{name}_{end}" if f"{name}_{end}" in table else end for end in ("low", "high")}
    columns = {"value": name} | (dict.fromkeys(ends, name) if test.get("exact") else ends)
    named = [column for where in _wheres(test) for column in where]
    sized = ["size"] if "sizes_from" in test else []
    absent = [column for column in (*columns.values(), *named, *sized) if column not in table]
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
    if "records" in chosen:
        chosen = chosen[chosen["records"] > 0]
    chosen = chosen.assign(**{key: chosen[column].astype(float) for key, column in columns.items()})
    found = [outcome(test, *map(float, row)) for row in chosen[["value", "low", "high"]].itertuples(index=False)]
    chosen = chosen.assign(outcome=pd.Series(found, index=chosen.index, dtype=object))
    if test.get("any"):
        chosen = _best_of_each_pair(chosen, largest=bool(test.keys() & {"above", "at_least"}))
    if "consistent" in test:
        chosen = _consistent(chosen, test["consistent"])
    return chosen


def _wheres(test: dict[str, Any]) -> list[dict[str, Any]]:
    return [test.get("where", {}), *test.get("of", {}).values()]


def _matches(table: pd.DataFrame, where: dict[str, Any]) -> pd.Series:
    keep = pd.Series(True, index=table.index)
    for column, wanted in where.items():
        keep &= table[column].isin(wanted if isinstance(wanted, list) else [wanted])
    return keep


def _best_of_each_pair(chosen: pd.DataFrame, largest: bool) -> pd.DataFrame:
    """Of each model and corpus the row that comes nearest to a yes; of equal ones the largest or smallest value."""
    order = chosen["outcome"].map({"yes": 0, "unclear": 1, "no": 2, "missing": 3})
    ranked = chosen.assign(_order=order).sort_values(["_order", "value"], ascending=[True, not largest], kind="stable")
    return ranked.drop_duplicates(["model", "corpus"]).sort_index().drop(columns="_order")


def _consistent(chosen: pd.DataFrame, column: str) -> pd.DataFrame:
    """Of each model with several corpora the label that holds on most; where it does not hold, its row says so."""
    parts = [chosen.iloc[:0]]
    for _, group in chosen[chosen["outcome"] != "missing"].groupby("model", sort=False):
        if group["corpus"].nunique() < 2:
            continue
        held = group[group["outcome"] == "yes"].groupby(column, sort=False)["corpus"].nunique()
        label = held.idxmax() if len(held) else group.loc[group["value"].idxmax(), column]
        parts.append(group[group[column] == label])
    return pd.concat(parts)


def verdict(outcomes: Iterable[str]) -> str:
    """Of all outcomes of a claim's tests on one kind of models."""
    found = set(outcomes)
    if found <= {"missing"}:
        return UNTESTABLE
    if found == {"yes"}:
        return REPRODUCED
    return NOT if "no" in found and "yes" not in found else PARTLY


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
            try:
                found = rows(test, tables[test["table"]], repositories) if test["table"] in tables else pd.DataFrame()
            except UserError as error:
                raise UserError(f"{claim['id']}: {error}") from None
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


def check(content: Any, where: str, tables: Iterable[str], figures: Iterable[str]) -> dict[str, Any]:
    """A ledger as read from YAML, if it is well formed. Raises UserError that names the claim and the key.

    tables, figures: names of all that a run can have.
    """
    tables, figures = set(tables), set(figures)
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
        if claim["figure"] not in figures:
            raise UserError(f"{where}: {name}: no run has a figure {claim['figure']!r}; it has {sorted(figures)}")
        for test in claim["tests"]:
            unknown, regions = test.keys() - _TEST, test.keys() & set(REGIONS)
            if unknown or not regions or not {"says", "table"} <= test.keys():
                raise UserError(
                    f"{where}: {name}: a test needs 'says', 'table' and one of {', '.join(REGIONS)}; "
                    f"unknown: {sorted(unknown)}"
                )
            if test["table"] not in tables:
                raise UserError(f"{where}: {name}: no run has a table {test['table']!r}; see docs/results.md")
            _check_values(f"{where}: {name}", test, content["models"])
    return content


def _check_values(place: str, test: dict[str, Any], repositories: Iterable[str]) -> None:
    """Raise where ``test`` asks for a repository or a value that no table can hold."""
    unknown = test.get("of", {}).keys() - set(repositories)
    if unknown:
        raise UserError(f"{place}: of: {sorted(unknown)} are none of the ledger's models")
    known = VALUES | {"quantity": QUANTITIES.get(test["table"], set())}
    for column, wanted in (item for where in _wheres(test) for item in where.items()):
        wanted = wanted if isinstance(wanted, list) else [wanted]
        unknown = sorted(set(wanted) - known.get(column, set(wanted)))
        if unknown:
            raise UserError(
                f"{place}: where: table {test['table']!r} never has the {column} {unknown[0]!r}, but one of "
                f"{', '.join(sorted(known[column]))}"
            )
