"""Counts against the float64 oracle, and their properties."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import oracle
from headgeom import rankings, separability

# Small integers: every product and sum is exact in float64, so ties are real ties.
INTEGERS = st.integers(min_value=-3, max_value=3)


@st.composite
def operations(draw, low=2, high=14):
    """Integer contributions [n, d], with duplicates and zero vectors likely, and a size."""
    n = draw(st.integers(low, high))
    d = draw(st.integers(1, 4))
    y = draw(arrays(np.float64, (n, d), elements=INTEGERS))
    return y, draw(st.integers(1, n - 1))


def counts(y, index, distance="euclidean", has_sink=False):
    """FP, TP, INV, each [pools, heads, sets], of the sets ``index`` of y [heads, sources, d], with weights of 1."""
    norms = y.norm(dim=-1)
    sums = separability.selected_sums(torch.ones_like(norms), y, index)
    factors, offsets = separability.scales(torch.ones_like(norms), norms, distance)
    if distance == "euclidean":  # norms are rounded; squares of small integers are not
        offsets = y.square().sum(-1).unsqueeze(1)
    chosen, rest, sink = separability.split(separability.products(sums, y) * factors - offsets, index, has_sink)
    inv = separability.inversions(chosen, rest, sink)
    return *separability.outer_counts(chosen, rest, sink), inv


def measured(y, selected, distance="euclidean"):
    """FP, TP and INV of one set: the first sources, or those listed."""
    index = torch.tensor([[list(range(selected)) if isinstance(selected, int) else selected]])
    return tuple(count[0].item() for count in counts(torch.as_tensor(y)[None], index, distance))


@settings(max_examples=1500, deadline=None)
@given(operations())
def test_euclidean_counts_equal_the_oracle(operation):
    y, size = operation
    assert measured(y, size) == oracle.counts(y, range(size))[:3]


@settings(max_examples=500, deadline=None)
@given(st.integers(2, 40), st.integers(2, 8), st.integers(0, 2**32 - 1))
def test_counts_equal_the_oracle_on_generic_vectors(n, d, seed):
    generator = np.random.default_rng(seed)
    y = generator.dirichlet(np.full(n, 0.3))[:, None] * generator.normal(size=(n, d))
    for distance in ("euclidean", "cosine"):
        for size in {1, n // 2 or 1, n - 1}:
            assert measured(y, size, distance) == oracle.counts(y, range(size), distance)[:3]


@pytest.mark.parametrize(
    ("y", "size", "expected"),
    [
        ([[1.0, 0], [0, 1]], 1, (0, 1, 0)),
        ([[1.0, 0], [1, 0]], 1, (1, 0, 1)),  # coinciding vectors: the tie counts against separation twice
        ([[0.0, 0], [0, 0], [0, 0]], 2, (1, 0, 2)),  # all weights zero
        ([[2.0, 0], [1, 0], [0, 0]], 2, (0, 2, 0)),  # s = (3, 0); D = 1, 2, 3
        ([[1.0, 0], [-1, 0], [0, 1]], 2, (1, 0, 2)),  # opposed pair: s = 0, all at distance 1
        ([[3.0], [-3], [1]], 2, (1, 0, 2)),  # s = 0; D = 3, 3, 1
    ],
)
def test_counts_worked_out_by_hand(y, size, expected):
    assert measured(np.array(y), size) == expected


def test_cosine_puts_a_zero_vector_at_distance_one():
    y = np.array([[1.0, 0], [0, 0], [-1, 0.5]])
    assert measured(y, 1, "cosine") == (0, 1, 0)
    # Opposed to the sum is farther than the zero vector.
    assert measured(y[[0, 2, 1]], 2, "cosine") == oracle.counts(y[[0, 2, 1]], range(2), "cosine")[:3]


@settings(max_examples=300, deadline=None)
@given(operations(), st.integers(-20, 20))
def test_counts_do_not_depend_on_a_common_factor(operation, exponent):
    y, size = operation
    assert measured(y * 2.0**exponent, size) == measured(y, size)


@settings(max_examples=100, deadline=None)
@given(st.integers(3, 30), st.integers(2, 6), st.integers(0, 2**32 - 1))
def test_counts_do_not_depend_on_the_axes(n, d, seed):
    generator = np.random.default_rng(seed)
    y = generator.normal(size=(n, d))
    rotation, _ = np.linalg.qr(generator.normal(size=(d, d)))
    assert measured(y @ rotation, n // 2) == measured(y, n // 2)


@settings(max_examples=500, deadline=None)
@given(operations())
def test_no_inversion_means_perfect_separation_and_a_positive_margin(operation):
    y, size = operation
    fp, tp, inv = measured(y, size)
    precision, recall, _ = oracle.precision_recall_f(fp, tp, size)
    margin = oracle.counts(y, range(size))[3]
    assert (inv == 0) == (precision == recall == 1) == (margin > 0)
    assert 0 <= tp <= size
    assert 0 <= fp <= len(y) - size
    assert fp <= inv
    assert tp >= size - inv


@settings(max_examples=200, deadline=None)
@given(operations(low=4), st.randoms(use_true_random=False))
def test_several_sets_and_heads_at_once_equal_one_at_a_time(operation, random):
    y, size = operation
    sets = [random.sample(range(len(y)), size) for _ in range(3)]
    batch = torch.from_numpy(np.stack([y, y[::-1].copy()]))
    together = counts(batch, torch.tensor([sets, sets]))
    for head, k in itertools.product(range(2), range(3)):
        expected = oracle.counts(batch[head].numpy(), sets[k])[:3]
        assert tuple(x[0, head, k].item() for x in together) == expected
        assert measured(batch[head], sets[k]) == expected


@settings(max_examples=500, deadline=None)
@given(operations(low=3), st.randoms(use_true_random=False))
def test_both_pools_of_one_set_equal_the_oracle(operation, random):
    """With the sink as a competitor, and (if it is not selected) without it."""
    y, size = operation
    selected = random.sample(range(len(y)), min(size, len(y) - 2))
    fp, tp, inv = counts(torch.from_numpy(y)[None], torch.tensor([[selected]]), has_sink=True)
    assert tuple(x[0].item() for x in (fp, tp, inv)) == oracle.counts(y, selected)[:3]
    if 0 not in selected:
        expected = oracle.counts(y[1:], [j - 1 for j in selected])[:3]
        assert tuple(x[1].item() for x in (fp, tp, inv)) == expected


@settings(max_examples=100, deadline=None)
@given(st.integers(3, 20), st.integers(1, 3), st.integers(0, 2**32 - 1))
def test_heads_that_share_values_equal_heads_of_their_own(n, groups, seed):
    generator = torch.Generator().manual_seed(seed)
    weights = torch.rand(2 * groups, n, generator=generator, dtype=torch.float64)
    values = torch.randn(2, n, 4, generator=generator, dtype=torch.float64)
    index = torch.stack([torch.randperm(n, generator=generator)[:2] for _ in range(6 * groups)]).reshape(-1, 3, 2)
    sums = separability.selected_sums(weights, values, index)
    g = separability.products(sums, values)
    for head in range(2 * groups):
        y = weights[head][:, None] * values[head // groups]
        for k in range(3):
            s = y[index[head, k]].sum(0)
            assert torch.allclose(sums[head, k], s)
            assert torch.allclose(g[head, k], values[head // groups] @ s)


def test_precision_recall_f():
    fp, tp = torch.tensor([0, 4, 12]), torch.tensor([4, 2, 0])
    precision, recall, f = separability.precision_recall_f(fp, tp, torch.tensor(4))
    assert precision.tolist() == [1, 0.5, 0.25]
    assert recall.tolist() == [1, 0.5, 0]
    assert f.tolist() == [1, 0.5, 0]


def test_one_source_is_perfectly_separable_unless_vectors_coincide():
    y = torch.randn(50, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for j in range(50):
        assert measured(y, [j]) == (0, 1, 0)


@settings(max_examples=300, deadline=None)
@given(arrays(np.float64, st.integers(1, 12), elements=st.integers(0, 3)), st.integers(0, 2**32 - 1))
def test_score_orders_equal_the_oracle_with_ties_to_the_lower_index(weights, seed):
    norms = np.random.default_rng(seed).integers(0, 3, size=len(weights)).astype(float)
    for top in {1, (len(weights) + 1) // 2, len(weights)}:
        orders = rankings.score_orders(torch.from_numpy(weights).float(), torch.from_numpy(norms).float(), top)
        assert orders[0].tolist() == oracle.order(weights)[:top]
        assert orders[1].tolist() == oracle.order(weights * norms)[:top]


@pytest.mark.parametrize("sources", [30, 3000])
def test_score_orders_of_float32_weights_with_ties(sources):
    """Against a stable sort; weights as small as float32 has, and many equal ones."""
    generator = np.random.default_rng(sources)
    weights = 2.0 ** -generator.integers(0, 160, size=sources).astype(float) * (generator.random(sources) < 0.8)
    weights, norms = torch.from_numpy(weights).float(), torch.ones(sources)
    expected = torch.sort(weights, descending=True, stable=True).indices[: sources // 2]
    assert torch.equal(rankings.score_orders(weights, norms, sources // 2)[0], expected)


@settings(max_examples=100, deadline=None)
@given(st.permutations(range(8)), st.integers(2, 8))
def test_without_first_drops_source_0_or_the_last(order, length):
    kept = order[:length]
    expected = [j for j in kept if j][: length - 1]
    assert rankings.without_first(torch.tensor([kept]))[0].tolist() == expected


def test_random_orders_are_permutations_that_depend_on_each_of_their_seeds():
    first = rankings.random_orders(1, "corpus", "document", 4, 50)
    assert first.shape == (4, 50)
    assert all(sorted(order) == list(range(50)) for order in first.tolist())
    assert torch.equal(first, rankings.random_orders(1, "corpus", "document", 4, 50))
    assert torch.equal(first[:2], rankings.random_orders(1, "corpus", "document", 2, 50))
    for other in [(2, "corpus", "document"), (1, "other", "document"), (1, "corpus", "other")]:
        assert not torch.equal(first, rankings.random_orders(*other, 4, 50))
    assert len({tuple(order) for order in first.tolist()}) == 4


def test_random_orders_are_uniform():
    places = torch.stack([rankings.random_orders(0, "c", str(k), 16, 5) for k in range(500)]).reshape(-1, 5)
    shares = torch.stack([(places == source).double().mean(0) for source in range(5)])
    # 8,000 draws: the standard error of a share of 0.2 is 0.0045.
    assert (shares - 0.2).abs().max() < 0.02


@settings(max_examples=200, deadline=None)
@given(st.integers(3, 20), st.booleans(), st.data())
def test_random_sets_are_the_first_of_each_order_among_the_remaining_sources(n, has_sink, data):
    orders = torch.stack([torch.tensor(data.draw(st.permutations(range(n)))) for _ in range(3)])
    kept = data.draw(st.sets(st.integers(1, n - 1), min_size=2))
    sources = sorted({0, *kept} if has_sink else kept)
    restricted = rankings.restricted(orders, torch.tensor(sources))
    for size in range(1, len(sources) - has_sink):
        drawn = rankings.random_sets(restricted, size, has_sink)
        for pool, (repeat, order) in itertools.product(range(2), enumerate(orders.tolist())):
            remaining = [j for j in order if j in sources and (j or not pool)]
            found = drawn.index[drawn.rows[pool, repeat]].tolist()
            assert [sources[place] for place in found] == remaining[:size]


def test_cosine_counts_of_tiny_weights_in_float32():
    """Squares of such weights underflow."""
    generator = np.random.default_rng(0)
    for _ in range(50):
        weights = 2.0 ** -np.sort(generator.integers(0, 100, size=12))
        values = generator.normal(size=(12, 4)).astype(np.float32)
        a, v = torch.from_numpy(weights).float()[None], torch.from_numpy(values)[None]
        factors, offsets = separability.scales(a, v.norm(dim=-1), "cosine")
        for size in (1, 4, 8):
            index = torch.arange(size).reshape(1, 1, -1)
            g = separability.products(separability.selected_sums(a, v, index), v) * factors - offsets
            parts = separability.split(g, index, False)
            found = separability.inversions(*parts), *separability.outer_counts(*parts)
            inv, fp, tp = (x[0].item() for x in found)
            assert (fp, tp, inv) == oracle.counts(weights[:, None] * values, range(size), "cosine")[:3]
