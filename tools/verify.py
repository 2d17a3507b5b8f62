"""Hold a run's numbers and verdicts against those that the repository keeps of the laptop run.

``python tools/verify.py CONFIG`` compares results/<run> with results/reference, for the pairs of model and corpus that
both have. Exit code 1: a verdict changed, a number left its reference interval or is gone, or a count, a name or a hash
is not the reference's. Machines differ in the last digits of floats, so of these equality is not asked.

A reference value can lie outside its bootstrap interval (workflow/headgeom/statistics.py says when); the interval that
a number may not leave is then widened to hold the reference's own value.
"""

import json
import math
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from runs import run_name

ROUNDING = 1e-6  # relative; what the order of float32 sums can change
SHOWN = 20
# What tells the rows of a table apart; everything else in a row is compared.
KEYS = (
    "model", "corpus", "distance", "pool", "ranking", "size", "metric", "operations", "quantity", "regime", "target",
    "certificate", "comparison", "first", "second", "layer", "head", "score", "retention", "decision", "by", "group",
)  # fmt: skip
Pairs = set[tuple[str, str]]


@dataclass(frozen=True)
class Moved:
    """A number or a text of the reference, and what the run has in its place."""

    where: str
    old: Any
    new: Any
    low: float = math.nan
    high: float = math.nan
    exact: bool = False  # a count, a name or a hash

    @property
    def same(self) -> bool:
        """Whether they agree, but for rounding unless exact; two missing values do."""
        if not (is_number(self.old) and is_number(self.new)):
            return self.old == self.new
        if math.isnan(self.old) or math.isnan(self.new):
            return math.isnan(self.old) and math.isnan(self.new)
        if self.exact:
            return self.old == self.new
        return math.isclose(self.old, self.new, rel_tol=ROUNDING, abs_tol=ROUNDING)

    @property
    def left(self) -> bool:
        """Whether the number lies outside the reference's interval, where it has one."""
        if self.same or math.isnan(self.low) or math.isnan(self.old):
            return False
        return not min(self.low, self.old) <= self.new <= max(self.high, self.old)

    @property
    def changed(self) -> bool:
        """Whether it should be the same and is not."""
        return self.exact and not self.same

    @property
    def distance(self) -> float:
        """The move over half the width of the interval; infinite without one."""
        half = (self.high - self.low) / 2
        return abs(self.new - self.old) / half if half > 0 else math.inf

    def __str__(self) -> str:
        """A line for the reader."""
        if self.exact or math.isnan(self.low):
            return f"{self.where}: {self.old} -> {self.new} ({'should be the same' if self.exact else 'no interval'})"
        place = "outside of" if self.left else f"{self.distance:.1%} of half the width of"
        return f"{self.where}: {self.old:.6g} -> {self.new:.6g}, {place} [{self.low:.6g}, {self.high:.6g}]"


def is_number(value: Any) -> bool:
    """Whether it is one; a boolean is none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def pairs_of(folder: Path) -> Pairs:
    """The pairs of model and corpus that were measured."""
    frame = pd.read_csv(folder / "corpora.csv")
    return set(frame[["model", "corpus"]].itertuples(index=False, name=None))


def rows_of(path: Path, pairs: Pairs, whole: bool) -> dict[tuple, dict[str, Any]]:
    """A table's rows of ``pairs`` by what tells them apart; those of no corpus if ``whole``, the pairs being all."""
    frame = pd.read_csv(path).astype(object)
    frame = frame.where(frame.notna(), math.nan)
    keys = [name for name in KEYS if name in frame]
    rows = {}
    for row in frame.to_dict("records"):
        if "corpus" not in row:
            inside = row["model"] in {model for model, _ in pairs}
        elif isinstance(row["corpus"], float):
            inside = whole
        else:
            inside = (row["model"], row["corpus"]) in pairs
        if inside:
            key = tuple(str(row.pop(name)) for name in keys)
            if key in rows:
                raise SystemExit(f"{path}: two rows {key}; add the column that tells them apart to KEYS in {__file__}")
            rows[key] = row
    return rows


def of_tables(old: Path, new: Path, pairs: Pairs, whole: bool) -> Iterator[Moved | str]:
    """What is compared in all tables of the reference; a text for what is gone."""
    for path in sorted(old.glob("*.csv")):
        if not (new / path.name).is_file():
            yield f"{path.stem}: the run has no such table"
            continue
        found, known = rows_of(new / path.name, pairs, whole), rows_of(path, pairs, whole)
        exact = exact_columns(known.values())
        for key, row in known.items():
            where = f"{path.stem}: {', '.join(part for part in key if part != 'nan')}"
            if key not in found:
                yield f"{where}: this row is gone"
                continue
            names, ends = list(row), {}
            if "low" in row:
                ends[names[names.index("low") - 1]] = {"low": row["low"], "high": row["high"]}
            for name in names:
                if f"{name}_low" in row:
                    ends[name] = {end: row[f"{name}_{end}"] for end in ("low", "high")}
            for name in names:
                if name not in ("low", "high") and not name.endswith(("_low", "_high")):
                    limits = ends.get(name, {"exact": name in exact})
                    yield Moved(f"{where}: {name}", row[name], found[key].get(name, math.nan), **limits)


