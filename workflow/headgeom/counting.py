"""Counts of every head, ranking, pool and size of one document (spec, sections 2, 3 and 5).

One size at a time, the sets of all rankings and pools are summed in one product and their closeness computed in
another: the temporaries are [heads, sets, sources], and small for one size.
"""

import torch
from torch import Tensor
from torch.nn.functional import pad

from . import certificates, rankings, separability
from .certificates import Operations


def count(
    operations: Operations,
    contributions: Tensor,
    ranked: Tensor,
    orders: Tensor,
    sizes: list[int],
    distances: list[str],
) -> dict[str, Tensor]:
    """Counts, certified counts and random means, [heads, ..., pool, size]; missing where N >= sources of the pool.

    contributions: [heads, sources, head_dim]; ranked: [heads, 2, top], the first sources of the scored rankings, one more
    than the largest size if there are; orders: [repeats, sources], random ones. Before the pool come the distance (fp,
    tp, inv, random means), the certificate (certified counts) and the ranking (all but random means).
    """
    sources = contributions.shape[1]
    pools = torch.stack((ranked[..., :-1], rankings.without_first(ranked) if operations.has_sink else ranked[..., :-1]))
    points = [separability.directions(contributions, distance) for distance in distances]
    found = []
    for size in sizes:
        if size < sources:
            drawn = rankings.random_sets(orders, size, operations.has_sink)
            scored = pools[..., :size].permute(1, 2, 0, 3).flatten(1, 2)
            found.append(_count_size(operations, contributions, points, drawn, scored, distances))
    result = {name: torch.stack([one[name] for one in found], dim=-1) for name in found[0]}
    if operations.has_sink and len(found) and sizes[len(found) - 1] == sources - 1:
        for x in result.values():
            x[..., 1, -1] = torch.nan if x.is_floating_point() else -1
    missing = (0, len(sizes) - len(found))
    return {name: pad(x, missing, value=torch.nan if x.is_floating_point() else -1) for name, x in result.items()}


def _count_size(
    operations: Operations,
    contributions: Tensor,
    points: list[tuple[Tensor, Tensor]],
    drawn: rankings.RandomSets,
    scored: Tensor,
    distances: list[str],
) -> dict[str, Tensor]:
    """Counts of one size, [heads, ..., pool].

    scored: [heads, ranking x pool, N], the sets of the scored rankings.
    """
    heads, size, random = len(contributions), scored.shape[-1], len(drawn.index)
    index = torch.cat((drawn.index.expand(heads, -1, -1), scored), dim=1)
    sums = separability.selected_sums(contributions, index)
    counts, means, result = [], [], {}
    for distance, (vectors, offsets) in zip(distances, points, strict=True):
        g = separability.closeness(sums, vectors, offsets)
        parts = separability.split(g, index, operations.has_sink)
        inv = separability.inversions(*(x[:, random:] for x in parts))
        fp, tp = separability.outer_counts(*parts)
        counts.append(_by_pool(torch.stack((fp[..., random:], tp[..., random:], inv), dim=1)))
        means.append(_random_means(fp[..., :random], tp[..., :random], drawn.rows, size))
        if distance == "euclidean":
            certified = certificates.certify(operations, scored, parts[0][:, random:], sums[:, random:])
            names = ("certified_fp", "certified_tp")
            result = {n: _by_pool(x).movedim(0, 1) for n, x in zip(names, certified, strict=True)}
    result |= dict(zip(("fp", "tp", "inv"), torch.stack(counts, dim=2), strict=True))
    return result | dict(zip(("random_precision", "random_recall", "random_f"), torch.stack(means, dim=2), strict=True))


def _by_pool(counts: Tensor) -> Tensor:
    """[..., heads, ranking, pool] of counts [pools, ..., heads, ranking x pool]: those of each pool's sets in it."""
    counts = counts.unflatten(-1, (-1, len(rankings.POOLS)))
    return torch.stack([counts[pool, ..., pool] for pool in range(len(rankings.POOLS))], dim=-1)


def _random_means(fp: Tensor, tp: Tensor, rows: Tensor, size: int) -> Tensor:
    """Mean P, R and F over repeats, [3, heads, pool], of counts [pools, heads, sets]; rows: [pools, repeats]."""
    fp, tp = (torch.stack([x[pool][:, row] for pool, row in enumerate(rows)], dim=1) for x in (fp, tp))
    return torch.stack([rate.mean(-1) for rate in separability.precision_recall_f(fp, tp, size)])
