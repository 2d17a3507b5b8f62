"""The tables of the metrics stage against plain loops over documents, layers and heads."""

import itertools

import numpy as np
import pandas as pd
import pytest

import synthetic
from headgeom import statistics
from headgeom.stages import metrics
from headgeom.statistics import Bootstrap

DOCUMENTS, LAYERS, HEADS = 5, 3, 4
HIDDEN = 1  # the layer whose sink is hidden


@pytest.fixture(scope="module")
def data():
    return synthetic.geometry(DOCUMENTS, LAYERS, HEADS, hidden=(HIDDEN,))


@pytest.fixture(scope="module")
def bootstrap():
    return Bootstrap.draw(DOCUMENTS, seed=9, replicates=80, confidence=0.9)


@pytest.fixture(scope="module")
def tables(data, bootstrap):
    return metrics.tables(data, bootstrap)


def rates(data, **labels) -> dict[tuple[int, int, int], dict[str, float]]:
    """P, R and F of each attention operation (document, layer, head) whose number of sources is above N."""
    at = data[["fp", "tp", "sources"]].sel(**labels)
    fps, tps, sources = (at[name].transpose("document", "layer", "head").values.astype(float) for name in at)
    size, found = labels["size"], {}
    for index in np.ndindex(fps.shape):
        fp, tp = fps[index], tps[index]
        if size < sources[index]:
            precision, recall = size / (size + fp), tp / size
            f = 2 * precision * recall / (precision + recall) if precision + recall > 0 else 0.0
            found[index] = {"precision": precision, "recall": recall, "f": f}
    return found


def operations(layers=range(LAYERS)):
    return itertools.product(layers, range(HEADS))


def interval(bootstrap, of_counts) -> list[float]:
    """Percentiles of a statistic of documents, each repeated as often as a replicate holds it."""
    numbers = [of_counts([d for d, n in enumerate(row) for _ in range(int(n))]) for row in bootstrap.counts]
    numbers = [number for number in numbers if not np.isnan(number)]
    return list(np.percentile(numbers, [5, 95])) if numbers else [np.nan, np.nan]


def test_every_table_has_its_columns(tables):
    columns = {
        "separability": "distance pool ranking size metric mean low high documents",
        "sink_effect": "distance ranking size operations ratio low high share",
        "sink_geometry": "quantity mean low high",
        "sink_heads": f"layer head {' '.join(metrics.SINK_QUANTITIES)}",
        "depth": "layer relative_depth quantity size mean low high",
        "similarity": "lag mean low high",
        "attention_profile": "axis start end mean low high",
        "first_version": "quantity size value low high",
        "contrasts": "quantity size value low high",
    }
    assert {name: " ".join(frame.columns) for name, frame in tables.items()} == columns


def test_separability_of_scored_rankings(data, bootstrap, tables):
    frame = tables["separability"].query("ranking != 'random'")
    assert len(frame) == 2 * 2 * 2 * len(synthetic.SIZES) * 3
    for row in frame.sample(40, random_state=0).itertuples():
        labels = {"distance": row.distance, "pool": row.pool, "ranking": row.ranking, "size": row.size}
        found = rates(data, **labels)
        documents = [
            np.mean([found[d, *at][row.metric] for at in operations() if (d, *at) in found]) for d in range(DOCUMENTS)
        ]
        assert row.mean == pytest.approx(np.mean(documents), rel=1e-12)
        limits = interval(bootstrap, lambda chosen, d=documents: np.mean([d[i] for i in chosen]))
        np.testing.assert_allclose([row.low, row.high], limits)
        assert row.documents == DOCUMENTS


def test_separability_of_random_sets(data, tables):
    for row in tables["separability"].query("ranking == 'random'").itertuples():
        values = data[f"random_{row.metric}"].sel(distance=row.distance, pool=row.pool, size=row.size)
        per_document = np.nanmean(values.values.reshape(DOCUMENTS, -1).astype(float), axis=1)
        assert row.mean == pytest.approx(per_document.mean(), rel=1e-12)