def exact_columns(rows: Iterable[dict[str, Any]]) -> set[str]:
    """Columns whose values are all whole numbers, texts or missing; pandas reads counts with gaps as floats."""
    rows = list(rows)
    inexact = {name for row in rows for name, value in row.items() if isinstance(value, float) and value % 1 > 0}
    return {name for row in rows for name in row} - inexact


def of_claims(old: dict, new: dict) -> Iterator[Moved]:
    """The numbers that decided each claim, where both chose the same row."""
    for claim, kind, test, row in evidence(old):
        for other in (found for *place, found in evidence(new) if place == [claim, kind, test]):
            if all(row[key] == other[key] for key in ("model", "corpus", "label")) and row["value"] is not None:
                label = ", ".join(f"{key} {value}" for key, value in row["label"].items())
                value = math.nan if other["value"] is None else other["value"]
                ends = {key: math.nan if row[key] is None else row[key] for key in ("low", "high")}
                yield Moved(f"{claim}: {test}: {row['model']}, {row['corpus']} {label}", row["value"], value, **ends)


def evidence(content: dict) -> Iterator[tuple[str, str, str, dict]]:
    """Claim, kind, test and row of all rows of a claims.json."""
    for claim in content["claims"]:
        for kind in ("replication", "generalisation"):
            for test in claim[kind]["tests"]:
                yield from ((claim["id"], kind, test["says"], row) for row in test["rows"])


def changed_verdicts(old: dict, new: dict) -> list[str]:
    """A line a verdict that is not the reference's."""
    found = {claim["id"]: claim for claim in new["claims"]}
    lines = []
    for claim in old["claims"]:
        for kind in ("replication", "generalisation"):
            was, now = claim[kind]["verdict"], found.get(claim["id"], {}).get(kind, {}).get("verdict", "no such claim")
            if was != now:
                lines.append(f"{claim['id']}, {kind}: {was} -> {now}")
    return lines


def compare(old: Path, new: Path, tables: Path) -> tuple[list[str], list[str]]:
    """What to say of the run ``new`` with its ``tables`` against the reference ``old``, and what fails it."""
    known, measured = pairs_of(old), pairs_of(tables)
    pairs, whole = known & measured, known == measured
    if not pairs:
        raise SystemExit(
            f"nothing to compare: {new} and {old} have no pair of model and corpus in common; the reference is of "
            f"{', '.join(' on '.join(pair) for pair in sorted(known))}"
        )
    compared = list(of_tables(old, tables, pairs, whole))
    said = [f"{new} against {old}: {len(pairs)} of {len(known)} pairs of model and corpus"]
    failures = [line for line in compared if isinstance(line, str)]
    before, now = (json.loads((folder / "claims.json").read_text(encoding="utf-8")) for folder in (old, new))
    if whole:
        compared += of_claims(before, now)
        verdicts = changed_verdicts(before, now)
        said.append(f"{2 * len(before['claims'])} verdicts: {len(verdicts) or 'none'} changed")
        failures += verdicts
    else:
        said.append("verdicts are not compared: they are of all models and corpora of a run together")
    moved = [item for item in compared if isinstance(item, Moved)]
    failed = [item for item in moved if item.left or item.changed]
    others = [item for item in moved if not (item.same or item.left or item.changed)]
    others.sort(key=lambda item: -item.distance)
    left, changed = sum(item.left for item in moved), sum(item.changed for item in moved)
    said.append(
        f"{len(moved)} values: {len(others) + len(failed)} moved, {left} out of the reference's interval, "
        f"{changed} of those that should be the same"
    )
    said += [f"  {item}" for item in others[:SHOWN]]
    if len(others) > SHOWN:
        said.append(f"  and {len(others) - SHOWN} that moved less")
    return said, failures + [str(item) for item in failed]


def main(arguments: list[str]) -> int:
    """Compare the run of a config with the reference."""
    if len(arguments) != 1:
        raise SystemExit("usage: python tools/verify.py CONFIG")
    old, new = Path("results/reference"), Path("results") / run_name(arguments[0])
    absent = [path for path in (new / "tables/corpora.csv", new / "claims.json") if not path.is_file()]
    if absent:
        raise SystemExit(
            f"nothing to compare: {absent[0]} is missing; make the run first, `make reproduce CONFIG={arguments[0]}`"
        )
    said, failures = compare(old, new, new / "tables")
    print("\n".join([*said, *(f"FAILED {line}" for line in failures)]))
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
