"""Everything that extraction measures on one layer, reduced where the model runs (spec, sections 1 to 6)."""

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from . import bounds, counting, rankings, sink, winners
from .attention import LayerView
from .certificates import Operations


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
    computed for the first ``pairs`` documents. The view may stack layers that see the same sources: then its batch
    holds the layers of the first document, of the second, ..., and so do the results.
    """
    groups = view.weights.shape[1] // view.values.shape[1]
    sources = view.visible[-1].nonzero().squeeze(-1)
    norms = view.values.norm(dim=-1)
    known = _value_quantities(view.values[:, :, sources], norms[..., sources], bool(view.visible[-1, 0]), settings)
    known = {name: x.repeat_interleave(groups, dim=1) for name, x in known.items()}
    return (
        known
        | _measure_operation(view, sources, norms, known, orders, settings, pairs)
        | _roles(view, norms.repeat_interleave(groups, dim=1))
        | _profiles(view, settings)
    )


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


def _measure_operation(
    view: LayerView,
    sources: Tensor,
    norms: Tensor,
    known: dict[str, Tensor],
    orders: Tensor,
    settings: Settings,
    pairs: int,
) -> dict[str, Tensor]:
    """Ranks, masses, alignments and counts of the last query's attention operation on its visible ``sources``.

    norms: [document, key/value head, all sources]; known: value quantities, [document, head, ...].
    """
    weights, values = view.weights[:, :, -1, sources], view.values[:, :, sources]
    norms = norms[..., sources].repeat_interleave(weights.shape[1] // values.shape[1], dim=1)
    ranked = rankings.score_orders(weights, norms, min(max(settings.sizes) + 1, len(sources)))
    has_sink, slack = bool(sources[0] == 0), partial(bounds.slack, values.shape[-1])
    layers = len(weights) // len(orders)
    counts = []
    for document, order in enumerate(rankings.restricted(orders, sources)):
        rows = slice(document * layers, (document + 1) * layers)
        units = partial(_units, values[rows], norms[rows]) if document < pairs else None
        own = {name: x[rows].flatten(0, 1) for name, x in known.items()}
        tensors = (x[rows].flatten(0, 1) for x in (weights, norms, values))
        operations = Operations(*tensors, own, has_sink, slack, units)
        counts.append(counting.count(operations, ranked[rows].flatten(0, 1), order, settings.sizes, settings.distances))
    result = {name: torch.cat([one[name] for one in counts]).unflatten(0, (len(weights), -1)) for name in counts[0]}
    return result | _ranks_and_alignments(weights, values, norms, has_sink)


def _units(values: Tensor, norms: Tensor) -> Tensor:
    """Unit values [layers x heads, sources, head_dim], from values of key/value heads and norms of heads."""
    values = values.repeat_interleave(norms.shape[1] // values.shape[1], dim=1)
    return sink.unit(values, norms).flatten(0, 1)


def _ranks_and_alignments(weights: Tensor, values: Tensor, norms: Tensor, has_sink: bool) -> dict[str, Tensor]:
    """Rank and weight of the sink, cosines of the output with v_0 and v_t, and sources by pool.

    weights, norms: [document, head, sources]; values: [document, key/value head, sources, head_dim].
    """
    output = weights.unflatten(1, (values.shape[1], -1)) @ values
    current, first = (cosine_similarity(output, values[..., [j], :], dim=-1).flatten(1, 2) for j in (-1, 0))
    scores = torch.stack((weights, weights * norms), dim=2)
    rank = (scores > scores[..., :1]).sum(-1)
    missing = torch.full_like(current, torch.nan)
    n = weights.shape[-1]
    return {
        "sink_mass": weights[..., 0] if has_sink else missing,
        "sink_rank": rank if has_sink else torch.full_like(rank, -1),
        "output_sink_cosine": first if has_sink else missing,
        "output_current_cosine": current,
        "sources": torch.tensor([n, n - has_sink], device=weights.device).expand(*weights.shape[:2], -1),
    }


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
    lags = _members(lag, settings.lag_edges, view.visible & (positions > 0)).flatten(0, 1)
    slots = _members(positions, settings.position_edges, view.visible[-1])
    return {
        "attention_by_lag": view.weights.flatten(2) @ lags / lags.sum(0),
        "attention_by_position": view.weights[:, :, -1] @ slots / slots.sum(0),
    }


def _members(x: Tensor, edges: list[int], counted: Tensor) -> Tensor:
    """Which of the bins, given by their lower edges, each counted element is in: [..., bins] of ones and zeros."""
    lower = torch.tensor(edges, device=x.device)
    bins = torch.bucketize(x, lower, right=True) - 1
    return ((bins.unsqueeze(-1) == torch.arange(len(edges), device=x.device)) & counted.unsqueeze(-1)).float()
