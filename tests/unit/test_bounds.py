"""Certificates: a search for counterexamples, a slow reference, and cases worked out by hand."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
from headgeom import bounds, separability

KINDS = ("random", "near_ties", "opposed_sink", "equal_norms", "zero_weights", "small_sink", "zero_vectors", "aligned")


@st.composite
def heads(draw):
    """An attention operation (weights, values, with the sink first) and a set size; many kinds of trouble."""
    kind = draw(st.sampled_from(KINDS))
    n, d = draw(st.integers(3, 16)), draw(st.integers(1, 6))
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    weights = generator.dirichlet(np.full(n, draw(st.sampled_from([0.05, 0.3, 1.0, 10.0]))))
    values = generator.normal(size=(n, d)) + draw(st.sampled_from([0.0, 0.5, 3.0]))
    if kind == "near_ties":
        values = values[:1] + 1e-9 * generator.normal(size=(n, d))
        weights = np.full(n, 1 / n) * (1 + 1e-9 * generator.normal(size=n))
    elif kind == "opposed_sink":
        values[0] = -values[1:].mean(0)
        weights[0] = weights.max()
    elif kind == "equal_norms":
        values /= np.linalg.norm(values, axis=1, keepdims=True)
    elif kind == "zero_weights":
        weights[generator.random(n) < 0.5] = 0
    elif kind == "small_sink":
        values[0] *= 1e-3
    elif kind == "zero_vectors":
        values[generator.random(n) < 0.4] = 0
    elif kind == "aligned":
        values = generator.random((n, 1)) * values[:1]
    return weights, values, draw(st.integers(1, n - 1)), draw(st.booleans()), draw(st.booleans())


def cosines(a, b):
    """Cosines of the non-zero rows."""
    norms = np.linalg.norm(a, axis=1)[:, None] * np.linalg.norm(b, axis=1)
    return (a @ b.T)[norms > 0] / norms[norms > 0]


def intervals(values):
    """(nu, nu0, c, s) of all sources; None where empty."""
    norms = np.linalg.norm(values[1:], axis=1)
    i, j = np.triu_indices(len(values) - 1, 1)
    pairs = [x for a, b in zip(values[1:][i], values[1:][j], strict=True) for x in cosines(a[None], b[None])]
    sink = cosines(values[1:], values[:1])
    ends = [(min(x), max(x)) if len(x) else None for x in (pairs, sink)]
    return (norms.min(), norms.max()), np.linalg.norm(values[0]), *ends


def tensor(x):
    return torch.as_tensor(np.asarray(x, dtype=np.float64))


def known(nu, nu0, c, s):
    nan = (math.nan, math.nan)
    return bounds.Interval(*map(tensor, (*nu, nu0, *(c or nan), *(s or nan))))


def certify(weights, values, size, by_contribution, no_sink, slack=1e-12):
    """Measured (FP, TP, INV), and certified (FP, TP) by level, in float64."""
    norms = np.linalg.norm(values, axis=1)
    nu, nu0, c, s = intervals(values)
    order = oracle.order(weights * norms if by_contribution else weights)
    order = [j for j in order if j or not no_sink]
    y = tensor(weights[:, None] * values)[order]
    a, sink = tensor(weights)[order][None], tensor(order)[None] == 0
    selected = (torch.arange(len(order)) < size)[None]
    sums = y[:size].sum(0, keepdim=True)
    g = separability.closeness(y, sums)
    measured = tuple(x.item() for x in separability.prefix_counts(g, [size]))
    b = a * tensor(norms)[order]
    found = {"interval": bounds.closeness_bounds(a, sink, selected, known(nu, nu0, c, s), slack)}
    unit = known((1, 1), 1, c, s)
    found["per_token"] = bounds.closeness_bounds(b, sink, selected, unit, slack)
    units = tensor(values / np.where(norms > 0, norms, 1)[:, None])[order]
    ends = [x[..., 0] for x in bounds.pair_interval(units, sink[0], [size])]
    pairs = bounds.Interval(*map(tensor, (1, 1, 1)), *ends)
    found["pairs"] = bounds.closeness_bounds(b, sink, selected, pairs, slack)
    found["selected"] = bounds.selected_side_bounds(g, sums, b[0], slack)
    certified = {k: tuple(x.item() for x in bounds.certified_counts(*v, selected)) for k, v in found.items()}
    return measured, certified, (found, g, selected), order


@settings(max_examples=4000, deadline=None)
@given(heads())
def test_no_certificate_has_a_counterexample(head):
    weights, values, size, by_contribution, no_sink = head
    if no_sink and size >= len(weights) - 1:
        size = 1
    (fp, tp, inv), certified, (found, g, selected), _ = certify(weights, values, size, by_contribution, no_sink)
    assert fp <= inv
    assert tp >= size - inv
    for level, (lower, upper) in found.items():
        assert (lower <= g)[selected].all(), level
        assert (upper >= g)[~selected].all(), level
        assert certified[level][0] >= fp, level
        assert certified[level][1] <= tp, level
    # More knowledge never certifies less.
    assert certified["per_token"][0] <= certified["interval"][0]
    assert certified["per_token"][1] >= certified["interval"][1]
    assert certified["pairs"][0] <= certified["per_token"][0]
    assert certified["pairs"][1] >= certified["per_token"][1]


@settings(max_examples=1000, deadline=None)
@given(heads())
def test_interval_certificate_equals_the_slow_reference(head):
    weights, values, size, by_contribution, _ = head
    _, certified, _, order = certify(weights, values, size, by_contribution, False, slack=0)
    expected = oracle.interval_certificate(dict(enumerate(weights)), order[:size], *intervals(values))
    # Rounding may decide exact ties either way, so only near-ties may differ, and near-ties only arise by design.
    if certified["interval"] != expected:
        shifted = certify(weights, values, size, by_contribution, False, slack=1e-9)[1]["interval"]
        widened = certify(weights, values, size, by_contribution, False, slack=-1e-9)[1]["interval"]
        assert widened[0] <= expected[0] <= shifted[0]
        assert shifted[1] <= expected[1] <= widened[1]


@settings(max_examples=500, deadline=None)
@given(heads())
def test_the_intervals_hold_the_cosines_that_occur(head):
    weights, values, size, by_contribution, no_sink = head
    norms = np.linalg.norm(values, axis=1)
    order = [j for j in oracle.order(weights * norms if by_contribution else weights) if j or not no_sink]
    size = min(size, len(order) - 1)
    units = tensor(values / np.where(norms > 0, norms, 1)[:, None])[order]
    sink = tensor(order) == 0
    low, high, sink_low, sink_high = (x.item() for x in bounds.pair_interval(units, sink, [size]))
    inside, outside = [j for j in order[:size] if j], [j for j in order[size:] if j]
    within = [x for i in inside for k in inside if i != k for x in cosines(values[[i]], values[[k]])]
    across = [x for j in outside for k in inside for x in cosines(values[[j]], values[[k]])]
    sink_near = [x for i in inside for x in cosines(values[[0]], values[[i]])] if not no_sink else []
    other = outside if 0 in order[:size] else inside
    sink_far = [x for j in other for x in cosines(values[[0]], values[[j]])] if not no_sink else []
    for found, pairs, end in (
        (low, within, min),
        (high, across, max),
        (sink_low, sink_near, min),
        (sink_high, sink_far, max),
    ):
        assert found == pytest.approx(end(pairs) if pairs else math.nan, abs=1e-12, nan_ok=True)


def test_orthogonal_equal_norms_worked_out_by_hand():
    """Equal norms 1, all cosines 0: g_i = a_i^2 for selected, -a_j^2 for others, and the certificate is exact."""
    weights, values = np.array([0.4, 0.3, 0.2, 0.1]), np.eye(4)
    for size in (1, 2, 3):
        measured, certified, (found, _, _), _ = certify(weights, values, size, False, False, slack=0)
        assert measured == (0, size, 0)
        for level in ("interval", "per_token", "pairs"):
            assert certified[level] == (0, size), level
        lower, upper = found["interval"]
        assert lower[0, :size].tolist() == pytest.approx((weights[:size] ** 2).tolist())
        assert upper[0, size:].tolist() == pytest.approx((-(weights[size:] ** 2)).tolist())


def test_opposed_sink_worked_out_by_hand():
    """Norms 1 (sink 1/2), v_0 = -v/2, others all equal v: s = (A - a_0/2) v decides everything."""
    values = np.array([[-0.5], [1.0], [1.0], [1.0]])
    weights = np.array([0.4, 0.3, 0.2, 0.1])
    # N = 2: S = {0, 1}, s = 0.3 - 0.2 = 0.1, g = 2 y s - y^2.
    measured, certified, (found, g, _), _ = certify(weights, values, 2, False, False, slack=0)
    assert g[0].tolist() == pytest.approx([-0.08, -0.03, 0.0, 0.01])
    assert measured == (2, 0, 4)
    lower, upper = found["interval"]
    assert lower[0, :2].tolist() == pytest.approx([-0.08, -0.03])
    assert upper[0, 2:].tolist() == pytest.approx([0.0, 0.01])
    assert certified["interval"] == (2, 0)


def test_selected_certificate_is_attained():
    """Others that point along s are as near as the certificate fears, so it cannot be improved."""
    weights, values = np.array([0.5, 0.3, 0.2]), np.array([[1.0, 0], [1.0, 0], [1.0, 0]])
    _, _, (found, g, _), _ = certify(weights, values, 1, False, False, slack=0)
    assert found["selected"][1][0, 1:].tolist() == pytest.approx(g[0, 1:].tolist())


@pytest.mark.parametrize("size", [1, 3])
def test_float32_with_slack_has_no_counterexample(size):
    generator = torch.Generator().manual_seed(0)
    broken = 0
    for _ in range(300):
        values = torch.randn(1, 8, generator=generator) + 1e-4 * torch.randn(12, 8, generator=generator)
        a = torch.full((1, 12), 1 / 12)
        norms = values.norm(dim=-1)
        y = a[0, :, None] * values
        sums = y[:size].sum(0, keepdim=True)
        g, b = separability.closeness(y, sums), a * norms
        units = values / norms[:, None]
        sink = torch.zeros(1, 12, dtype=torch.bool)
        selected = (torch.arange(12) < size)[None]
        ends = [x[..., 0] for x in bounds.pair_interval(units, sink[0], [size])]
        one = torch.tensor(1.0)
        lower, upper = bounds.closeness_bounds(
            b, sink, selected, bounds.Interval(one, one, one, *ends), bounds.slack(8)
        )
        assert (lower <= g)[selected].all()
        assert (upper >= g)[~selected].all()
        bare, _ = bounds.closeness_bounds(b, sink, selected, bounds.Interval(one, one, one, *ends), 0.0)
        broken += (bare > g)[selected].any().item()
    assert broken > 0, "without slack float32 should break some bound, else the slack is not tested"
