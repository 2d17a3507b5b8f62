"""Counts of every head, ranking, pool and size of one document (spec, sections 2, 3 and 5).

One size at a time, the sets of all rankings and pools are summed in one product and their closeness computed in
another: the temporaries are [heads, sets, sources], and small for one size.
"""

import torch
from torch import Tensor
from torch.nn.functional import pad

from . import certificates, rankings, separability
from .certificates import Operations

COMPETING = ("competing_fp", "competing_tp")


def count(
    operations: Operations, ranked: Tensor, orders: Tensor, sizes: list[int], distances: list[str]
) -> dict[str, Tensor]:
    """Counts, certified counts and random means, [heads, ..., pool, size]; missing where N >= sources of the pool.

    ranked: [heads, 2, top], the first sources of the scored rankings, one more than the largest size if there are;
    orders: [repeats, sources], random ones. Before the pool come the distance (of fp, tp, inv and random means) or the
    certificate (of certified counts), and the ranking (of all but random means). ``competing_fp`` and ``competing_tp``
    are [heads, ranking, size]: the euclidean counts of pool ``no_sink`` if the sink, though not selectable, competes.
    """
    sources, has_sink = operations.weights.shape[-1], operations.has_sink
    pools = torch.stack((ranked[..., :-1], rankings.without_first(ranked) if has_sink else ranked[..., :-1]), dim=2)
    scales = {d: separability.scales(operations.weights, operations.norms, d) for d in distances}
    found = []
    for size in sizes:
        if size < sources:
            drawn = rankings.random_sets(orders, size, has_sink)
            found.append(_count_size(operations, drawn, pools[..., :size].flatten(1, 2), scales))
    result = {name: torch.stack([one[name] for one in found], dim=-1) for name in found[0]}
    missing = {name: torch.nan if x.is_floating_point() else -1 for name, x in result.items()}
    if has_sink and sources - 1 in sizes:
        for name, x in result.items():
            (x if name in COMPETING else x[..., 1, :])[..., -1] = missing[name]
    return {name: pad(x, (0, len(sizes) - len(found)), value=missing[name]) for name, x in result.items()}


def _count_size(
    operations: Operations, drawn: rankings.RandomSets, scored: Tensor, scales: dict[str, tuple[Tensor, Tensor]]
) -> dict[str, Tensor]:
    """Counts of one size, [heads, ..., pool].

    scored: [heads, ranking x pool, N], the sets of the scored rankings; scales: by distance, of ``separability``.
    """
    heads, size, random = len(scored), scored.shape[-1], len(drawn.index)
    index = torch.cat((drawn.index.expand(heads, -1, -1), scored), dim=1)
    sums = separability.selected_sums(operations.weights, operations.values, index)
    products = separability.products(sums, operations.values)
    counts, means, result = [], [], {}
    for distance, (factors, offsets) in scales.items():
        g = (products * factors).sub_(offsets)
        chosen, rest, sink = separability.split(g, index, operations.has_sink)
        inv = separability.inversions(chosen[:, random:], rest[:, random:], sink[:, random:])
        fp, tp = separability.outer_counts(chosen, rest, sink)
        counts.append(_by_pool(torch.stack((fp[..., random:], tp[..., random:], inv), dim=1)))
        means.append(_random_means(fp[..., :random], tp[..., :random], drawn.rows, size))
        if distance == "euclidean":
            certified = certificates.certify(operations, scored, chosen[:, random:], sums[:, random:])
            names = ("certified_fp", "certified_tp")
            result = {name: _by_pool(x).movedim(0, 1) for name, x in zip(names, certified, strict=True)}
            competing = [_competing(x[..., random:], operations.has_sink) for x in (fp, tp)]
            result |= dict(zip(COMPETING, competing, strict=True))
    result |= dict(zip(("fp", "tp", "inv"), torch.stack(counts, dim=2), strict=True))
    rates = ("random_precision", "random_recall", "random_f")
    return result | dict(zip(rates, torch.stack(means, dim=2), strict=True))


def _by_pool(counts: Tensor) -> Tensor:
    """[..., heads, ranking, pool] of counts [pools, ..., heads, ranking x pool]: those of each pool's sets in it."""
    counts = counts.unflatten(-1, (-1, len(rankings.POOLS)))
    return torch.stack([counts[pool, ..., pool] for pool in range(len(rankings.POOLS))], dim=-1)


def _competing(counts: Tensor, has_sink: bool) -> Tensor:
    """[heads, ranking] of counts [pools, heads, ranking x pool]: sets without the sink, among all; -1 without one."""
    counts = counts[0].unflatten(-1, (-1, len(rankings.POOLS)))[..., rankings.POOLS.index("no_sink")]
    return counts if has_sink else torch.full_like(counts, -1)


def _random_means(fp: Tensor, tp: Tensor, rows: Tensor, size: int) -> Tensor:
    """Mean P, R and F over repeats, [3, heads, pool], of counts [pools, heads, sets]; rows: [pools, repeats]."""
    fp, tp = (torch.stack([x[pool][:, row] for pool, row in enumerate(rows)], dim=1) for x in (fp, tp))
    return torch.stack([rate.mean(-1) for rate in separability.precision_recall_f(fp, tp, size)])
