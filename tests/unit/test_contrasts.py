"""Paired differences, on numbers worked out by hand."""

import numpy as np
import pytest
import xarray as xr

from headgeom import contrasts, table_files
from headgeom.statistics import Bootstrap

EACH = Bootstrap(np.array([[2.0, 0], [0, 2.0]]), 1.0)  # replicates: the first document twice, the second twice


def operations(values, last, labels):
    """[document, layer, head, last] with one layer and one head."""
    array = np.array(values, float)[:, None, None]
    return xr.DataArray(array, dims=("document", "layer", "head", last), coords={last: labels})


def table(rows):
    return table_files.quantity_table(rows).set_index("quantity")


def test_advantage_is_paired_and_its_peak_leaves_one_out():
    attention = operations([[1, 0.9, 0.5], [1, 0.3, 0.6]], "size", [1, 2, 4])
    random = operations([[0, 0.5, 0.3], [0, 0.1, 0.0]], "size", [1, 2, 4])
    found = table(contrasts.advantage(attention, random, 16, EACH))
    gains = found.loc["advantage"].set_index("size")
    assert gains.loc[2, ["value", "low", "high"]].tolist() == pytest.approx([0.3, 0.2, 0.4])
    assert gains.loc[4, ["value", "low", "high"]].tolist() == pytest.approx([0.4, 0.2, 0.6])
    assert found.loc["advantage_peak", ["value", "low", "high"]].tolist() == [4, 2, 4]
    assert found.loc["peak_share", ["value", "low", "high"]].tolist() == [1 / 4, 1 / 8, 1 / 4]


def test_phases_compare_the_ends_with_the_middle_half():
    bins = [0, *range(1, 17)]  # of a window of 17 tokens: the sink, then bins of one position
    first, second = np.ones(17), np.ones(17)
    first[0], first[1:3], first[15:] = 50, 2, 8
    second[0], second[1:3], second[15:] = 70, 4, 6
    found = table(contrasts.phases(operations([first, second], "position_bin", bins), 17, EACH))
    assert found.loc["plateau", ["value", "low", "high"]].tolist() == pytest.approx([3, 2, 4])
    assert found.loc["recency", ["value", "low", "high"]].tolist() == pytest.approx([7, 6, 8])


def test_dominance_is_the_lead_over_the_next_regime():
    regimes = np.array([[0, 1, 1, 2]])
    resampled = np.array([[[0, 1, 1, 2]], [[2, 1, 2, 2]]])
    found = table(contrasts.dominance(regimes, resampled, EACH))
    assert found.loc["dominance_mixer", ["value", "low", "high"]].tolist() == [0.25, -0.5, 0.25]
    assert found.loc["dominance_reset", ["value", "low", "high"]].tolist() == [-0.25, -0.25, 0.5]
    assert found.loc["dominance_retriever", "value"] == -0.25


def test_alignment_compares_regimes_within_a_document():
    cosine = xr.DataArray(np.array([[[0.1, 0.5]], [[0.3, 0.6]]]), dims=("document", "layer", "head"))
    data = xr.Dataset({"output_sink_cosine": cosine, "output_current_cosine": -cosine})
    found = table(contrasts.alignment(data, np.array([[0, 1]]), EACH))
    assert found.loc["mixer_sink", ["value", "low", "high"]].tolist() == pytest.approx([0.35, 0.3, 0.4])
    assert found.loc["retriever_current", ["value", "low", "high"]].tolist() == pytest.approx([0.35, 0.3, 0.4])
    # A model without a Mixer head has no contrast.
    found = table(contrasts.alignment(data, np.array([[0, 2]]), EACH))
    assert np.isnan(found.loc["mixer_sink", "value"])
