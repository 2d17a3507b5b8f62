"""Counts against the float64 oracle, and their properties."""

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


def counts(ranked, sizes, distance="euclidean"):
    g = separability.closeness(ranked, separability.prefix_sums(ranked, sizes), distance)
    return separability.prefix_counts(g, sizes)


def measured(y, size, distance="euclidean"):
    return tuple(count.item() for count in counts(torch.from_numpy(y), [size], distance))


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
@given(operations(low=4))
def test_several_sizes_and_batches_at_once_equal_one_at_a_time(operation):
    y, _ = operation
    sizes = list(range(1, len(y)))
    batch = torch.from_numpy(np.stack([y, y[::-1].copy()]))[:, None]
    together = torch.stack(counts(batch, sizes))
    for k, size in enumerate(sizes):
        for b in range(2):
            assert tuple(together[:, b, 0, k].tolist()) == measured(batch[b, 0].numpy(), size)


@settings(max_examples=200, deadline=None)
@given(operations(), st.randoms(use_true_random=False))
def test_masks_count_like_prefixes(operation, random):
    y, size = operation
    order = list(range(len(y)))
    random.shuffle(order)
    mask = torch.zeros(1, len(y), dtype=torch.bool)
    mask[0, order[:size]] = True
    contributions = torch.from_numpy(y)
    g = separability.closeness(contributions, mask.double() @ contributions)
    fp, tp = separability.outer_counts(g, mask)
    assert (fp.item(), tp.item()) == oracle.counts(y, order[:size])[:2]


def test_precision_recall_f():
    fp, tp = torch.tensor([0, 4, 12]), torch.tensor([4, 2, 0])
    precision, recall, f = separability.precision_recall_f(fp, tp, torch.tensor(4))
    assert precision.tolist() == [1, 0.5, 0.25]
    assert recall.tolist() == [1, 0.5, 0]
    assert f.tolist() == [1, 0.5, 0]


def test_one_source_is_perfectly_separable_unless_vectors_coincide():
    y = torch.randn(50, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for j in range(50):
        ranked = torch.cat((y[j : j + 1], y[:j], y[j + 1 :]))
        assert [count.item() for count in counts(ranked, [1])] == [0, 1, 0]


@settings(max_examples=300, deadline=None)
@given(arrays(np.float64, st.integers(1, 12), elements=st.integers(0, 3)), st.integers(0, 2**32 - 1))
def test_score_orders_equal_the_oracle_with_ties_to_the_lower_index(weights, seed):
    norms = np.random.default_rng(seed).integers(0, 3, size=len(weights)).astype(float)
    orders = rankings.score_orders(torch.from_numpy(weights), torch.from_numpy(norms))
    assert orders[0].tolist() == oracle.order(weights)
    assert orders[1].tolist() == oracle.order(weights * norms)


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
@given(st.integers(2, 20), st.data())
def test_prefix_masks_are_the_first_of_each_order_among_the_remaining_sources_and_nested(n, data):
    orders = torch.stack([torch.tensor(data.draw(st.permutations(range(n)))) for _ in range(3)])
    sources = torch.tensor(sorted(data.draw(st.sets(st.integers(0, n - 1), min_size=1))))
    sizes = list(range(1, len(sources) + 1))
    masks = rankings.prefix_masks(orders, sources, sizes)
    for repeat, order in enumerate(orders.tolist()):
        remaining = [source for source in order if source in sources.tolist()]
        for k, size in enumerate(sizes):
            assert set(sources[masks[repeat, k]].tolist()) == set(remaining[:size])
    assert (masks[:, :-1] <= masks[:, 1:]).all()


def test_cosine_counts_of_tiny_weights_in_float32():
    """Squares of such weights underflow."""
    generator = np.random.default_rng(0)
    for _ in range(50):
        weights = 2.0 ** -np.sort(generator.integers(0, 100, size=12))
        y = weights[:, None] * generator.normal(size=(12, 4)).astype(np.float32)
        for size in (1, 4, 8):
            found = counts(torch.from_numpy(y.astype(np.float32)), [size], "cosine")
            assert tuple(x.item() for x in found) == oracle.counts(y, range(size), "cosine")[:3]