def test_a_size_that_no_layer_has_is_missing(data, bootstrap):
    data = data.copy(deep=True)
    for name in ("fp", "tp", "inv", "random_precision", "random_recall", "random_f"):
        data[name].loc[{"size": 12}] = np.nan
    frame = metrics.tables(data, bootstrap)["separability"].query("size == 12")
    assert (frame["documents"] == 0).all()
    assert frame[["mean", "low", "high"]].isna().all(axis=None)


@pytest.mark.parametrize("chosen", ["all", "sink_selected"])
def test_sink_effect_is_a_ratio_of_means_over_the_same_operations(data, bootstrap, tables, chosen):
    frame = tables["sink_effect"].query("operations == @chosen")
    assert len(frame) == 2 * 2 * len(synthetic.SIZES)
    for row in frame.itertuples():
        labels = {"distance": row.distance, "ranking": row.ranking, "size": row.size}
        ranks = data["sink_rank"].sel(ranking=row.ranking).values
        found = [rates(data, pool=pool, **labels) for pool in ("no_sink", "all")]
        means, counted = {}, 0
        for document in range(DOCUMENTS):
            pools = []
            for layer, head in operations():
                rank = ranks[document, layer, head]
                if np.isnan(rank) or (chosen == "sink_selected" and rank >= row.size):
                    continue
                pools.append([pool[document, layer, head]["f"] for pool in found])
            counted += len(pools)
            if pools:
                means[document] = np.mean(pools, axis=0)

        def ratio(documents, means=means):
            above, below = np.mean([means[d] for d in documents if d in means] or [[np.nan, np.nan]], axis=0)
            return above / below if below else np.nan

        assert row.ratio == pytest.approx(ratio(range(DOCUMENTS)), rel=1e-12, nan_ok=True)
        assert row.share == pytest.approx(counted / (DOCUMENTS * LAYERS * HEADS))
        np.testing.assert_allclose([row.low, row.high], interval(bootstrap, ratio))


def test_a_hidden_sink_is_left_out_of_sink_quantities(data, tables):
    visible = [layer for layer in range(LAYERS) if layer != HIDDEN]
    for row in tables["sink_geometry"].itertuples():
        own = row.quantity in ("norm_variation", "coherence_mean")
        values = data[row.quantity].values[:, range(LAYERS) if own else visible].astype(float)
        assert row.mean == pytest.approx(values.reshape(DOCUMENTS, -1).mean(1).mean(), rel=1e-12)
        assert row.low < row.mean < row.high
    hidden = tables["sink_heads"].query("layer == @HIDDEN")
    assert hidden.drop(columns=["norm_variation", "coherence_mean"]).iloc[:, 2:].isna().all(axis=None)
    assert tables["depth"].query("layer == @HIDDEN and quantity == 'sink_mass'")["mean"].isna().all()


def test_sink_heads_are_means_over_documents(data, tables):
    frame = tables["sink_heads"].set_index(["layer", "head"])
    assert len(frame) == LAYERS * HEADS
    for (layer, head), row in frame.iterrows():
        for name in frame.columns:
            values = data[name].sel(layer=layer, head=head).values.astype(float)
            np.testing.assert_allclose(row[name], values.mean(), rtol=1e-12)


def test_depth(data, tables):
    frame = tables["depth"]
    assert len(frame) == LAYERS * (2 * len(synthetic.SIZES) + 1)
    np.testing.assert_array_equal(frame["relative_depth"], frame["layer"] / 2)
    for row in frame.itertuples():
        documents = []
        for document in range(DOCUMENTS):
            if row.quantity == "sink_mass":
                documents.append(data["sink_mass"].values[document, row.layer].astype(float).mean())
                continue
            labels = {"distance": "euclidean", "ranking": "attention", "pool": row.quantity[2:], "size": row.size}
            found = rates(data, **labels)
            rows = [(document, row.layer, head) for head in range(HEADS)]
            documents.append(np.mean([found[at]["f"] if at in found else np.nan for at in rows]))
        np.testing.assert_allclose(row.mean, np.mean(documents), rtol=1e-12)
        assert pd.isna(row.size) == (row.quantity == "sink_mass")
    # The layer with a window of ten sources has no set of twelve.
    assert frame.query("layer == @HIDDEN and size == 12")["mean"].isna().all()
    assert frame.query("layer != @HIDDEN")["mean"].notna().all()


