"""Every claim of the ledger through every verdict, on tables made so that its tests hold, fail, or hold in part."""

import json
import re
from argparse import Namespace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from headgeom import claims
from headgeom.errors import UserError
from headgeom.stages import claims as stage

ROOT = Path(__file__).resolve().parents[2]
LEDGER = yaml.safe_load((ROOT / "config/claims.yaml").read_text(encoding="utf-8"))
CLAIMS = {claim["id"]: claim for claim in LEDGER["claims"]}
PAPERS = list(LEDGER["models"])
OTHERS = {"one": None, "two": "org/other"}
SIZES = (2, 8)
_DOCUMENT = (ROOT / "docs/results.md").read_text(encoding="utf-8")
EVERY_WORD = set(re.findall(r"\w+", _DOCUMENT))
DOCUMENTED = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", _DOCUMENT, re.MULTILINE))


def number(test, holds):
    """A value that lies in the test's region, or outside of it."""
    if "nonzero" in test:
        return 0.5 if holds else 0.0
    low, high = test.get("at_least", test.get("above")), test.get("at_most", test.get("below"))
    if low is not None and high is not None:
        return (low + high) / 2 if holds else high + 10
    inside, outside = (low + 1, low - 1) if high is None else (high - 1, high + 1)
    return inside if holds else outside


def tables_for(claim, models, holds):
    """Tables with the rows of every test; holds(index of the test, model): whether its rows lie in the region."""
    rows = {}
    for index, test in enumerate(claim["tests"]):
        for model, repository in models.items():
            where = test["of"].get(repository) if "of" in test else test.get("where", {})
            if where is None:
                continue
            value = number(test, holds(index, model))
            labels = {k: v[0] if isinstance(v, list) else v for k, v in where.items()}
            column, end = test.get("value", "value"), 0.001 if value else 0.0
            own = test["table"] in ("removal", "critical_heads") and not test.get("exact")
            low, high = (f"{column}_{name}" if own else name for name in ("low", "high"))
            for corpus in ("a", "b"):
                for size in SIZES:
                    key = {"model": model, "corpus": corpus, "size": size} | labels
                    known = rows.setdefault(test["table"], {})
                    if column in known.get(json.dumps(key), {}):  # another test of the same column: rows of its own
                        key |= {"test": index}
                    row = known.setdefault(json.dumps(key), key)
                    row |= {column: value} | ({} if test.get("exact") else {low: value - end, high: value + end})
    return {name: pd.DataFrame(list(found.values())) for name, found in rows.items()}


def verdicts(claim, models, holds):
    found = claims.evaluate(claim, tables_for(claim, models, holds), models, PAPERS)
    return tuple(found[kind]["verdict"] for kind in claims.KINDS)


@pytest.fixture(params=CLAIMS)
def claim(request):
    return CLAIMS[request.param]


def paper_models(claim):
    """Those of the paper's models that the claim has a test for."""
    named = [set(test["of"]) for test in claim["tests"] if "of" in test]
    chosen = set.intersection(*named) if len(named) == len(claim["tests"]) else PAPERS
    return {name.split("/")[1]: name for name in PAPERS if name in chosen}


def general(claim):
    """Whether models that are not the paper's can test the claim."""
    return any(test.get("for") != "replication" and "of" not in test for test in claim["tests"])


def test_reproduced_where_all_holds(claim):
    both = verdicts(claim, OTHERS | paper_models(claim), lambda *_: True)
    assert both == (claims.REPRODUCED, claims.REPRODUCED if general(claim) else claims.UNTESTABLE)


def test_not_reproduced_where_nothing_holds(claim):
    both = verdicts(claim, OTHERS | paper_models(claim), lambda *_: False)
    assert both == (claims.NOT, claims.NOT if general(claim) else claims.UNTESTABLE)


