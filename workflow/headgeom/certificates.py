"""The certificates of ``bounds`` for the heads of a document, one size of sets at a time."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property

import torch
from torch import Tensor

from . import bounds, separability
from .bounds import Interval

_FROM_INTERVALS = ("interval", "per_token", "constant_norm")
_BLOCK = 1 << 22
"""Cosines of level ``pairs`` held at once."""


@dataclass(frozen=True)
class Operations:
    """Attention operations of one document: those of the heads of one or more layers that see the same sources.

    weights, norms: [heads, sources] attention weights and value norms; values: [key/value heads, sources, head_dim];
    known: value quantities, [heads, ...]; units: makes the unit values [heads, sources, head_dim] for level ``pairs``,
    which is left out without it. Source 0 is the sink if ``has_sink``; ``slack`` is the rounding allowance of sets of
    a size, that of ``bounds``.
    """

    weights: Tensor
    norms: Tensor
    values: Tensor
    known: dict[str, Tensor]
    has_sink: bool
    slack: Callable[[int], float]
    units: Callable[[], Tensor] | None = None

    @cached_property
    def intervals(self) -> Interval:
        """What ``interval``, ``per_token`` and ``constant_norm`` know, [level, heads, 1, 1]."""
        known = {name: x[:, None, None] for name, x in self.known.items() if x.dim() == 1}
        ends = (x[:, None, None] for x in (self.known["coherence"][:, 0], self.known["coherence"][:, -1]))
        cosines = (*ends, known["sink_cosine_min"], known["sink_cosine_max"])
        one = torch.ones_like(known["norm_min"])
        norm, cosine, with_sink = known["norm_mean"], known["coherence_mean"], known["sink_alignment"]
        levels = (
            (known["norm_min"], known["norm_max"], known["sink_norm"], *cosines),
            (one, one, one, *cosines),
            (norm, norm, known["sink_norm"], cosine, cosine, with_sink, with_sink),
        )
        return Interval(*map(torch.stack, zip(*levels, strict=True)))

    @cached_property
    def levels(self) -> tuple[list[str], Tensor]:
        """Names of the levels, and weights [level, heads, 1, sources] that each is about."""
        names = [*_FROM_INTERVALS, *(["pairs"] if self.units else []), "selected", "selected_sink"]
        plain, normed = self.weights.unsqueeze(1), (self.weights * self.norms).unsqueeze(1)
        weights = torch.stack([plain if name in ("interval", "constant_norm") else normed for name in names])
        return names, weights


def certify(operations: Operations, index: Tensor, g: Tensor, sums: Tensor) -> tuple[Tensor, Tensor]:
    """Certified FP and TP, each [pools, level, heads, sets], of ``bounds.LEVELS``; ``pairs`` is -1 without units.

    index: [heads, sets, N], the selected sources; g: their closeness; sums: [heads, sets, head_dim].
    """
    lower, upper = sides(operations, index, g, sums)
    names = operations.levels[0]
    rest, sink_upper = separability.unselected(upper, index.expand(len(names), -1, -1, -1), operations.has_sink)
    return tuple(_in_order(count, names) for count in separability.outer_counts(lower, rest, sink_upper))


def sides(operations: Operations, index: Tensor, g: Tensor, sums: Tensor) -> tuple[Tensor, Tensor]:
    """L [level, heads, sets, N] and U [level, heads, sets, sources] of the operations' levels; as in ``certify``."""
    names, weights = operations.levels
    # Measured and selected-side counts share s as it was rounded, so that its error, which grows with N, is in both.
    slack, own_slack = operations.slack(index.shape[-1]), operations.slack(0)
    by_level = {"constant_norm": 0.0, "selected": own_slack, "selected_sink": own_slack}
    slacks = weights.new_tensor([by_level.get(name, slack) for name in names])[:, None, None, None]
    chosen = weights.expand(-1, -1, index.shape[1], -1).gather(-1, index.expand(len(names), -1, -1, -1))
    at_sink = (index == 0) & operations.has_sink

    known = operations.intervals if operations.units is None else _with_pairs(operations, index)
    number = len(names) - 2  # of levels that know intervals; the others are the selected-side ones
    totals = [torch.where(at, chosen[:number], 0.0).sum(-1, keepdim=True) for at in (~at_sink, at_sink)]
    lower = bounds.lower_bounds(chosen[:number], at_sink, *totals, known, slacks[:number])
    terms = bounds.upper_terms(*totals, known, slacks[:number])

    length, b = sums.norm(dim=-1, keepdim=True), chosen[-1]
    reach = bounds.sink_reach(g, at_sink, length, b, operations.known["sink_cosine_max"][:, None, None], own_slack)
    lower = torch.cat((lower, g.expand(2, *g.shape)))
    selected_terms = [bounds.selected_upper_terms(length, x, own_slack) for x in (1.0, reach)]
    terms = torch.cat((terms, torch.stack(selected_terms, dim=1)), dim=1)
    return lower, bounds.upper_bounds(weights, terms, slacks, operations.has_sink)


def _in_order(counts: Tensor, names: list[str]) -> Tensor:
    """Counts [pools, level, ...] in the order of ``bounds.LEVELS``, with -1 for a level that is missing."""
    missing = torch.full_like(counts[:, 0], -1)
    return torch.stack([counts[:, names.index(x)] if x in names else missing for x in bounds.LEVELS], dim=1)


def _with_pairs(operations: Operations, index: Tensor) -> Interval:
    """The intervals with those of level ``pairs`` after them, in blocks of heads: [level, heads, sets, 1]."""
    units = operations.units()
    sources = units.shape[-2]
    at_sink = (torch.arange(sources, device=units.device) == 0) & operations.has_sink
    step = max(1, _BLOCK // (index[0].numel() * sources))
    blocks = zip(units.unsqueeze(1).split(step), index.split(step), strict=True)
    ends = [bounds.pair_interval(block, at_sink, sets) for block, sets in blocks]
    one = torch.ones_like(ends[0][0])
    pairs = (one[:1].expand(len(index), -1, -1),) * 3 + tuple(torch.cat(x) for x in zip(*ends, strict=True))
    known = (getattr(operations.intervals, field.name) for field in fields(Interval))
    both = zip(known, pairs, strict=True)
    return Interval(*(torch.cat((x.expand(-1, *pair.shape), pair.unsqueeze(0))) for x, pair in both))
