"""A rerun is held against the reference: what moved, what left its interval, which verdict changed."""

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest
import verify

from headgeom.claims import VERDICTS

REFERENCE = Path(__file__).resolve().parents[2] / "results/reference"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The reference, and a run that repeats it exactly; the test runs in their project."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(REFERENCE, tmp_path / "results/reference")
    shutil.copytree(REFERENCE, tmp_path / "results/again/tables")
    (tmp_path / "results/again/tables/claims.json").replace(tmp_path / "results/again/claims.json")
    (tmp_path / "again.yaml").write_text("run: again\n")
    return tmp_path


def verified(capsys):
    """Exit code and what was printed."""
    code = verify.main(["again.yaml"])
    return code, capsys.readouterr().out


def edit(folder, name, change):
    """Change a table of the run."""
    path = folder / f"results/again/tables/{name}.csv"
    frame = pd.read_csv(path)
    change(frame).to_csv(path, index=False)


def shifted(column, by):
    """A change that adds to the first row of a column ``by`` times half the width of its interval."""

    def change(frame):
        half = (frame.loc[0, "high"] - frame.loc[0, "low"]) / 2
        frame.loc[0, column] = (frame.loc[0, "low"] + frame.loc[0, "high"]) / 2 + by * half
        return frame

    return change


def test_an_equal_run_passes(folder, capsys):
    code, text = verified(capsys)
    assert code == 0
    assert "4 of 4 pairs" in text
    claims = json.loads((REFERENCE / "claims.json").read_text())["claims"]
    assert f"{2 * len(claims)} verdicts: none changed" in text
    assert ": 0 moved, 0 out of" in text


def test_a_number_within_its_interval_is_said_to_have_moved(folder, capsys):
    edit(folder, "sink_geometry", shifted("mean", 0.9))
    code, text = verified(capsys)
    assert code == 0
    assert "1 moved, 0 out of" in text
    line = next(line for line in text.splitlines() if "sink_geometry:" in line)
    assert "norm_ratio: mean: " in line
    assert "% of half the width of [" in line


def test_last_digits_do_not_count(folder, capsys):
    edit(folder, "sink_geometry", lambda frame: frame.assign(mean=frame["mean"] * (1 + 1e-9)))
    assert ": 0 moved" in verified(capsys)[1]


def test_a_value_outside_of_its_own_interval_may_stay_there(folder, capsys):
    reference = pd.read_csv(REFERENCE / "sink_geometry.csv")
    reference.loc[0, "low"] = reference.loc[0, "mean"] + 0.01
    reference.loc[0, "high"] = reference.loc[0, "mean"] + 0.02
    reference.to_csv(folder / "results/reference/sink_geometry.csv", index=False)
    edit(folder, "sink_geometry", lambda frame: frame.assign(mean=frame["mean"] + 0.005 * (frame.index == 0)))
    assert verified(capsys)[0] == 0
    edit(folder, "sink_geometry", lambda frame: frame.assign(mean=frame["mean"] - 0.01 * (frame.index == 0)))
    assert verified(capsys)[0] == 1


FAILING = [
    ("sink_geometry", shifted("mean", 1.1), "outside of ["),
    ("sink_effect", shifted("ratio", -1.1), "outside of ["),
    ("contrasts", lambda frame: frame.drop(index=3), "this row is gone"),
    ("contrasts", lambda frame: frame.assign(value=frame["value"].where(frame.index != 3)), "-> nan, outside of ["),
]


@pytest.mark.parametrize(("name", "change", "message"), FAILING)
def test_what_left_its_interval_fails(folder, capsys, name, change, message):
    if name == "sink_effect":
        # The first rows are N = 1, where F is 1 by construction and the interval has no width.
        edit(folder, name, lambda frame: frame.iloc[::-1].reset_index(drop=True))
    edit(folder, name, change)
    code, text = verified(capsys)
    assert code == 1
    failed = [line for line in text.splitlines() if line.startswith(f"FAILED {name}: smollm2-135m") or message in line]
    assert len(failed) == 1
    assert message in failed[0]


def added(column, by):
    """A change that adds ``by`` to the first value of a column."""
    return lambda frame: frame.assign(**{column: frame[column] + by * (frame.index == 0)})