def test_partly_where_one_model_of_two_holds(claim):
    models = paper_models(claim)
    first = next(iter(models))
    both = verdicts(claim, OTHERS | models, lambda _, model: model in (first, "one"))
    expected = claims.PARTLY if len(models) > 1 else claims.REPRODUCED
    assert both == (expected, claims.PARTLY if general(claim) else claims.UNTESTABLE)


def test_partly_where_one_test_of_several_holds(claim):
    own = [test for test in claim["tests"] if test.get("for") != "replication"]
    if len(own) < 2 or not general(claim):
        return
    holding = claim["tests"].index(own[0])
    assert verdicts(claim, OTHERS, lambda index, _: index == holding)[1] == claims.PARTLY


def test_not_testable_without_rows(claim):
    assert verdicts(claim, OTHERS, lambda *_: True)[0] == claims.UNTESTABLE
    assert verdicts(claim, paper_models(claim), lambda *_: True)[1] == claims.UNTESTABLE
    assert claims.evaluate(claim, {}, OTHERS, PAPERS)["generalisation"]["verdict"] == claims.UNTESTABLE


def test_tests_name_columns_that_the_tables_have(claim):
    for test in claim["tests"]:
        words = set(re.findall(r"\w+", DOCUMENTED[test["table"]]))
        asked = {test.get("value", "value"), *test.get("where", {})}
        wanted = [value for value in test.get("where", {}).values() if isinstance(value, str)]
        assert asked <= words, test["says"]
        assert set(wanted) <= EVERY_WORD, test["says"]


@pytest.mark.parametrize(
    ("test", "interval", "expected"),
    [
        ({"above": 1}, (2, 1.1, 3), "yes"),
        ({"above": 1}, (2, 1.0, 3), "unclear"),
        ({"above": 1}, (0.5, 0.1, 1.0), "no"),
        ({"at_least": 1}, (2, 1.0, 3), "yes"),
        ({"at_least": 1}, (0.9, 0.8, 1.0), "unclear"),
        ({"below": 1}, (0.5, 0.1, 1.0), "unclear"),
        ({"below": 1}, (1.5, 1.0, 2.0), "no"),
        ({"at_least": 3, "at_most": 10}, (5, 3, 10), "yes"),
        ({"at_least": 3, "at_most": 10}, (12, 10.5, 13), "no"),
        ({"at_least": 3, "at_most": 10}, (9, 8, 11), "unclear"),
        ({"nonzero": True}, (0.3, 0.1, 0.4), "yes"),
        ({"nonzero": True}, (-0.3, -0.4, -0.1), "yes"),
        ({"nonzero": True}, (0.1, -0.1, 0.4), "unclear"),
        ({"above": 1}, (np.nan, np.nan, np.nan), "unclear"),
    ],
)
def test_outcome_of_an_interval(test, interval, expected):
    assert claims.outcome(test, *interval) == expected


def frame(rows, columns):
    return pd.DataFrame(rows, columns=[*columns, "value", "low", "high"])


def test_any_takes_one_row_of_each_pair():
    values = {("a", 2): 1.5, ("a", 4): 2.5, ("b", 2): 1.5, ("b", 4): 1.8}
    table = frame([("one", *at, v, v - 0.1, v + 0.1) for at, v in values.items()], ["model", "corpus", "size"])
    found = claims.rows({"says": "", "table": "x", "at_least": 2, "any": True}, table, {"one": None})
    assert found[["corpus", "size", "outcome"]].values.tolist() == [["a", 4, "yes"], ["b", 4, "no"]]


def test_consistent_asks_for_one_label_on_all_corpora():
    def found(second):
        rows = [("one", c, q, v, v - 0.01, v + 0.01) for c, leader in (("a", "x"), ("b", second))
                for q in ("x", "y") for v in [0.2 if q == leader else -0.2]]  # fmt: skip
        test = {"says": "", "table": "x", "above": 0, "consistent": "quantity"}
        return claims.rows(test, frame(rows, ["model", "corpus", "quantity"]), {"one": None})["outcome"].tolist()

    assert found("x") == ["yes", "yes"]
    assert sorted(found("y")) == ["no", "yes"]


