"""Which heads go first: masks, random orders, ablations, and the scores that come from tables."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from headgeom import head_scores, removal
from headgeom.errors import UserError
from headgeom.stages import head_scan, regime_ablation
from headgeom.stages import head_scores as scoring
from headgeom.stages import removal as stage

REGIMES = np.array([[0, 0, 1, 2], [2, 2, 2, 2], [1, 2, 2, 0]])


@pytest.mark.parametrize(
    ("share", "heads", "expected"),
    [(0.95, 270, 257), (0.9, 270, 243), (0.5, 9, 5), (0.05, 270, 14), (0.05, 9, 0), (0.29, 50, 15), (0.58, 25, 15)],
)
def test_the_number_of_heads_is_rounded_half_up_from_decimals(share, heads, expected):
    """0.29 * 50 and 0.58 * 25 are 14.5; in binary they lie just below and would be rounded down."""
    assert removal.number(share, heads) == expected


def test_a_mask_keeps_the_best_heads_of_the_whole_model():
    scores = np.array([[0.1, 0.9, 0.3], [0.8, 0.2, 0.7]])
    assert removal.mask(scores, 0.5, seed=1).tolist() == [[0, 1, 0], [1, 0, 1]]
    assert removal.mask(scores, 0.17, seed=1).tolist() == [[0, 1, 0], [0, 0, 0]]


def test_lower_retentions_remove_more_of_the_same():
    scores = removal.random_scores((6, 5), seed=3, draw=0)
    masks = [removal.mask(scores, retention, seed=3) for retention in (0.9, 0.6, 0.2)]
    assert [mask.sum() for mask in masks] == [27, 18, 6]
    assert (masks[0] >= masks[1]).all() and (masks[1] >= masks[2]).all()


def test_equal_scores_are_not_removed_by_layer():
    """By index, half of the heads would be those of one half of the layers."""
    kept = [removal.mask(np.zeros((10, 8)), 0.5, seed=seed) for seed in range(3)]
    for mask in kept:
        assert mask.sum() == 40
        assert 10 < mask[:5].sum() < 30 and 10 < mask[:, :4].sum() < 30
    assert (kept[0] != kept[1]).any() and (kept[1] != kept[2]).any()
    np.testing.assert_array_equal(kept[0], removal.mask(np.zeros((10, 8)), 0.5, seed=0))


def test_a_head_without_a_score_is_refused():
    with pytest.raises(ValueError, match="no score"):
        removal.order(np.array([[1.0, np.nan]]), seed=0)


def test_draws_of_the_random_order_differ_and_repeat():
    first, second = (removal.random_scores((4, 6), seed=1, draw=draw) for draw in (0, 1))
    assert (first != second).all()
    np.testing.assert_array_equal(first, removal.random_scores((4, 6), seed=1, draw=0))
    assert len(np.unique(first)) == 24


@pytest.mark.parametrize("draw", range(4))
def test_an_ablation_removes_one_regime_and_its_control_as_many_of_each_layer(draw):
    treated, control = removal.ablation(REGIMES, 2, 0.25, seed=5, draw=draw)
    assert (treated == 0).sum() == 3
    assert (REGIMES[treated == 0] == 2).all()
    assert ((treated == 0).sum(1) == (control == 0).sum(1)).all()


def test_a_small_regime_is_removed_whole():
    treated, _ = removal.ablation(REGIMES, 1, 0.5, seed=5, draw=0)
    np.testing.assert_array_equal(treated == 0, REGIMES == 1)


def test_a_full_layer_leaves_no_choice_to_the_control():
    treated, control = removal.ablation(np.array([[2, 2], [0, 0]]), 2, 0.5, seed=1, draw=0)
    np.testing.assert_array_equal(treated, control)
    assert removal.overlap(treated, control) == 1


def test_overlap_is_the_share_of_the_removed_heads():
    treated, control = np.array([[0, 0, 1, 1]]), np.array([[0, 1, 0, 1]])
    assert removal.overlap(treated, control) == 0.5
    assert np.isnan(removal.overlap(np.ones((1, 2)), np.ones((1, 2))))


def test_taxonomy_orders_regimes_then_vote_shares():
    shares = np.array([[[0.4, 0.3, 0.3], [1.0, 0.0, 0.0], [0.1, 0.9, 0.0], [0.0, 0.0, 1.0], [0.3, 0.3, 0.4]]])
    regimes = np.array([[0, 0, 1, 2, 2]])
    scores = head_scores.taxonomy(shares, regimes)
    assert removal.order(scores["taxonomy"], seed=0).tolist() == [1, 0, 2, 3, 4]
    for index, name in enumerate(("retriever", "mixer", "reset")):
        kept = removal.mask(scores[f"taxonomy_drop_{name}"], float((regimes != index).mean()), seed=0)
        np.testing.assert_array_equal(kept == 1, regimes != index)


def test_separability_is_the_mean_f_over_sizes_from_two_that_all_heads_have():
    """Head 1 lacks N = 4, so only N = 2 counts: F = 2 P R / (P + R) with P = 2 / (2 + FP), R = TP / 2."""
    fp = np.array([[[[0, 0, 0], [0, 2, np.nan]]], [[[0, 2, 0], [0, 2, np.nan]]]])
    tp = np.array([[[[1, 2, 0], [1, 1, np.nan]]], [[[1, 1, 0], [1, 1, np.nan]]]])
    dims, size = ("document", "layer", "head", "size"), {"size": [1, 2, 4]}
    found = head_scores.separability(xr.DataArray(fp, size, dims), xr.DataArray(tp, size, dims))
    np.testing.assert_allclose(found, [[(1 + 0.5) / 2, 0.5]])


HEADS = pd.DataFrame(
    {
        "layer": [1, 0, 0, 1],
        "head": [0, 1, 0, 1],
        "retriever": [0.1, 0.6, 0.2, 0.0],
        "mixer": [0.9, 0.3, 0.2, 0.0],
        "reset": [0.0, 0.1, 0.6, 1.0],
        "regime": ["mixer", "retriever", "reset", "reset"],
    }
)


def test_the_table_of_heads_is_read_by_layer_and_head():
    assert scoring.of_taxonomy(HEADS)["taxonomy"].tolist() == [[0.6, 2.6], [1.9, 1.0]]
    assert scoring.of_taxonomy(HEADS)["taxonomy_drop_reset"].tolist() == [[0, 1], [1, 0]]


def test_scores_pass_through_their_table():
    values = np.array([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]])
    frame = pd.concat([scoring.rows("magnitude", values), scoring.rows("gradient", -values)]).sample(frac=1)
    settings = {"score": "magnitude", "seed": 4, "seeds": 3}
    np.testing.assert_array_equal(stage.drawn_scores(frame, settings), [values])
    drawn = stage.drawn_scores(frame, settings | {"score": "random"})
    np.testing.assert_array_equal(drawn, [removal.random_scores((2, 3), 4, draw) for draw in range(3)])
    with pytest.raises(UserError, match="no 'entropy_low'; it has random, "):
        stage.drawn_scores(frame, settings | {"score": "entropy_low"})


def test_shards_of_a_scan_remove_each_head_once():
    found = []
    for shard in range(3):
        for label, mask in zip(*head_scan.one_removed(5, 2, shard, 3), strict=True):
            assert np.argwhere(mask == 0).tolist() == [[label["layer"], label["head"]]]
            found.append((label["layer"], label["head"]))
    assert sorted(found) == [(layer, head) for layer in range(5) for head in range(2)]


def test_an_ablation_has_two_arms_a_draw_and_skips_regimes_without_heads():
    settings = {"model": "m", "ablation_share": 0.25, "seed": 1, "seeds": 2}
    sets = list(regime_ablation.ablations(HEADS[HEADS["regime"] != "mixer"].assign(layer=0, head=[0, 1, 2]), settings))
    assert [(label["regime"], label["draw"], label["arm"]) for label, _ in sets] == [
        (regime, draw, arm) for regime in ("retriever", "reset") for draw in (0, 1) for arm in ("treated", "control")
    ]
    assert {label["regime"]: label["heads"] for label, _ in sets} == {"retriever": 1, "reset": 2}
    with pytest.raises(UserError, match=r"removal.ablation_share: 0.05 of the 4 heads of model 'm' is no head"):
        list(regime_ablation.ablations(HEADS, settings | {"ablation_share": 0.05}))
