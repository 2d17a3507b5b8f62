"""Everything that extraction measures on one layer, reduced where the model runs (spec, sections 1 to 6)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from . import certificates, rankings, separability, sink, winners
from .attention import LayerView


@dataclass(frozen=True)
class Settings:
    """What is measured: sizes N, distances, and the edges of the attention profiles for windows of ``length``."""

    length: int
    sizes: list[int]
    distances: list[str]

    @property
    def lags(self) -> list[int]:
        """Distances at which the similarity of value states is measured."""
        return sink.lags(self.length)

    @property
    def lag_edges(self) -> list[int]:
        """Lower edges of the bins of distance from the query."""
        return [0, *(1 << k for k in range((self.length - 1).bit_length()))]

    @property
    def position_edges(self) -> list[int]:
        """Lower edges of the bins of absolute position: the sink alone, then at most 32 equal bins."""
        edges = torch.linspace(1, self.length, min(33, self.length), dtype=torch.float64).round().int().tolist()
        return [0, *sorted(set(edges[:-1]))]


def measure_layer(view: LayerView, orders: Tensor, settings: Settings, pairs: int = 0) -> dict[str, Tensor]:
    """All quantities of one layer, [document, head, ...] as docs/results.md lists them.

    ``orders`` holds each document's random orders, [document, repeats, sources]. The last measured row is the
    query of everything but votes, role contributions and the profile by lag. The costly certificate ``pairs`` is
    computed for the first ``pairs`` documents.
    """
    groups = view.weights.shape[1] // view.values.shape[1]
    norms = view.values.norm(dim=-1)
    sources = view.visible[-1].nonzero().squeeze(-1)
    weights = view.weights[:, :, -1, sources]
    values = view.values[:, :, sources]
    head_norms = norms.repeat_interleave(groups, dim=1)
    known = _value_quantities(values, norms[..., sources], bool(view.visible[-1, 0]), settings)
    known = {name: x.repeat_interleave(groups, dim=1) for name, x in known.items()}
    operation = _Operation(weights, values.repeat_interleave(groups, dim=1), sources, known, orders, pairs)
    result = known | _measure_operation(operation, settings)
    result |= _roles(view, head_norms)
    result |= _profiles(view, settings)
    return result


@dataclass(frozen=True)
class _Operation:
    """The last query's attention operation on its visible sources, for all documents and heads of a layer.

    weights: [document, head, sources]; values: [document, head, sources, head_dim]; known: value quantities.
    """

    weights: Tensor
    values: Tensor
    sources: Tensor
    known: dict[str, Tensor]
    orders: Tensor
    pairs: int


def _value_quantities(values: Tensor, norms: Tensor, sink_visible: bool, settings: Settings) -> dict[str, Tensor]:
    """Quantities of value states, [document, key/value head, ...]; those of a hidden sink are NaN."""
    units = sink.unit(values, norms)
    result = sink.norm_quantities(norms, sink_visible)
    if sink_visible:
        result |= sink.sink_quantities(units)
        units = units[..., 1:, :]
    else:
        missing = torch.full_like(result["norm_mean"], torch.nan)
        names = ("sink_alignment", "sink_negative_share", "sink_cosine_min", "sink_cosine_max")
        result |= dict.fromkeys(names, missing)
    result |= sink.coherence(units)
    result["similarity"] = sink.similarity_by_lag(units, settings.lags)
    return result


def _measure_operation(operation: _Operation, settings: Settings) -> dict[str, Tensor]:
    """Ranks, masses, alignments and, for each pool, the counts."""
    weights, values, sources = operation.weights, operation.values, operation.sources
    has_sink = bool(sources[0] == 0)
    ranked = rankings.score_orders(weights, values.norm(dim=-1))
    output = (weights.unsqueeze(-2) @ values).squeeze(-2)
    missing = torch.full_like(weights[..., 0], torch.nan)
    rank = torch.argsort(ranked, dim=-1)[..., 0]
    cosine = torch.nn.functional.cosine_similarity
    result = {
        "sink_mass": weights[..., 0] if has_sink else missing,
        "sink_rank": rank if has_sink else torch.full_like(rank, -1),
        "output_sink_cosine": cosine(output, values[..., 0, :], dim=-1) if has_sink else missing,
        "output_current_cosine": cosine(output, values[..., -1, :], dim=-1),
    }
    pools = [_pool(operation, ranked, settings)]
    if has_sink:
        pools.append(_pool(operation, ranked[ranked != 0].reshape(*ranked.shape[:-1], -1), settings))
    else:
        pools.append(pools[0])
    for name in pools[0]:
        result[name] = torch.stack([pool[name] for pool in pools], dim=-1 if name == "sources" else -2)
    return result


def _pool(operation: _Operation, ranked: Tensor, settings: Settings) -> dict[str, Tensor]:
    """Counts of one pool, whose sources ``ranked`` [document, head, ranking, sources] lists, best first.

    Returns [document, head, distance, ranking, size]; random means lack ranking, certified counts lack distance
    and have the certificate before the ranking.
    """
    n = ranked.shape[-1]
    sizes = [size for size in settings.sizes if size < n]
    sources = operation.sources[-n:]
    masks = rankings.prefix_masks(operation.orders, sources, sizes).unsqueeze(1)
    weights = operation.weights.unsqueeze(2).expand(-1, -1, ranked.shape[2], -1).gather(-1, ranked)
    index = ranked.unsqueeze(-1).expand(*ranked.shape, operation.values.shape[-1])
    values = operation.values.unsqueeze(2).expand(-1, -1, ranked.shape[2], -1, -1).gather(-2, index)
    contributions = weights.unsqueeze(-1) * values
    sums = separability.prefix_sums(contributions, sizes)
    plain = operation.weights[..., -n:].unsqueeze(-1) * operation.values[..., -n:, :]
    counts, means, result = [], [], {}
    for distance in settings.distances:
        g = separability.closeness(contributions, sums, distance)
        counts.append(torch.stack(separability.prefix_counts(g, sizes)))
        means.append(torch.stack(_random_means(plain, masks, sizes, distance)))
        if distance == "euclidean":
            is_sink = operation.sources[ranked] == 0
            result = certificates.certify(g, sums, weights, values, is_sink, operation.known, sizes, operation.pairs)
    result |= dict(zip(("fp", "tp", "inv"), torch.stack(counts, dim=3), strict=True))
    result |= dict(zip(("random_precision", "random_recall", "random_f"), torch.stack(means, dim=3), strict=True))
    pad = (0, len(settings.sizes) - len(sizes))
    missing = {name: torch.nan if x.is_floating_point() else -1 for name, x in result.items()}
    result = {name: torch.nn.functional.pad(x, pad, value=missing[name]) for name, x in result.items()}
    result["sources"] = torch.full(operation.weights.shape[:2], n)
    return result


def _random_means(contributions: Tensor, masks: Tensor, sizes: list[int], distance: str) -> tuple[Tensor, ...]:
    """Mean P, R and F over random repeats, [document, head, size]; masks [document, 1, repeats, sizes, sources]."""
    flat = masks.flatten(2, 3)
    sums = flat.to(contributions.dtype) @ contributions
    fp, tp = separability.outer_counts(separability.closeness(contributions, sums, distance), flat)
    shape = (*contributions.shape[:2], *masks.shape[2:4])
    ends = torch.tensor(sizes, device=fp.device)
    scores = separability.precision_recall_f(fp.reshape(shape), tp.reshape(shape), ends)
    return tuple(score.mean(2) for score in scores)


def _roles(view: LayerView, head_norms: Tensor) -> dict[str, Tensor]:
    """Votes and mean contributions by role over all measured rows."""
    roles = winners.role_contributions(view.weights * head_norms.unsqueeze(2), view.rows, view.visible)
    mean = roles.masked_fill(roles.isinf(), torch.nan).nanmean(-2)
    return {"votes": winners.votes(roles), "role_contribution": mean}


def _profiles(view: LayerView, settings: Settings) -> dict[str, Tensor]:
    """Mean attention weight of visible sources, by distance from the query (sink left out, all rows) and by position
    (last row); NaN for a bin without any."""
    positions = torch.arange(settings.length, device=view.rows.device)
    lag = view.rows[:, None] - positions
    bins = torch.bucketize(lag, torch.tensor(settings.lag_edges, device=lag.device), right=True) - 1
    counted = view.visible & (positions > 0)
    one_hot = torch.nn.functional.one_hot(bins.clamp(min=0), len(settings.lag_edges)) * counted[..., None]
    by_lag = torch.einsum("bhrj,rjk->bhk", view.weights, one_hot.float()) / one_hot.sum((0, 1))
    edges = torch.tensor(settings.position_edges, device=positions.device)
    slots = torch.nn.functional.one_hot(torch.bucketize(positions, edges, right=True) - 1, len(edges)).float()
    slots = slots * view.visible[-1].unsqueeze(-1)
    return {"attention_by_lag": by_lag, "attention_by_position": view.weights[:, :, -1] @ slots / slots.sum(0)}
