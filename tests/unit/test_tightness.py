"""Certificates against measurements: violations, ratios, and the constant-norm prediction, on counts set by hand."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import synthetic
from headgeom import statistics, tightness
from headgeom.errors import UserError
from headgeom.stages import bounds
from headgeom.statistics import Bootstrap

SAMPLE = Bootstrap(np.eye(5) * 5, 0.95)  # every replicate is one document, five times


@pytest.fixture
def data():
    return synthetic.geometry()


def rates(data):
    fp, tp = tightness.levels(data)
    return dict(zip(("precision", "recall", "f"), statistics.precision_recall_f(fp, tp, data["size"]), strict=True))


def at(labels):
    return {"layer": 2, "head": 1, "ranking": "attention", "pool": "no_sink", "size": 4} | labels


def test_levels_hold_the_measurement_the_inversion_bound_and_the_certificates(data):
    fp, tp = tightness.levels(data)
    assert list(fp["certificate"].values) == ["measured", "inversion", *synthetic.CERTIFICATES]
    one = at({"document": "doc-3"})
    euclidean = data.sel(distance="euclidean")
    assert fp.sel(certificate="measured", **one) == euclidean["fp"].sel(one)
    assert fp.sel(certificate="inversion", **one) == euclidean["inv"].sel(one)
    assert tp.sel(certificate="inversion", **one) == max(0, 4 - int(euclidean["inv"].sel(one)))
    assert tp.sel(certificate="selected", **one) == data["certified_tp"].sel(certificate="selected", **one)


def test_valid_bounds_are_no_violations(data):
    broken = tightness.violations(*tightness.levels(data))
    assert broken.sizes["certificate"] == 6
    assert not broken.any()
    tightness.require_none(broken, "m, c")


@pytest.mark.parametrize("name", ["certified_fp", "certified_tp", "inv"])
def test_a_violation_is_found_and_named(data, name):
    place = at({"document": "doc-3"})
    if name == "inv":
        certificate = "inversion"
        data["fp"].loc[place | {"distance": "euclidean"}], data["certified_fp"].loc[place] = 3, 9
        data["inv"].loc[place | {"distance": "euclidean"}] = 2
    else:
        certificate = "selected"
        measured = data[name.removeprefix("certified_")].sel(distance="euclidean", **place)
        wrong = measured + (-1 if name == "certified_fp" else 1)
        data[name].loc[place | {"certificate": certificate}] = float(wrong)
    broken = tightness.violations(*tightness.levels(data))
    assert broken.sum() == 1
    with pytest.raises(UserError) as raised:
        tightness.require_none(broken, "m, c")
    for label in (f"certificate {certificate}", "document doc-3", "layer 2", "head 1", "N 4", "no_sink"):
        assert label in str(raised.value)


def test_a_failed_prediction_is_no_violation(data):
    data["certified_fp"].loc[{"certificate": "constant_norm"}] = 0
    assert not tightness.violations(*tightness.levels(data)).any()


def test_curves_are_means_over_heads_then_documents(data):
    f = rates(data)
    found = tightness.curves(f, data["inv"].sel(distance="euclidean"), SAMPLE)
    keys = {"ranking": "contribution", "pool": "all", "size": 8}
    expected = f["f"].sel(certificate="interval", **keys).mean(["layer", "head"])
    row = found.query("certificate == 'interval' and metric == 'f' and ranking == 'contribution' and pool == 'all'")
    row = row[row["size"] == 8].iloc[0]
    assert row["mean"] == pytest.approx(float(expected.mean()))
    assert row["documents"] == 5
    assert (found.query("certificate == 'pairs'")["documents"] == 2).all()
    margin = found.query("metric == 'margin_positive' and ranking == 'contribution' and pool == 'all' and size == 1")
    share = (data["inv"].sel(distance="euclidean", ranking="contribution", pool="all", size=1) == 0).mean()
    assert margin["mean"].item() == pytest.approx(float(share))


def test_tightness_is_a_ratio_of_means_over_the_same_operations(data):
    f = rates(data)["f"]
    regimes = xr.DataArray([["mixer"] * 4, ["reset"] * 4, ["reset"] * 4], dims=("layer", "head"))
    found = tightness.tightness(f, regimes, data["sink_rank"], SAMPLE).set_index(["by", "group", "certificate"])
    keys = {"ranking": "attention", "pool": "all", "size": 4}

    def ratio(by, group, certificate):
        rows = found.loc[(by, group, certificate)]
        return rows.query("ranking == 'attention' and pool == 'all' and size == 4")["ratio"].item()

    measured, bound = f.sel(certificate="measured", **keys), f.sel(certificate="selected", **keys)
    assert ratio("all", "all", "selected") == pytest.approx(float(bound.mean() / measured.mean()))
    assert ratio("layer", "2", "selected") == pytest.approx(
        float((bound.sel(layer=2)).mean() / measured.sel(layer=2).mean())
    )
    assert ratio("regime", "mixer", "selected") == pytest.approx(
        float(bound.sel(layer=0).mean() / measured.sel(layer=0).mean())
    )
    assert np.isnan(ratio("regime", "retriever", "selected"))
    # The costly certificate is compared with the documents that have it, not with all.
    pairs = f.sel(certificate="pairs", **keys)[:2]
    assert ratio("all", "all", "pairs") == pytest.approx(float(pairs.mean() / measured[:2].mean()))
    # Layer 1 hides the sink: its operations are neither.
    holds = data["sink_rank"].sel(ranking="attention") < 4
    visible = data["sink_rank"].sel(ranking="attention").notnull()
    for group, chosen in (("selected", holds), ("not selected", ~holds & visible)):
        above, below = (x.where(chosen).mean(["layer", "head"]) for x in (bound, measured))
        both = above.notnull() & below.notnull()
        expected = above.where(both).mean() / below.where(both).mean()
        assert ratio("sink", group, "selected") == pytest.approx(float(expected))


def test_the_prediction_is_correlated_over_operations(data):
    both = rates(data)
    found = tightness.prediction(both, SAMPLE).query("ranking == 'contribution' and pool == 'no_sink'")
    keys = {"ranking": "contribution", "pool": "no_sink", "size": 4}
    x, y = (both["f"].sel(certificate=name, **keys).values.ravel() for name in ("constant_norm", "measured"))
    row = found[(found["quantity"] == "correlation") & (found["size"] == 4)].iloc[0]
    assert row["value"] == pytest.approx(np.corrcoef(x, y)[0, 1])
    # A replicate that is one document has that document's correlation.
    each = [np.corrcoef(a.ravel(), b.ravel())[0, 1] for a, b in zip(x.reshape(5, -1), y.reshape(5, -1), strict=True)]
    assert row["low"] == pytest.approx(np.quantile(each, 0.025))
    assert not (found["size"] == 1).any()


def test_coverage_is_the_share_where_the_prediction_is_a_lower_bound(data):
    for name in ("fp", "tp"):
        data[f"certified_{name}"].loc[{"certificate": "constant_norm"}] = data[name].sel(distance="euclidean")
    data["certified_tp"].loc[{"certificate": "constant_norm", "layer": 0, "head": 0}] += 1
    found = tightness.prediction(rates(data), SAMPLE)
    assert found.query("quantity == 'coverage' and size == 2")["value"].tolist() == pytest.approx([11 / 12] * 4)


def test_argmax_is_over_sizes_from_two_up(data):
    for level, best in (("measured", 4), ("constant_norm", 8)):
        for size in (1, 2, 4, 8, 12):
            good = size in (1, best)
            if level == "measured":
                data["fp"].loc[{"size": size}] = 0 if good else 1
                data["tp"].loc[{"size": size}] = size if good else 0
            else:
                data["certified_fp"].loc[{"certificate": level, "size": size}] = 0 if good else 1
                data["certified_tp"].loc[{"certificate": level, "size": size}] = size if good else 0
    found = tightness.prediction(rates(data), SAMPLE)
    assert (found.query("quantity == 'argmax_measured'")[["value", "low", "high"]] == 4).all(axis=None)
    assert (found.query("quantity == 'argmax_predicted'")[["value", "low", "high"]] == 8).all(axis=None)


def test_the_summary_counts_records_and_is_one_row(data):
    heads = pd.DataFrame([{"layer": i, "head": j, "regime": "reset"} for i in range(3) for j in range(4)])
    found = bounds.tables(data, heads, SAMPLE, "m, c")
    euclidean = data["fp"].sel(distance="euclidean")
    verified = found["violations"].set_index("certificate")["records"]
    assert verified["interval"] == int(euclidean.notnull().sum())
    assert verified["pairs"] == int(euclidean[:2].notnull().sum())
    (row,) = found["certificates"].to_dict("records")
    assert row["size"] == 4
    assert row["records"] == euclidean.notnull().sum()
    assert row["violations"] == 0
    keys = "by == 'all' and certificate == 'selected' and ranking == 'attention' and pool == 'all' and size == 4"
    assert row["selected"] == found["tightness"].query(keys)["ratio"].item()


def set_everywhere(data, level, fp, tp):
    data["certified_fp"].loc[{"certificate": level}] = fp
    data["certified_tp"].loc[{"certificate": level}] = tp


def test_a_prediction_that_is_the_same_everywhere_has_no_correlation_and_no_argmax(data):
    set_everywhere(data, "constant_norm", data["size"], data["size"])  # P = 1/2, R = 1, F = 2/3
    found = tightness.prediction(rates(data), SAMPLE)
    assert (
        found.query("quantity in ['correlation', 'argmax_predicted']")[["value", "low", "high"]].isna().all(axis=None)
    )
    assert found.query("quantity in ['coverage', 'argmax_measured']")["value"].notna().all()


def test_a_run_with_one_as_its_only_size_has_no_prediction():
    data = synthetic.geometry(sizes=(1,))
    found = bounds.tables(data, pd.DataFrame({"layer": [0], "head": [0], "regime": ["mixer"]}), SAMPLE, "m, c")
    assert found["prediction"].empty
    assert found["certificates"]["size"].item() == 1


def test_more_inversions_than_selected_sources_bound_tp_by_zero(data):
    data["inv"].loc[{"size": 4}] = 9
    _, tp = tightness.levels(data)
    assert (tp.sel(certificate="inversion", size=4) == 0).all()


def test_coverage_counts_measured_operations_alone(data):
    set_everywhere(data, "constant_norm", 0, 0)
    data["certified_fp"].loc[{"certificate": "constant_norm"}] = (data["fp"] * 0 + 99).sel(distance="euclidean")
    found = tightness.prediction(rates(data), SAMPLE).query("quantity == 'coverage'")
    assert found[found["size"] == 12]["value"].tolist() == pytest.approx([1.0] * 4)  # layer 1 sees fewer sources
