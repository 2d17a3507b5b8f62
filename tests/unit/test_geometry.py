"""All quantities of a layer against plain float64 loops."""

import dataclasses
import itertools
import math

import numpy as np
import pytest
import torch

import oracle
from headgeom import bounds, geometry, rankings, sink, winners
from headgeom.attention import LayerView

LENGTH, HEADS, KV_HEADS, DIM = 40, 4, 2, 6
SETTINGS = geometry.Settings(LENGTH, [1, 2, 4, 8, 16, 32], ["euclidean", "cosine"])
ROWS = [20, 27, 33, 39]
ORDERS = torch.stack([rankings.random_orders(0, "corpus", document, 3, LENGTH) for document in ("a", "b")])


def make_view(window=LENGTH, seed=0):
    generator = np.random.default_rng(seed)
    rows = np.array(ROWS)
    visible = (rows[:, None] >= np.arange(LENGTH)) & (rows[:, None] - np.arange(LENGTH) < window)
    logits = np.where(visible, generator.normal(scale=2, size=(2, HEADS, len(ROWS), LENGTH)), -np.inf)
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    values = generator.normal(size=(2, KV_HEADS, LENGTH, DIM)) + 0.5
    values[:, :, 0] *= -0.3
    return LayerView(
        5, torch.tensor(rows), torch.from_numpy(weights).float(), torch.from_numpy(values).float(),
        torch.from_numpy(visible),
    )  # fmt: skip


@pytest.fixture(params=[LENGTH, 25], ids=["full", "sliding"], scope="module")
def case(request):
    view = make_view(request.param)
    return view, {name: x.numpy() for name, x in geometry.measure_layer(view, ORDERS, SETTINGS).items()}


