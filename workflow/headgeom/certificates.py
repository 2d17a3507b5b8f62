"""The certificates of ``bounds`` for every head, ranking and pool of a document, one size at a time."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from . import bounds, separability
from .bounds import Interval

_BLOCK = 1 << 22
"""Cosines of level ``pairs`` held at once."""


@dataclass(frozen=True)
class Operations:
    """Attention operations of one document: those of the heads of one or more layers that see the same sources.

    weights, norms: [heads, sources] attention weights and value norms; known: value quantities, [heads, ...];
    units: makes the unit values [heads, sources, head_dim], for level ``pairs``, which is left out without it.
    Source 0 is the sink if ``has_sink``; ``slack`` is that of ``bounds``.
    """

    weights: Tensor
    norms: Tensor
    known: dict[str, Tensor]
    has_sink: bool
    slack: float
    units: Callable[[], Tensor] | None = None

    @cached_property
    def contribution_norms(self) -> Tensor:
        """b_j = a_j ||v_j||, [heads, sources]."""
        return self.weights * self.norms

    @cached_property
    def intervals(self) -> dict[str, Interval]:
        """What levels ``interval``, ``per_token`` and ``constant_norm`` know, [heads, 1, 1]."""
        known = {name: x[:, None, None] for name, x in self.known.items() if x.dim() == 1}
        ends = (x[:, None, None] for x in (self.known["coherence"][:, 0], self.known["coherence"][:, -1]))
        cosines = (*ends, known["sink_cosine_min"], known["sink_cosine_max"])
        one = torch.ones_like(known["norm_min"])
        norm, cosine, with_sink = known["norm_mean"], known["coherence_mean"], known["sink_alignment"]
        return {
            "interval": Interval(known["norm_min"], known["norm_max"], known["sink_norm"], *cosines),
            "per_token": Interval(one, one, one, *cosines),
            "constant_norm": Interval(norm, norm, known["sink_norm"], cosine, cosine, with_sink, with_sink),
        }


def certify(operations: Operations, index: Tensor, g: Tensor, sums: Tensor) -> tuple[Tensor, Tensor]:
    """Certified FP and TP, each [pools, level, heads, sets]; level ``pairs`` is -1 without units.

    index: [heads, sets, N], the selected sources; g: their closeness; sums: [heads, sets, head_dim].
    """
    a, b = operations.weights, operations.contribution_norms
    intervals = dict(operations.intervals)
    if operations.units is not None:
        intervals["pairs"] = _pair_intervals(operations, index)
    lower, upper = [], []
    for level in bounds.LEVELS:
        weights = a if level in ("interval", "constant_norm") else b
        slack = 0.0 if level == "constant_norm" else operations.slack
        chosen = weights.unsqueeze(1).expand(-1, index.shape[1], -1).gather(-1, index)
        if level == "selected":
            length = sums.norm(dim=-1, keepdim=True)
            lower.append(bounds.selected_lower_bounds(g, length, chosen, slack))
            terms = bounds.selected_upper_terms(length, slack)
        elif level in intervals:
            at_sink = (index == 0) & operations.has_sink
            totals = [torch.where(at, chosen, 0.0).sum(-1, keepdim=True) for at in (~at_sink, at_sink)]
            lower.append(bounds.lower_bounds(chosen, at_sink, *totals, intervals[level], slack))
            terms = bounds.upper_terms(*totals, intervals[level], slack)
        else:
            continue
        upper.append(bounds.upper_bounds(weights.unsqueeze(1), terms, slack, operations.has_sink))
    _, rest, at_sink = separability.split(torch.stack(upper), index.expand(len(upper), -1, -1, -1), operations.has_sink)
    counts = separability.outer_counts(torch.stack(lower), rest, at_sink)
    return tuple(count if "pairs" in intervals else _with_missing_pairs(count) for count in counts)


def _with_missing_pairs(counts: Tensor) -> Tensor:
    place = bounds.LEVELS.index("pairs")
    missing = torch.full_like(counts[:, :1], -1)
    return torch.cat((counts[:, :place], missing, counts[:, place:]), dim=1)


def _pair_intervals(operations: Operations, index: Tensor) -> Interval:
    """What level ``pairs`` knows, [heads, sets, 1], in blocks of heads."""
    units = operations.units()
    sources = units.shape[-2]
    at_sink = (torch.arange(sources, device=units.device) == 0) & operations.has_sink
    step = max(1, _BLOCK // (index[0].numel() * sources))
    blocks = zip(units.unsqueeze(1).split(step), index.split(step), strict=True)
    ends = [bounds.pair_interval(block, at_sink, sets) for block, sets in blocks]
    one = torch.ones((), device=units.device)
    return Interval(one, one, one, *(torch.cat(column) for column in zip(*ends, strict=True)))
