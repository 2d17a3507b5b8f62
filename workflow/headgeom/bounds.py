"""Certificates of separability (spec, section 5; proofs in paper/bounds.typ).

Every certificate gives lower bounds L_i <= g_i of the selected and upper bounds U_j >= g_j of the other sources,
where g is the closeness of ``separability``. Then

    FP <= #{ j not in S : U_j >= min_S L }        TP >= #{ i in S : L_i > max_{not S} U }.

The certificates differ in what they may know, besides the attention weights a:

- ``interval``: intervals of the value norms, of their cosines, and of their cosines with the sink (the paper's);
- ``per_token``: every norm instead of the interval;
- ``pairs``: also, cosine intervals over just the pairs that occur in L and in U;
- ``selected``: the selected vectors, and of the others only norms: U_j = 2 b_j ||s|| - b_j^2 with b_j = ||y_j||;
- ``selected_sink``: also, the largest cosine s+ of the sink with another source. Where the sink is selected, no other
  v_j comes nearer to s than by the angle arccos(s+) less the angle of v_0 and s, so ||s|| shrinks by a cosine.

``constant_norm`` puts the means in the place of the intervals: a prediction, no certificate.

Float32 can break an inequality that holds in real numbers, so L is lowered and U raised by an allowance that is no
smaller than the largest possible error of both sides together: with N selected sources, vectors of d
components and b the contribution norms,

    (4 d + 2 N + 32) 2^-24 b_j (b_j + 2 sum_S b) + 2^-126

where the last term is for products that underflow. This is the only tolerance: counts are compared exactly.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

CERTIFICATES = ("interval", "per_token", "pairs", "selected", "selected_sink")
LEVELS = (*CERTIFICATES, "constant_norm")

_UNDERFLOW = 2.0**-107
"""Times any ``slack`` at least 2^-126, the smallest normal number of float32."""


@dataclass(frozen=True)
class Interval:
    """What is known of norms and cosines; each is a Tensor that broadcasts against [..., sets, sources].

    norm_low, norm_high: of the v_j, j >= 1; norm_sink: of v_0; cosine_low, cosine_high: cos(v_i, v_j), i, j >= 1;
    sink_low, sink_high: cos(v_0, v_j). NaN stands for an empty interval or a sink that is hidden.
    """

    norm_low: Tensor
    norm_high: Tensor
    norm_sink: Tensor
    cosine_low: Tensor
    cosine_high: Tensor
    sink_low: Tensor
    sink_high: Tensor


def closeness_bounds(
    weights: Tensor, sink: Tensor, selected: Tensor, known: Interval, slack: float
) -> tuple[Tensor, Tensor]:
    """L and U, [..., sets, sources], of all sources (L holds for selected, U for the other sources).

    weights: [..., 1, sources]; sink: [..., 1, sources] bool, true at source 0; selected: [..., sets, sources] bool.
    With weights a_j ||v_j|| and all norms 1 the bounds are those of ``per_token``.
    """
    others = (weights * (selected & ~sink)).sum(-1, keepdim=True)
    sink_weight = (weights * (selected & sink)).sum(-1, keepdim=True)
    low, high = _product_interval(known.cosine_low, known.cosine_high, known.norm_low, known.norm_high, power=2)
    sink_low, sink_high = _product_interval(known.sink_low, known.sink_high, known.norm_low, known.norm_high, power=1)
    norm_sink = known.norm_sink.nan_to_num(nan=0.0)
    sink_low, sink_high = norm_sink * sink_low, norm_sink * sink_high
    square = weights * torch.where(sink, norm_sink, known.norm_low) ** 2
    lower = square + 2 * torch.where(
        sink, others * sink_low, (others - weights).clamp(min=0) * low + sink_weight * sink_low
    )
    upper = 2 * torch.where(sink, others * sink_high, others * high + sink_weight * sink_high) - square
    norm = torch.where(sink, norm_sink, known.norm_high)
    size = norm * (weights * norm + 2 * others * known.norm_high + 2 * sink_weight * norm_sink)
    allowance = slack * (weights * size + _UNDERFLOW)
    return weights * lower - allowance, weights * upper + allowance


def certified_counts(lower: Tensor, upper: Tensor, selected: Tensor) -> tuple[Tensor, Tensor]:
    """Upper bound of FP and lower bound of TP, each [..., sets] int64."""
    least = torch.where(selected, lower, torch.inf).amin(-1, keepdim=True)
    largest = torch.where(selected, -torch.inf, upper).amax(-1, keepdim=True)
    return ((upper >= least) & ~selected).sum(-1), ((lower > largest) & selected).sum(-1)


def selected_side_bounds(
    g: Tensor, sums: Tensor, norms: Tensor, slack: float, reach: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """L and U, [..., sets, sources], of the ``selected`` certificate; with ``reach`` that of ``selected_sink``.

    g: measured closeness [..., sets, sources], of which only that of selected sources is used; sums: [..., sets,
    head_dim]; norms: contribution norms b [..., sources]; reach: of ``sink_reach``. By Cauchy and Schwarz
    <y_j, s> <= b_j ||s||, and from norms alone nothing better can be said: y_j may point along s.
    """
    length = sums.norm(dim=-1, keepdim=True)
    b = norms.unsqueeze(-2)
    allowance = slack * (b * (2 * length + b) + _UNDERFLOW)
    return g - allowance, 2 * b * (length if reach is None else length * reach) - b.square() + allowance


def sink_reach(
    g: Tensor, sums: Tensor, norms: Tensor, sink: Tensor, selected: Tensor, sink_high: Tensor, slack: float
) -> Tensor:
    """Upper bound of cos(v_j, s) of unselected j, [..., sets, 1]; 1 where the sink is not selected.

    As in ``selected_side_bounds``; sink: [..., sources] bool; sink_high: s+, broadcasts against [..., sets, 1]. With
    t the angle of v_0 and s, the angle of v_j and s is at least arccos(s+) - t. Rounding is met by a larger s+ and a
    smaller cos t; both make the bound larger.
    """
    length = sums.norm(dim=-1, keepdim=True)
    b = (norms * sink).sum(-1)[..., None, None]
    closeness = (g * (selected & sink.unsqueeze(-2))).sum(-1, keepdim=True)
    product = closeness + b.square() - slack * (b * (2 * length + b) + _UNDERFLOW)
    scale = 2 * b * length
    usable = (selected & sink.unsqueeze(-2)).any(-1, keepdim=True) & (scale > _UNDERFLOW)
    toward = (product / torch.where(usable, scale, 1)).clamp(-1, 1)
    high = (sink_high.nan_to_num(nan=1.0) + slack).clamp(-1, 1)
    cosine = high * toward + ((1 - high) * (1 + high) * (1 - toward) * (1 + toward)).sqrt()
    return torch.where(usable & (toward > high), cosine, 1)


def slack(head_dim: int, size: int) -> float:
    """Relative rounding allowance in float32 for vectors of ``head_dim`` components and at most ``size`` selected."""
    return (4 * head_dim + 2 * size + 32) * 2.0**-24


def pair_interval(units: Tensor, sink: Tensor, sizes: list[int]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Cosine intervals over the pairs that a certificate needs, each [..., sizes, 1].

    units: unit values in rank order [..., sources, head_dim]; sink: [..., sources] bool. Returns the least cosine
    of two selected sources, the largest of a selected and an unselected one, the least of the sink with a selected
    one, and the largest of the sink with a source on the other side of the cut. Pairs with a zero vector are left out.
    """
    real = units.square().sum(-1) > 0
    plain = real & ~sink
    sink_unit = (units * sink.unsqueeze(-1)).sum(-2, keepdim=True)
    with_sink = (units * sink_unit).sum(-1)
    has_sink = sink_unit.square().sum((-1, -2)) > 0
    rows = [_cut(units, plain, with_sink, has_sink, sink, size) for size in sizes]
    return tuple(torch.stack(column, dim=-1).unsqueeze(-1) for column in zip(*rows, strict=True))


