"""Rates, aggregation, bootstrap and the fits of the first version, against slow float64 references."""

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import curve_fit

from headgeom import first_version, statistics
from headgeom.statistics import Bootstrap

VALUES = st.one_of(st.floats(-100, 100), st.just(np.nan))


@st.composite
def counts(draw):
    """N, FP and TP of an attention operation."""
    size = draw(st.integers(1, 64))
    return size, draw(st.integers(0, 1000)), draw(st.integers(0, size))


def rates(size, fp, tp):
    arguments = (xr.DataArray(np.atleast_1d(x), dims="operation") for x in (fp, tp, size))
    return [x.values for x in statistics.precision_recall_f(*arguments)]


@given(counts())
def test_rates_follow_their_definition(case):
    size, fp, tp = case
    precision, recall = size / (size + fp), tp / size
    f = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
    np.testing.assert_allclose(np.ravel(rates(size, fp, tp)), [precision, recall, f], rtol=1e-15)


def test_rates_at_the_ends_and_where_counts_are_missing():
    precision, recall, f = rates([4, 4, 4], np.array([0.0, 12.0, np.nan]), np.array([4.0, 0.0, np.nan]))
    np.testing.assert_array_equal(precision, [1, 0.25, np.nan])
    np.testing.assert_array_equal(recall, [1, 0, np.nan])
    np.testing.assert_array_equal(f, [1, 0, np.nan])


def test_rates_are_double_precision_and_keep_the_order_of_dimensions():
    fp = xr.DataArray(np.full((2, 3), 2, np.float32), dims=("head", "size"))
    size = xr.DataArray(np.array([1, 3, 5], np.int32), dims="size")
    for rate in statistics.precision_recall_f(fp, fp * 0, size):
        assert rate.dtype == np.float64
        assert rate.dims == ("head", "size")


@given(arrays(float, (3, 2, 4, 5), elements=VALUES))
def test_document_means_leave_missing_operations_out(values):
    means = statistics.document_means(xr.DataArray(values, dims=("document", "layer", "head", "size"))).values
    for document in range(3):
        for size in range(5):
            found = [x for x in values[document, :, :, size].ravel() if not np.isnan(x)]
            expected = sum(found) / len(found) if found else np.nan
            np.testing.assert_allclose(means[document, size], expected, atol=1e-12)


@given(
    arrays(float, (4, 3), elements=st.integers(0, 3).map(float)),
    arrays(float, (3, 2, 2), elements=VALUES),
)
def test_weighted_means_are_means_of_repeated_documents(counts, values):
    means = statistics.weighted_means(counts, values)
    for replicate, row in enumerate(counts):
        for index in np.ndindex(2, 2):
            repeated = np.repeat(values[(slice(None), *index)], row.astype(int))
            found = repeated[~np.isnan(repeated)]
            expected = found.mean() if found.size else np.nan
            np.testing.assert_allclose(means[(replicate, *index)], expected, atol=1e-12)


def test_replicates_hold_as_many_documents_as_there_are_and_depend_on_the_seed():
    draws = [Bootstrap.draw(7, seed=seed, replicates=500, confidence=0.95).counts for seed in (1, 1, 2)]
    np.testing.assert_array_equal(draws[0].sum(1), 7)
    np.testing.assert_array_equal(draws[0], draws[1])
    assert (draws[0] != draws[2]).any()
    # Each document is drawn Binomial(7, 1/7) times: mean 1, variance 6/7.
    np.testing.assert_allclose(draws[0].mean(0), 1, atol=0.2)
    np.testing.assert_allclose(draws[0].var(0), 6 / 7, atol=0.25)


def test_interval_is_the_percentiles_of_resampled_means():
    random = np.random.default_rng(0)
    values = random.normal(size=(6, 3))
    values[2, 1] = values[4, 1] = np.nan
    values[:, 2] = np.nan
    bootstrap = Bootstrap.draw(6, seed=3, replicates=400, confidence=0.9)
    mean, low, high = bootstrap.mean(values)
    for column in range(2):
        means = []
        for row in bootstrap.counts:
            chosen = np.repeat(values[:, column], row.astype(int))
            chosen = chosen[~np.isnan(chosen)]
            if chosen.size:
                means.append(chosen.mean())
        np.testing.assert_allclose([low[column], high[column]], np.percentile(means, [5, 95]), rtol=1e-12)
        np.testing.assert_allclose(mean[column], np.nanmean(values[:, column]))
    assert np.isnan([mean[2], low[2], high[2]]).all()


def test_interval_of_a_mean_has_the_width_that_the_normal_law_says():
    values = np.random.default_rng(1).normal(size=400)
    mean, low, high = Bootstrap.draw(400, seed=2, replicates=2000, confidence=0.95).mean(values)
    assert high - low == pytest.approx(2 * 1.96 * values.std() / 20, rel=0.08)
    assert low < mean < high