@pytest.mark.parametrize(
    ("name", "change", "column"),
    [
        ("models", added("parameters", 1), "parameters"),
        ("models", lambda frame: frame.assign(sha256=frame["sha256"].replace(frame.loc[0, "sha256"], "0")), "sha256"),
        ("violations", added("records", 1), "records"),
        ("taxonomy", added("heads", -1), "heads"),
        ("corpora", added("read", 1), "read"),
    ],
)
def test_a_changed_count_or_hash_fails(folder, capsys, name, change, column):
    edit(folder, name, change)
    code, text = verified(capsys)
    assert code == 1
    failed = [line for line in text.splitlines() if line.startswith(f"FAILED {name}: ")]
    assert failed and all(f"{column}: " in line and "(should be the same)" in line for line in failed)
    assert f"{len(failed)} moved, 0 out of the reference's interval, {len(failed)} of those" in text


def test_a_column_that_is_gone_fails(folder, capsys):
    edit(folder, "violations", lambda frame: frame.drop(columns="records"))
    edit(folder, "sink_geometry", lambda frame: frame.drop(columns="mean"))
    code, text = verified(capsys)
    assert code == 1
    assert "FAILED violations: smollm2-135m, wikipedia, inversion: records: 276480 -> nan" in text
    assert "FAILED sink_geometry: smollm2-135m, wikipedia, norm_ratio: mean: " in text


def test_a_number_without_an_interval_may_move(folder, capsys):
    edit(folder, "taxonomy", added("majority_share", 0.01))
    code, text = verified(capsys)
    assert code == 0
    assert "1 moved, 0 out of" in text and "(no interval)" in text


def test_a_missing_table_fails(folder, capsys):
    (folder / "results/again/tables/alignment.csv").unlink()
    code, text = verified(capsys)
    assert code == 1
    assert "FAILED alignment: the run has no such table" in text


def test_a_changed_verdict_fails(folder, capsys):
    path = folder / "results/again/claims.json"
    content = json.loads(path.read_text())
    claim = content["claims"][1]
    was = claim["generalisation"]["verdict"]
    now = claim["generalisation"]["verdict"] = next(verdict for verdict in VERDICTS if verdict != was)
    path.write_text(json.dumps(content))
    code, text = verified(capsys)
    assert code == 1
    assert f"FAILED {claim['id']}, generalisation: {was} -> {now}" in text


def test_a_moved_evidence_row_of_a_claim_fails(folder, capsys):
    """Claims rest on tables too large to keep; their rows are compared all the same."""
    path = folder / "results/again/claims.json"
    content = json.loads(path.read_text())
    claim = next(claim for claim in content["claims"] if claim["id"] == "C11")
    test = next(test for test in claim["generalisation"]["tests"] if test["table"] == "tightness")
    test["rows"][0]["value"] = test["rows"][0]["high"] + 1
    path.write_text(json.dumps(content))
    code, text = verified(capsys)
    assert code == 1
    assert "FAILED C11: mean F that the interval certificate" in text


def test_a_run_of_fewer_models_is_compared_where_it_can_be(folder, capsys):
    for path in (folder / "results/again/tables").glob("*.csv"):
        frame = pd.read_csv(path)
        frame[frame["model"] == "smollm2-135m"].to_csv(path, index=False)
    code, text = verified(capsys)
    assert code == 0
    assert "2 of 4 pairs" in text
    assert "verdicts are not compared" in text


def test_nothing_to_compare_is_said(folder):
    edit(folder, "corpora", lambda frame: frame.assign(model="other"))
    with pytest.raises(SystemExit, match=r"nothing to compare: .* no pair of model and corpus in common"):
        verify.main(["again.yaml"])
    shutil.rmtree(folder / "results/again")
    with pytest.raises(SystemExit, match=r"nothing to compare: .*corpora\.csv is missing; make the run first"):
        verify.main(["again.yaml"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, r"there is no config again\.yaml"),
        ("models: []\n", r"again\.yaml: lacks the key 'run'"),
        ("- run\n", r"again\.yaml: holds no keys"),
        ("run: [", r"again\.yaml is not YAML in UTF-8: .* line 1"),
    ],
)
def test_a_bad_config_is_named(folder, text, message):
    (folder / "again.yaml").unlink()
    if text:
        (folder / "again.yaml").write_text(text)
    with pytest.raises(SystemExit, match=message):
        verify.main(["again.yaml"])
