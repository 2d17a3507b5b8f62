"""Captions of the report: every table has one, data is never markup, numbers are those of the results."""

import json
import re
from pathlib import Path

import pandas as pd
import pytest
from docutils.core import publish_parts

import captions
from headgeom.table_files import markdown

ROOT = Path(__file__).resolve().parents[2]
NASTY = "a|b *c* `d` e_ f\\g <s>"
ROW = {"model": "m", "corpus": "c_", "label": {"size": 2}, "value": 0.12345, "low": 0.1, "high": 0.2, "outcome": "yes"}


def html(text):
    """What docutils makes of it."""
    return publish_parts(text, writer="html")["body"]


@pytest.fixture
def results(tmp_path, monkeypatch):
    """A run of one claim and one table; the test runs in its project."""
    monkeypatch.chdir(tmp_path)
    tables = tmp_path / "results/r/tables"
    tables.mkdir(parents=True)
    record = {
        "stage": "tables",
        "code": {"commit": "0123456789abcdef", "modified": True},
        "inputs": {"x.csv": "ab" * 32},
    }
    (tables / "taxonomy.json").write_text(json.dumps(record))
    (tables / "taxonomy.csv").write_text("model,share\nm,0.5\nn,0.25\n")
    (tables / "taxonomy.md").write_text(
        f"| model | share |\n| --- | --- |\n| m | {NASTY.replace('|', chr(92) + '|')} |\n"
    )
    tests = [{"says": NASTY, "table": "taxonomy", "rows": [ROW, ROW | {"value": 0.5, "outcome": "no"}]}]
    empty = {"verdict": "not testable in this run", "tests": [{"says": "none", "table": "taxonomy", "rows": []}]}
    claim = {"id": "C5", "statement": NASTY, "paper": "5 %", "figure": "taxonomy_map", "command": "snakemake x"}
    claim |= {"replication": empty, "generalisation": {"verdict": "partly", "tests": tests}}
    (tmp_path / "results/r/claims.json").write_text(json.dumps({"claims": [claim]}))
    return captions.Captions("r")


def test_each_documented_table_has_a_caption_and_each_caption_a_table():
    section = (ROOT / "docs/results.md").read_text(encoding="utf-8").split("\n## Tables")[1].split("\n## ")[0]
    documented = re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)
    assert set(captions.of_repository()[1]) == set(documented)
    for name, folder in captions.of_repository()[1].items():
        text = (ROOT / f"workflow/report/{folder}/{name}.rst").read_text(encoding="utf-8")
        assert f'captions.table("{name}")' in text


def test_captions_hold_no_number_of_a_result():
    for path in (ROOT / "workflow/report").rglob("*.rst"):
        text = re.sub(r"2602\.01893|N = 1\b|Above 1\b|SHA-256", "", path.read_text(encoding="utf-8"))
        assert not re.findall(r"\d", text), path


def test_data_is_not_markup():
    table = html(captions.list_table([["head", "other"], [NASTY, "x"]]))
    assert "system-message" not in table
    assert "a|b *c* `d` e_ f\\g &lt;s&gt;" in table
    rows = [["v", "w"], [NASTY, "–"]]
    assert captions.markdown_rows(markdown(pd.DataFrame([rows[1]], columns=rows[0]))) == rows


def test_a_claim_says_what_was_measured(results):
    (claim,) = results.claims()
    (test,) = claim["tests"]
    assert test["line"].endswith(": 0.123 to 0.5 (1 of 2 hold)")
    text = html(f"{test['line']}\n\n{test['rows']}\n\n{results.verdicts()}")
    assert "system-message" not in text
    for part in ("[0.1, 0.2]", "size 2", "partly", "not testable in this run"):
        assert part in text


def test_many_rows_are_not_listed(results):
    content = json.loads((results.results / "claims.json").read_text())
    content["claims"][0]["generalisation"]["tests"][0]["rows"] *= captions.MOST_ROWS
    (results.results / "claims.json").write_text(json.dumps(content))
    (test,) = results.claims()[0]["tests"]
    assert test["rows"] == ""
    assert f"of {2 * captions.MOST_ROWS} hold" in test["line"]


def test_a_table_says_its_columns_rows_and_what_made_it(results):
    text = html(results.table("taxonomy"))
    assert "system-message" not in text
    assert "2 rows. Columns: model, corpus, regime" in text
    assert "a|b *c*" in text
    assert "0123456789ab" in text
    assert "changes that are not committed" in text
    assert "x.csv" in text


def test_a_figure_has_its_notebooks_words_and_its_claims(results, tmp_path):
    (tmp_path / "figures/r").mkdir(parents=True)
    record = {"stage": "figure", "code": {"commit": None, "modified": None}}
    (tmp_path / "figures/r/taxonomy_map.json").write_text(json.dumps(record))
    (tmp_path / "figures/r/depth.json").write_text(json.dumps(record))
    found = results.figure("taxonomy_map")
    assert found["text"].startswith("In an attention operation the source with the largest contribution wins")
    assert "#" not in found["text"]
    assert [claim["id"] for claim in found["claims"]] == ["C5"]
    assert found["made"] == "Made by stage *figure*, code version ``unknown``."
    assert results.figure("depth")["claims"] == []


def test_to_all_else_it_is_an_empty_dict(results):
    assert json.dumps({"captions": results}) == '{"captions": {}}'


@pytest.mark.parametrize(
    ("value", "text"), [(None, "–"), (float("nan"), "–"), (0.12345, "0.123"), (276480, "276,480"), (-2.0, "-2")]
)
def test_numbers_have_three_digits(value, text):
    assert captions.number(value) == text