def test_ratio_is_of_means_over_the_documents_that_have_both():
    bootstrap = Bootstrap.draw(4, seed=0, replicates=300, confidence=0.95)
    numerator, denominator = np.array([1.0, 0.0, 100.0, np.nan]), np.array([1.0, 3.0, np.nan, 100.0])
    value, low, high = bootstrap.ratio(numerator, denominator)
    assert value == 0.25  # the mean of ratios would be 0.5
    ratios = [(row[0] * 1.0) / (row[0] * 1.0 + row[1] * 3.0) for row in bootstrap.counts if row[0] + row[1] > 0]
    np.testing.assert_allclose([low, high], np.percentile(ratios, [2.5, 97.5]), rtol=1e-12)


def test_ratio_to_zero_is_missing():
    bootstrap = Bootstrap.draw(2, seed=0, replicates=20, confidence=0.95)
    assert np.isnan(bootstrap.ratio(np.ones(2), np.zeros(2))).all()


LAGS = 2.0 ** np.arange(8)


@given(
    st.floats(-2, 2).filter(lambda a: abs(a) > 0.01),
    st.floats(0.5, 1000),
)
def test_decay_fit_finds_an_exact_decay(amplitude, length):
    found = first_version.fit_decay(amplitude * np.exp(-LAGS / length)[None], LAGS)
    np.testing.assert_allclose(np.ravel(found), [amplitude, length, 0], rtol=1e-5, atol=1e-7)


def test_decay_fit_is_at_least_as_good_as_the_local_search_from_the_truth():
    random = np.random.default_rng(4)
    for _ in range(20):
        amplitude, length = random.uniform(0.1, 1), np.exp(random.uniform(1, 4))
        noisy = amplitude * np.exp(-LAGS / length) + random.normal(0, 0.03, LAGS.size)
        (found, scale, error) = (x[0] for x in first_version.fit_decay(noisy[None], LAGS))
        best, _ = curve_fit(lambda d, a, s: a * np.exp(-d / s), LAGS, noisy, p0=(amplitude, length))
        residuals = [np.sum((a * np.exp(-LAGS / s) - noisy) ** 2) for a, s in ((found, scale), best)]
        assert residuals[0] <= residuals[1] * (1 + 1e-9)
        assert error == pytest.approx(np.abs(found * np.exp(-LAGS / scale) - noisy).mean())


def test_decay_fit_leaves_missing_lags_out():
    profile = 0.5 * np.exp(-LAGS / 20)
    profile[[0, 5]] = np.nan
    np.testing.assert_allclose(np.ravel(first_version.fit_decay(profile[None], LAGS))[:2], [0.5, 20], rtol=1e-6)


@pytest.mark.parametrize(
    "profile",
    [
        np.full(8, 0.3),
        np.exp(LAGS / 100),
        np.zeros(8),
        np.array([1.0, 0, 0, 0, 0, 0, 0, 0]),
        np.array([0.5, 0.4, *[np.nan] * 6]),
    ],
    ids=["flat", "growing", "zero", "gone after one lag", "two lags"],
)
def test_decay_fit_is_missing_where_nothing_decays(profile):
    assert np.isnan(first_version.fit_decay(profile[None], LAGS)).all()


def test_profiles_are_fitted_one_by_one():
    profiles = np.stack([np.exp(-LAGS / 5), np.full(8, 0.3), 0.2 * np.exp(-LAGS / 50)])
    together = np.array(first_version.fit_decay(profiles, LAGS))
    alone = np.array([np.ravel(first_version.fit_decay(p[None], LAGS)) for p in profiles]).T
    np.testing.assert_allclose(together, alone, rtol=1e-12)


@given(arrays(float, (2, 9), elements=st.one_of(st.integers(-50, 50).map(float), st.just(np.nan))))
def test_correlation_is_pearsons_over_complete_pairs(pairs):
    complete = pairs[:, ~np.isnan(pairs).any(0)]
    found = first_version.correlation(*pairs)
    if complete.shape[1] < 2 or (complete == complete[:, :1]).all(1).any():
        assert np.isnan(found)
    else:
        np.testing.assert_allclose(found, np.corrcoef(complete)[0, 1], atol=1e-12)


def test_argmax_label_is_missing_for_ties_and_for_nothing():
    curves = np.array([[0.1, 0.3, 0.2], [0.3, 0.3, 0.1], [np.nan, np.nan, np.nan], [np.nan, -1, -2]])
    np.testing.assert_array_equal(statistics.argmax_label(curves, [2, 4, 8]), [4, np.nan, np.nan, 4])


def test_a_nearest_interval_ends_at_values_that_occur():
    bootstrap = statistics.Bootstrap(np.ones((4, 1)), 0.5)
    estimate = bootstrap.estimate(np.array(2.0), np.array([2.0, 2.0, 8.0, 8.0]), "nearest")
    assert {float(estimate.low), float(estimate.high)} <= {2.0, 8.0}