def test_profiles(data, tables):
    for row in tables["similarity"].itertuples():
        assert row.mean == pytest.approx(data["similarity"].sel(lag=row.lag).values.astype(float).mean(), abs=1e-12)
    frame = tables["attention_profile"]
    lags, positions = (frame[frame["axis"] == axis] for axis in ("lag", "position"))
    assert list(zip(lags["start"], lags["end"], strict=True)) == [(0, 1), (1, 2), (2, 4), (4, 8), (8, 16)]
    assert list(zip(positions["start"], positions["end"], strict=True)) == [(0, 1), (1, 8), (8, 16)]
    for row in positions.itertuples():
        values = data["attention_by_position"].sel(position_bin=row.start).values.astype(float)
        assert row.mean == pytest.approx(values.mean(), abs=1e-12)


def test_recall_correlation_is_over_heads_that_see_the_sink(data, bootstrap, tables):
    frame = tables["first_version"].query("quantity == 'recall_correlation'")
    assert list(frame["size"]) == [2, 4, 8, 12]
    alignment = data["sink_alignment"].values.astype(float)
    visible = list(operations([layer for layer in range(LAYERS) if layer != HIDDEN]))
    for row in frame.itertuples():
        labels = {"distance": "euclidean", "ranking": "attention", "pool": "all", "size": row.size}

        def correlation(documents, found=rates(data, **labels)):  # noqa: B008
            pairs = [
                (np.mean([alignment[d, *at] for d in documents]), np.mean([found[d, *at]["recall"] for d in documents]))
                for at in visible
            ]
            return np.corrcoef(np.transpose(pairs))[0, 1]

        assert row.value == pytest.approx(correlation(range(DOCUMENTS)), abs=1e-12)
        np.testing.assert_allclose([row.low, row.high], interval(bootstrap, correlation))


def test_decay_is_fitted_to_the_mean_profile(data, bootstrap):
    data = data.copy(deep=True)
    lags = data["lag"].values
    scatter = np.linspace(0.5, 1.5, DOCUMENTS)[:, None, None, None]
    data["similarity"].values[:] = scatter * (0.4 * np.exp(-lags / 3.0))
    data["similarity"].values[:, 0] -= 0.04 * LAYERS
    frame = metrics.tables(data, bootstrap)["first_version"].set_index("quantity")
    profile = 0.4 * np.exp(-lags / 3.0) - 0.04
    assert frame.loc["similarity_minimum", "value"] == pytest.approx(profile.min(), abs=1e-7)
    assert profile.min() < 0
    amplitude, length, error = (frame.loc[f"decay_{name}", "value"] for name in ("amplitude", "length", "mae"))
    assert error == pytest.approx(np.abs(amplitude * np.exp(-lags / length) - profile).mean(), abs=1e-7)
    assert 0 < error < 0.04
    assert 2 < length < 3  # the shift below zero shortens it
    for name in ("amplitude", "length"):
        row = frame.loc[f"decay_{name}"]
        assert row["low"] < row["value"] < row["high"]


def test_a_profile_that_does_not_decay_is_missing_and_logged(data, bootstrap, caplog):
    data = data.copy(deep=True)
    data["similarity"].values[:] = 0.3
    frame = metrics.tables(data, bootstrap)["first_version"].set_index("quantity")
    decay = frame.loc[["decay_amplitude", "decay_length", "decay_mae"], ["value", "low", "high"]]
    assert decay.isna().all(axis=None)
    assert "no exponential decay fits the mean similarity" in caplog.text


def test_the_reference_distance_is_the_first_where_euclidean_is_absent(data, bootstrap, tables):
    cosine = metrics.tables(data.sel(distance=["cosine"]), bootstrap)
    f = statistics.precision_recall_f(data["fp"], data["tp"], data["size"])[2]
    f = f.sel(distance="cosine", ranking="attention", pool="all", size=2, layer=0).mean("head").mean()
    row = cosine["depth"].query("quantity == 'f_all' and size == 2 and layer == 0").iloc[0]
    assert row["mean"] == pytest.approx(float(f))
    assert not cosine["depth"].equals(tables["depth"])