def _cut(units, plain, with_sink, has_sink, sink, size) -> tuple[Tensor, ...]:
    """The four extremes for the set of the first ``size`` sources, each [...]."""
    inside, outside = units[..., :size, :], units[..., size:, :]
    within = inside @ inside.transpose(-1, -2)
    usable = plain[..., :size, None] & plain[..., None, :size]
    usable = usable & ~torch.eye(size, dtype=torch.bool, device=units.device)
    low = torch.where(usable, within, torch.inf).amin((-1, -2))
    across = outside @ inside.transpose(-1, -2)
    usable = plain[..., size:, None] & plain[..., None, :size]
    high = torch.where(usable, across, -torch.inf).amax((-1, -2))
    chosen = torch.arange(units.shape[-2], device=units.device) < size
    near = plain & has_sink[..., None]
    sink_low = torch.where(near & chosen, with_sink, torch.inf).amin(-1)
    sink_selected = sink[..., :size].any(-1, keepdim=True)
    sink_high = torch.where(near & (chosen != sink_selected), with_sink, -torch.inf).amax(-1)
    return tuple(torch.where(x.isinf(), torch.nan, x) for x in (low, high, sink_low, sink_high))


def _product_interval(low: Tensor, high: Tensor, norm_low: Tensor, norm_high: Tensor, power: int):
    """Interval of cosine times norms; an empty cosine interval gives 0."""
    low, high = low.nan_to_num(nan=0.0), high.nan_to_num(nan=0.0)
    small, large = norm_low**power, norm_high**power
    return low * torch.where(low >= 0, small, large), high * torch.where(high >= 0, large, small)