def operations(view):
    """(document, head, weights, values, sources) of each last-query operation, in float64."""
    sources = view.visible[-1].nonzero().squeeze(-1).numpy()
    for document in range(2):
        for head in range(HEADS):
            weights = view.weights[document, head, -1].double().numpy()
            values = view.values[document, head // (HEADS // KV_HEADS)].double().numpy()
            yield document, head, weights, values, sources


def pools(sources):
    return list(sources), [j for j in sources if j != 0]


def test_counts_of_scored_rankings(case):
    view, measured = case
    for document, head, weights, values, sources in operations(view):
        y = weights[:, None] * values
        scores = weights, weights * np.linalg.norm(values, axis=1)
        for p, pool in enumerate(pools(sources)):
            for r in range(2):
                order = oracle.order(scores[r][pool])
                for d, distance in enumerate(SETTINGS.distances):
                    for k, size in enumerate(SETTINGS.sizes):
                        found = [int(measured[name][document, head, d, r, p, k]) for name in ("fp", "tp", "inv")]
                        if size >= len(pool):
                            assert found == [-1, -1, -1]
                        else:
                            assert found == list(oracle.counts(y[pool], order[:size], distance)[:3])


def test_counts_with_a_sink_that_competes(case):
    """Sets of pool no_sink, among all sources; without a sink there is nothing that could compete."""
    view, measured = case
    for document, head, weights, values, sources in operations(view):
        y, others = weights[:, None] * values, [j for j in sources if j != 0]
        scores = weights, weights * np.linalg.norm(values, axis=1)
        for r in range(2):
            order = [others[k] for k in oracle.order(scores[r][others])]
            for k, size in enumerate(SETTINGS.sizes):
                found = [int(measured[f"competing_{name}"][document, head, r, k]) for name in ("fp", "tp")]
                if 0 not in sources or size >= len(others):
                    assert found == [-1, -1]
                else:
                    assert found == list(oracle.counts(y[sources], [list(sources).index(j) for j in order[:size]])[:2])


def test_random_means(case):
    view, measured = case
    for document, head, weights, values, sources in operations(view):
        y = weights[:, None] * values
        for p, pool in enumerate(pools(sources)):
            for d, distance in enumerate(SETTINGS.distances):
                for k, size in enumerate(SETTINGS.sizes):
                    names = ("random_precision", "random_recall", "random_f")
                    found = [measured[name][document, head, d, p, k] for name in names]
                    if size >= len(pool):
                        assert np.isnan(found).all()
                        continue
                    expected = []
                    for order in ORDERS[document].tolist():
                        kept = [pool.index(j) for j in order if j in pool][:size]
                        fp, tp, _, _ = oracle.counts(y[pool], kept, distance)
                        expected.append(oracle.precision_recall_f(fp, tp, size))
                    assert found == pytest.approx(np.mean(expected, axis=0), abs=1e-12)


def cosine(a, b):
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def test_sink_and_value_geometry(case):
    view, measured = case
    for document, head, weights, values, sources in operations(view):
        found = {name: x[document, head] for name, x in measured.items()}
        norms = np.linalg.norm(values, axis=1)
        others = [j for j in sources if j != 0]
        assert found["norm_variation"] == pytest.approx(norms[others].std() / norms[others].mean(), rel=1e-5)
        for name, function in {"norm_min": np.min, "norm_max": np.max, "norm_mean": np.mean}.items():
            assert found[name] == pytest.approx(function(norms[others]), rel=1e-6)
        pairs = [cosine(values[i], values[j]) for i in others for j in others if i != j]
        assert found["coherence_mean"] == pytest.approx(np.mean(pairs), abs=1e-6)
        assert found["coherence"][[0, -1]] == pytest.approx([min(pairs), max(pairs)], abs=1e-6)
        inner = np.quantile(pairs, sink.QUANTILES[1:-1], method="inverted_cdf")
        assert found["coherence"][1:-1] == pytest.approx(inner, abs=1.1 / 1024)
        for k, lag in enumerate(SETTINGS.lags):
            near = [cosine(values[i], values[i + lag]) for i in others if i + lag in others]
            assert found["similarity"][k] == pytest.approx(np.mean(near) if near else math.nan, abs=1e-6, nan_ok=True)
        z = (weights[:, None] * values).sum(0)
        assert found["output_current_cosine"] == pytest.approx(cosine(z, values[-1]), abs=1e-5)
        if 0 in sources:
            cosines = np.array([cosine(values[0], values[j]) for j in others])
            assert found["norm_ratio"] == pytest.approx(np.median(norms[others]) / norms[0], rel=1e-5)
            assert found["sink_norm"] == pytest.approx(norms[0], rel=1e-6)
            assert found["sink_mass"] == pytest.approx(weights[0], rel=1e-6)
            assert found["sink_alignment"] == pytest.approx(cosines.mean(), abs=1e-6)
            assert found["sink_negative_share"] == pytest.approx((cosines < 0).mean(), abs=1e-6)
            assert found["sink_cosine_min"] == pytest.approx(cosines.min(), abs=1e-6)
            assert found["sink_cosine_max"] == pytest.approx(cosines.max(), abs=1e-6)
            assert found["output_sink_cosine"] == pytest.approx(cosine(z, values[0]), abs=1e-5)
            assert found["sink_rank"].tolist() == [
                oracle.order(weights).index(0), oracle.order(weights * norms).index(0)
            ]  # fmt: skip
        else:
            missing = [name for name in found if name.startswith("sink_") and name != "sink_rank"]
            assert len(missing) == 6
            assert all(np.isnan(found[name]) for name in [*missing, "norm_ratio", "output_sink_cosine"])
            assert found["sink_rank"].tolist() == [-1, -1]
        assert found["sources"].tolist() == [len(pool) for pool in pools(sources)]


def test_votes_and_role_contributions(case):
    view, measured = case
    weights, visible = view.weights.double().numpy(), view.visible.numpy()
    for document, head, _, values, _ in operations(view):
        norms = np.linalg.norm(values, axis=1)
        votes, roles = [0, 0, 0], []
        for k, t in enumerate(ROWS):
            row = weights[document, head, k]
            winner = oracle.winner(row, norms, visible[k])
            votes[0 if winner == t else 1 if winner == 0 else 2] += 1
            contribution = np.where(visible[k], row * norms, np.nan)
            rest = [j for j in range(1, t) if visible[k, j]]
            roles.append([contribution[t], contribution[0], contribution[rest].max()])
        assert measured["votes"][document, head].tolist() == votes
        means = [np.nanmean(column) if not np.isnan(column).all() else np.nan for column in np.array(roles).T]
        assert measured["role_contribution"][document, head] == pytest.approx(means, rel=1e-5, nan_ok=True)


def test_attention_profiles(case):
    view, measured = case
    weights = view.weights.double().numpy()
    assert SETTINGS.lag_edges == [0, 1, 2, 4, 8, 16, 32]
    for document, head, last, _, _ in operations(view):
        for k, edge in enumerate(SETTINGS.lag_edges):
            end = ([*SETTINGS.lag_edges, 64])[k + 1]
            inside = [
                weights[document, head, r, t - lag]
                for r, t in enumerate(ROWS)
                for lag in range(edge, end)
                if t - lag >= 1 and view.visible[r, t - lag]
            ]
            expected = np.mean(inside) if inside else math.nan
            found = measured["attention_by_lag"][document, head, k]
            assert found == pytest.approx(expected, rel=1e-5, abs=1e-9, nan_ok=True)
        edges = [*SETTINGS.position_edges, LENGTH]
        for k, (start, end) in enumerate(itertools.pairwise(edges)):
            inside = [last[j] for j in range(start, end) if view.visible[-1, j]]
            expected = np.mean(inside) if inside else math.nan
            found = measured["attention_by_position"][document, head, k]
            assert found == pytest.approx(expected, rel=1e-5, abs=1e-9, nan_ok=True)


@pytest.mark.parametrize("length", [4, 5, 33, 34, 64, 256, 1024])
def test_profile_edges_cover_the_window_once(length):
    settings = geometry.Settings(length, [1], ["euclidean"])
    for edges, end in ((settings.position_edges, length), (settings.lag_edges, length)):
        assert edges[0] == 0
        assert edges == sorted(set(edges))
        assert edges[-1] < end
    assert settings.position_edges[1] == 1
    assert len(settings.position_edges) <= 33
    assert all(lag < length - 1 for lag in settings.lags)


@pytest.mark.parametrize(("length", "queries"), [(256, 8), (256, 1), (16, 8), (7, 3)])
def test_query_positions_lie_in_the_second_half_and_hold_the_last(length, queries):
    positions = winners.query_positions(length, queries)
    assert len(positions) == queries
    assert positions == sorted(set(positions))
    assert positions[-1] == length - 1
    assert positions[0] >= length // 2


def test_a_tie_of_winners_goes_to_the_lower_index():
    roles = torch.tensor([[1.0, 1, 1], [1, 0, 1], [1, 1, 0], [0, 0, 0], [1, torch.nan, 1], [1, torch.nan, -torch.inf]])
    assert winners.votes(roles.unsqueeze(1)).tolist() == [
        [0, 1, 0],  # the sink comes first
        [0, 0, 1],  # any other comes before the current token
        [0, 1, 0],
        [0, 1, 0],
        [0, 0, 1],  # a hidden sink cannot win
        [1, 0, 0],
    ]


def test_zero_vectors_stay_out_of_the_cosine_intervals():
    values = torch.tensor([[[1.0, 0], [0, 0], [1, 1], [-1, 0.5]]])
    units = sink.unit(values, values.norm(dim=-1))
    assert units.isfinite().all()
    found = sink.sink_quantities(units)
    assert found["sink_cosine_min"].item() == pytest.approx(cosine(np.array([1, 0]), np.array([-1, 0.5])))
    assert found["sink_cosine_max"].item() == pytest.approx(math.sqrt(0.5))
    pair = cosine(np.array([1, 1]), np.array([-1, 0.5]))
    quantiles = sink.coherence(units[:, 1:])["coherence"][0]
    assert quantiles[[0, -1]].tolist() == pytest.approx([pair, pair])
    nothing = sink.coherence(torch.zeros(1, 3, 2))["coherence"][0]
    assert nothing[[0, -1]].isnan().all()


def make_view_with_a_sink_that_dominates():
    """The sink's contribution is the largest, nearly at right angles to the others': selected_sink gains most there."""
    view = make_view()
    values, weights = view.values.clone(), view.weights.clone()
    values[:, :, 0] = torch.tensor([1.0, -1, 1, -1, 1, -1])
    weights[..., 0] = 0.9
    return dataclasses.replace(view, values=values, weights=weights)


def selected_side(y, order, size, pool, sink_high):
    """Certified (FP, TP) of ``selected`` and ``selected_sink``, from the theorems of paper/bounds.typ."""
    s = y[order[:size]].sum(0)
    length, norms = np.linalg.norm(s), np.linalg.norm(y, axis=1)
    g = {i: 2 * y[i] @ s - norms[i] ** 2 for i in order[:size]}
    counts = []
    for sharpened in (False, True):
        reach = 1.0
        if sharpened and 0 in order[:size]:
            angle = math.acos(y[0] @ s / norms[0] / length)
            reach = math.cos(max(0.0, math.acos(sink_high) - angle))
        upper = {j: 2 * norms[j] * length * reach - norms[j] ** 2 for j in pool if j not in g}
        fp = sum(u >= min(g.values()) for u in upper.values())
        counts.append((fp, sum(x > max(upper.values()) for x in g.values())))
    return counts


def test_certificates_against_the_slow_reference():
    """Levels line by line; every certificate holds; ``pairs`` only on the first document."""
    sharper = 0
    for view in (make_view(), make_view(25), make_view_with_a_sink_that_dominates()):
        measured = {k: x.numpy() for k, x in geometry.measure_layer(view, ORDERS, SETTINGS, pairs=1).items()}
        levels = list(bounds.LEVELS)
        for document, head, weights, values, sources in operations(view):
            nu = [float(measured[name][document, head]) for name in ("norm_min", "norm_max")]
            c = [float(x) for x in measured["coherence"][document, head][[0, -1]]]
            s = [float(measured[name][document, head]) for name in ("sink_cosine_min", "sink_cosine_max")]
            for p, pool in enumerate(pools(sources)):
                for r, scores in enumerate((weights, weights * np.linalg.norm(values, axis=1))):
                    order = [pool[k] for k in oracle.order(scores[pool])]
                    a = np.where(np.isin(np.arange(LENGTH), pool), weights, 0)
                    for k, size in enumerate(SETTINGS.sizes):
                        found = [measured[n][document, head, :, r, p, k] for n in ("certified_fp", "certified_tp")]
                        if size >= len(pool):
                            assert (found[0] == -1).all()
                            continue
                        visible = {j: a[j] for j in pool}
                        fp, tp = oracle.interval_certificate(
                            visible, order[:size], nu, np.linalg.norm(values[0]), c, None if np.isnan(s[0]) else s
                        )
                        assert (found[0][0], found[1][0]) == (fp, tp)
                        norm, cosine_mean, with_sink = (
                            float(measured[name][document, head])
                            for name in ("norm_mean", "coherence_mean", "sink_alignment")
                        )
                        means = None if np.isnan(with_sink) else [with_sink] * 2
                        predicted = oracle.interval_certificate(
                            visible, order[:size], [norm] * 2, np.linalg.norm(values[0]), [cosine_mean] * 2, means
                        )
                        at = levels.index("constant_norm")
                        assert (found[0][at], found[1][at]) == predicted
                        plain, sharpened = selected_side(weights[:, None] * values, order, size, pool, s[1])
                        for name, expected in (("selected", plain), ("selected_sink", sharpened)):
                            at = levels.index(name)
                            assert (found[0][at], found[1][at]) == expected, name
                        sharper += plain != sharpened
                        exact = [measured[name][document, head, 0, r, p, k] for name in ("fp", "tp")]
                        for level in bounds.CERTIFICATES:
                            i = levels.index(level)
                            if level == "pairs" and document == 1:
                                assert found[0][i] == found[1][i] == -1
                            else:
                                assert found[0][i] >= exact[0]
                                assert 0 <= found[1][i] <= exact[1]
    assert sharper >= 10


def test_a_zero_sink_has_no_direction_and_no_ratio():
    values = torch.tensor([[[0.0, 0], [1, 0], [1, 1]]])
    norms = values.norm(dim=-1)
    assert sink.norm_quantities(norms, True)["norm_ratio"].isnan().all()
    assert all(x.isnan().all() for x in sink.sink_quantities(sink.unit(values, norms)).values())
