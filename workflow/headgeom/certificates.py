"""The certificates of ``bounds`` for every head, pool, ranking and size of a layer."""

import torch
from torch import Tensor

from . import bounds, separability, sink
from .bounds import Interval


def certify(
    g: Tensor,
    sums: Tensor,
    weights: Tensor,
    values: Tensor,
    is_sink: Tensor,
    known: dict[str, Tensor],
    sizes: list[int],
    pairs: int,
) -> dict[str, Tensor]:
    """Certified FP and TP, each [document, head, certificate, ranking, size].

    All in rank order: g [document, head, ranking, size, sources], sums [document, head, ranking, size, head_dim],
    weights and is_sink [document, head, ranking, sources], values with head_dim. ``known`` has the value quantities
    [document, head]. Level ``pairs`` is -1 from document number ``pairs`` on.
    """
    selected = separability.prefix_sets(g.shape[-1], sizes, g.device)
    slack = bounds.slack(values.shape[-1], max(sizes))
    norms = values.norm(dim=-1)
    a, b, at_sink = weights.unsqueeze(-2), (weights * norms).unsqueeze(-2), is_sink.unsqueeze(-2)
    reach = bounds.sink_reach(g, sums, b.squeeze(-2), is_sink, selected, _spread(known["sink_cosine_max"]), slack)
    found = {
        "interval": bounds.closeness_bounds(a, at_sink, selected, _interval(known), slack),
        "per_token": bounds.closeness_bounds(b, at_sink, selected, _unit_interval(known), slack),
        "selected": bounds.selected_side_bounds(g, sums, weights * norms, slack),
        "selected_sink": bounds.selected_side_bounds(g, sums, weights * norms, slack, reach),
        "constant_norm": bounds.closeness_bounds(a, at_sink, selected, _means(known), 0.0),
    }
    counts = {level: bounds.certified_counts(lower, upper, selected) for level, (lower, upper) in found.items()}
    counts["pairs"] = _pairs(b, values, norms, is_sink, selected, sizes, pairs, slack)
    fp, tp = (torch.stack([counts[level][k] for level in bounds.LEVELS], dim=2) for k in range(2))
    return {"certified_fp": fp, "certified_tp": tp}


def _pairs(b, values, norms, is_sink, selected, sizes, pairs, slack) -> tuple[Tensor, Tensor]:
    """Counts of level ``pairs`` for the first documents, -1 for the others."""
    missing = torch.full((*b.shape[:3], len(sizes)), -1, device=b.device)
    if not pairs:
        return missing, missing
    units = sink.unit(values[:pairs], norms[:pairs])
    one = torch.ones((), device=b.device)
    known = Interval(one, one, one, *bounds.pair_interval(units, is_sink[:pairs], sizes))
    lower, upper = bounds.closeness_bounds(b[:pairs], is_sink[:pairs].unsqueeze(-2), selected, known, slack)
    counts = bounds.certified_counts(lower, upper, selected)
    return tuple(torch.cat((count, missing[pairs:])) for count in counts)


def _interval(known: dict[str, Tensor]) -> Interval:
    names = ("norm_min", "norm_max", "sink_norm")
    return Interval(*(_spread(known[name]) for name in names), *_cosines(known))


def _unit_interval(known: dict[str, Tensor]) -> Interval:
    one = torch.ones((), device=known["norm_min"].device)
    return Interval(one, one, one, *_cosines(known))


def _means(known: dict[str, Tensor]) -> Interval:
    norm, cosine, with_sink = (_spread(known[name]) for name in ("norm_mean", "coherence_mean", "sink_alignment"))
    return Interval(norm, norm, _spread(known["sink_norm"]), cosine, cosine, with_sink, with_sink)


def _cosines(known: dict[str, Tensor]) -> list[Tensor]:
    coherence = known["coherence"]
    ends = (coherence[..., 0], coherence[..., -1], known["sink_cosine_min"], known["sink_cosine_max"])
    return [_spread(end) for end in ends]


def _spread(x: Tensor) -> Tensor:
    """[document, head] to [document, head, ranking, set, source]."""
    return x[..., None, None, None]
