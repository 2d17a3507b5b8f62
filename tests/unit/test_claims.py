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
NUMBERS = {test.get("value", "value") for claim in LEDGER["claims"] for test in claim["tests"]}
FIGURES = yaml.safe_load((ROOT / "workflow/notebooks/inputs.yaml").read_text(encoding="utf-8"))
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
        ({"above": 1}, (np.nan, np.nan, np.nan), "missing"),
        ({"above": 1}, (2, np.nan, np.nan), "missing"),
        ({"above": 1}, (np.inf, 2, np.inf), "missing"),
    ],
)
def test_outcome_of_an_interval(test, interval, expected):
    assert claims.outcome(test, *interval) == expected


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        ([], claims.UNTESTABLE),
        (["missing", "missing"], claims.UNTESTABLE),
        (["missing", "no"], claims.NOT),
        (["missing", "yes"], claims.PARTLY),
        (["unclear", "unclear"], claims.PARTLY),
        (["unclear", "yes"], claims.PARTLY),
        (["unclear", "no"], claims.NOT),
        (["no", "yes"], claims.PARTLY),
        (["yes", "yes"], claims.REPRODUCED),
    ],
)
def test_verdict_of_outcomes(outcomes, expected):
    assert claims.verdict(outcomes) == expected


def test_without_a_finite_number_no_claim_is_testable(claim):
    tables = tables_for(claim, OTHERS | paper_models(claim), lambda *_: True)
    emptied = {name: table.assign(**dict.fromkeys(NUMBERS & {*table}, np.nan)) for name, table in tables.items()}
    found = claims.evaluate(claim, emptied, OTHERS | paper_models(claim), PAPERS)
    assert {found[kind]["verdict"] for kind in claims.KINDS} == {claims.UNTESTABLE}


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


def test_one_corpus_says_nothing_of_stability_across_corpora():
    models = OTHERS | paper_models(CLAIMS["C6"])
    tables = tables_for(CLAIMS["C6"], models, lambda *_: True)
    single = {name: table[table["corpus"] == "a"] for name, table in tables.items()}
    found = claims.evaluate(CLAIMS["C6"], single, models, PAPERS)
    assert found["generalisation"]["verdict"] == claims.UNTESTABLE
    assert found["replication"]["verdict"] == claims.PARTLY


def test_no_records_are_no_evidence():
    claim = CLAIMS["C11"] | {"tests": CLAIMS["C11"]["tests"][:1]}

    def found(*records):
        rows = [("one", "a", name, count, 0) for name, count in zip(("interval", "pairs"), records, strict=True)]
        table = pd.DataFrame(rows, columns=["model", "corpus", "certificate", "records", "violations"])
        result = claims.evaluate(claim, {"violations": table}, OTHERS, PAPERS)["generalisation"]
        return result["verdict"], [row["label"]["certificate"] for row in result["tests"][0]["rows"]]

    assert found(10, 10) == (claims.REPRODUCED, ["interval", "pairs"])
    assert found(10, 0) == (claims.REPRODUCED, ["interval"])
    assert found(0, 0) == (claims.UNTESTABLE, [])


def test_a_claim_that_is_tested_in_part_is_not_reproduced_in_full():
    claim = {"id": "X", "statement": "", "paper": "", "figure": "", "tests": [
        {"says": "", "table": "there", "above": 0}, {"says": "", "table": "absent", "above": 0},
    ]}  # fmt: skip
    table = frame([("one", "a", 1.0, 0.5, 2.0)], ["model", "corpus"])
    assert claims.evaluate(claim, {"there": table}, OTHERS, PAPERS)["generalisation"]["verdict"] == claims.PARTLY


def asking(where, table="contrasts"):
    """A change of a claim: its one test has this ``where``."""
    return {"tests": [{"says": "", "table": table, "above": 0, "where": where}]}


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"tests": [{"says": "", "table": "taxonomy"}]}, "C1"),
        ({"tests": [{"says": "", "table": "taxonmy", "above": 0}]}, "C1: no run has a table 'taxonmy'"),
        ({"tests": [{"says": "", "table": "x", "above": 0, "abvoe": 1}]}, "abvoe"),
        ({"colour": "red"}, "colour"),
        ({"figure": "separabilty"}, "C1: no run has a figure 'separabilty'"),
        (asking({"quantity": "advantge"}), "C1: where: table 'contrasts' never has the quantity 'advantge'"),
        (asking({"quantity": ["advantage", "norm_ratio"]}), "C1: where: .* never has the quantity 'norm_ratio'"),
        (asking({"regime": "mixr"}, "taxonomy"), "C1: where: table 'taxonomy' never has the regime 'mixr'"),
        (asking({"score": "taxonmy"}, "removal"), "C1: where: table 'removal' never has the score 'taxonmy'"),
        ({"tests": [{"says": "", "table": "taxonomy", "above": 0, "of": {"a/b": {}}}]}, "C1: of: .*'a/b'"),
    ],
)
def test_a_malformed_ledger_is_refused(change, named):
    broken = {"models": {}, "claims": [CLAIMS["C1"] | change]}
    with pytest.raises(UserError, match=named):
        claims.check(broken, "claims.yaml", DOCUMENTED, FIGURES)


def test_the_reference_tables_have_known_values_only():
    for path in (ROOT / "results/reference").glob("*.csv"):
        table = pd.read_csv(path)
        known = claims.VALUES | {"quantity": claims.QUANTITIES.get(path.stem, set())}
        for column in known.keys() & {*table.select_dtypes("str")}:
            assert set(table[column]) <= known[column], (path.stem, column)


def test_known_values_are_documented():
    assert set().union(*claims.VALUES.values()) <= EVERY_WORD
    for table, quantities in claims.QUANTITIES.items():
        assert quantities <= set(re.findall(r"\w+", DOCUMENTED[table])), table


def test_a_column_that_is_not_there_is_named():
    table = frame([("one", "a", 1.0, 0.5, 2.0)], ["model", "corpus"])
    for test in ({"where": {"quantty": "x"}}, {"value": "valeu"}):
        with pytest.raises(UserError, match=r"table 'taxonomy' has no column '(quantty|valeu)'"):
            claims.rows({"says": "it holds", "table": "taxonomy", "above": 0} | test, table, {"one": None})
    claim = CLAIMS["C2"] | {"tests": [{"says": "", "table": "x", "above": 0, "sizes_from": 2}]}
    with pytest.raises(UserError, match=r"C2: .* has no column 'size'"):
        claims.evaluate(claim, {"x": table}, OTHERS, PAPERS)


def test_the_shipped_ledger_is_well_formed():
    assert claims.check(LEDGER, "config/claims.yaml", DOCUMENTED, FIGURES) is LEDGER
    for claim in CLAIMS.values():
        used = {test["table"] for test in claim["tests"]}
        assert used & {*FIGURES[claim["figure"]]["tables"], "contrasts", "violations", "prediction"}, claim["id"]


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
    settings |= {"figures": list(FIGURES), "drawn": [name for name in FIGURES if name != "removal_curves"]}
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
    assert [found["C8"][key] for key in ("evidence", "figure_file", "command")] == [[], None, None]
    assert "claims.yaml" in content["provenance"]["inputs"]
    assert "removal.csv" not in content["provenance"]["inputs"]
    lines = (tmp_path / "claims.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 2 + len(CLAIMS)
    row = next(line for line in lines if line.startswith("| C2 |"))
    assert "| not testable in this run | reproduced |" in row
    assert "6.5 (8 of 8 hold)" in row