def test_a_claim_that_is_tested_in_part_is_not_reproduced_in_full():
    claim = {"id": "X", "statement": "", "paper": "", "figure": "", "tests": [
        {"says": "", "table": "there", "above": 0}, {"says": "", "table": "absent", "above": 0},
    ]}  # fmt: skip
    table = frame([("one", "a", 1.0, 0.5, 2.0)], ["model", "corpus"])
    assert claims.evaluate(claim, {"there": table}, OTHERS, PAPERS)["generalisation"]["verdict"] == claims.PARTLY


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"tests": [{"says": "", "table": "taxonomy"}]}, "C1"),
        ({"tests": [{"says": "", "table": "taxonmy", "above": 0}]}, "C1: no run has a table 'taxonmy'"),
        ({"tests": [{"says": "", "table": "x", "above": 0, "abvoe": 1}]}, "abvoe"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_a_malformed_ledger_is_refused(change, named):
    broken = {"models": {}, "claims": [CLAIMS["C1"] | change]}
    with pytest.raises(UserError, match=named):
        claims.check(broken, "claims.yaml", DOCUMENTED)


def test_a_column_that_is_not_there_is_named():
    table = frame([("one", "a", 1.0, 0.5, 2.0)], ["model", "corpus"])
    for test in ({"where": {"quantty": "x"}}, {"value": "valeu"}):
        with pytest.raises(UserError, match=r"table 'taxonomy' has no column '(quantty|valeu)'"):
            claims.rows({"says": "it holds", "table": "taxonomy", "above": 0} | test, table, {"one": None})


def test_the_shipped_ledger_is_well_formed():
    assert claims.check(LEDGER, "config/claims.yaml", DOCUMENTED) is LEDGER
    figures = yaml.safe_load((ROOT / "workflow/notebooks/inputs.yaml").read_text(encoding="utf-8"))
    for claim in CLAIMS.values():
        used = {test["table"] for test in claim["tests"]}
        assert used & {*figures[claim["figure"]]["tables"], "contrasts", "violations", "prediction"}, claim["id"]


def test_the_stage_writes_verdicts_with_their_evidence(tmp_path):
    tables = {}
    for claim in CLAIMS.values():
        for name, rows in tables_for(claim, OTHERS, lambda *_: True).items():
            tables.setdefault(name, []).append(rows)
    (tmp_path / "tables").mkdir()
    for name, parts in tables.items():
        pd.concat(parts).to_csv(tmp_path / "tables" / f"{name}.csv", index=False)
    models = [{"name": name, "title": name.title(), "repository": repository} for name, repository in OTHERS.items()]
    settings = {"run": "test", "config": "config/test.yaml", "models": models, "tables": list(DOCUMENTED)}
    stage.run(
        Namespace(
            settings=settings,
            claims=ROOT / "config/claims.yaml",
            tables=[path for path in (tmp_path / "tables").iterdir() if path.stem != "removal"],
            output=tmp_path / "claims.json",
        )
    )
    content = json.loads((tmp_path / "claims.json").read_text(encoding="utf-8"))
    found = {claim["id"]: claim for claim in content["claims"]}
    assert list(found) == list(CLAIMS)
    assert found["C2"]["evidence"] == ["results/test/tables/sink_geometry.csv"]
    assert (
        found["C2"]["command"] == "snakemake --cores all figures/test/sink_geometry.pdf --configfile config/test.yaml"
    )
    # A table that an earlier config left in the folder is none of the run's.
    assert found["C8"]["generalisation"]["verdict"] == claims.UNTESTABLE
    assert "claims.yaml" in content["provenance"]["inputs"]
    assert "removal.csv" not in content["provenance"]["inputs"]
    lines = (tmp_path / "claims.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 2 + len(CLAIMS)
    row = next(line for line in lines if line.startswith("| C2 |"))
    assert "| not testable in this run | reproduced |" in row
    assert "6.5 (8 of 8 hold)" in row
