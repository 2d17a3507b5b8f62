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

where the last term is for products that underflow. This is the only tolerance: counts are compared exactly. The
selected-side levels take L = g as it was measured and need neither the term in N nor the sum, but ||s||.
"""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

CERTIFICATES = ("interval", "per_token", "pairs", "selected", "selected_sink")
LEVELS = (*CERTIFICATES, "constant_norm")

_UNDERFLOW = 2.0**-107
"""Times any ``slack`` at least 2^-126, the smallest normal number of float32."""


@dataclass(frozen=True)
class Interval:
    """What is known of norms and cosines; each is a Tensor that broadcasts against [..., sets, 1].

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

    @cached_property
    def products(self) -> tuple[Tensor, Tensor]:
        """Ends lowC, highC of <v_i, v_j>, i, j >= 1."""
        return _product_interval(self.cosine_low, self.cosine_high, self.norm_low, self.norm_high, power=2)

    @cached_property
    def sink(self) -> tuple[Tensor, Tensor, Tensor]:
        """Ends lowS, highS of <v_0, v_j>, and ||v_0||; zeros for a hidden sink."""
        low, high = _product_interval(self.sink_low, self.sink_high, self.norm_low, self.norm_high, power=1)
        norm = self.norm_sink.nan_to_num(nan=0.0)
        return norm * low, norm * high, norm


def lower_bounds(
    weights: Tensor, at_sink: Tensor, others: Tensor, sink_weight: Tensor, known: Interval, slack: float | Tensor
) -> Tensor:
    """L of the selected sources, [..., sets, N].

    weights, at_sink: [..., sets, N], the sources' weights and whether each is the sink; others, sink_weight:
    [..., sets, 1], the weight of the selected sources other than the sink, and that of the sink if it is selected.
    With weights a_j ||v_j|| and all norms 1 the bounds are those of ``per_token``.
    """
    low, (sink_low, _, norm_sink) = known.products[0], known.sink
    norm = torch.where(at_sink, norm_sink, known.norm_high)
    square = weights * torch.where(at_sink, norm_sink, known.norm_low).square()
    cross = torch.where(at_sink, others * sink_low, (others - weights).clamp(min=0) * low + sink_weight * sink_low)
    size = norm * (weights * norm + 2 * (others * known.norm_high + sink_weight * norm_sink))
    return weights * (square + 2 * cross) - slack * (weights * size + _UNDERFLOW)


def upper_terms(others: Tensor, sink_weight: Tensor, known: Interval, slack: float | Tensor) -> Tensor:
    """p, q and, of the sink, p_0, q_0, for ``upper_bounds``, [4, ..., sets, 1]; arguments as in ``lower_bounds``."""
    high, (_, sink_high, norm_sink) = known.products[1], known.sink
    size = known.norm_high * others + norm_sink * sink_weight
    linear = others * high + sink_weight * sink_high + slack * known.norm_high * size
    square = slack * known.norm_high.square() - known.norm_low.square()
    sink_linear = others * (sink_high + slack * norm_sink * known.norm_high)
    return _terms(2 * linear, square, 2 * sink_linear, (slack - 1) * norm_sink.square())


def upper_bounds(weights: Tensor, terms: Tensor, slack: float | Tensor, has_sink: bool) -> Tensor:
    """U of all sources (it holds for those not selected), [..., sets, sources]: a_j (p + q a_j) and the allowance.

    weights: [..., 1, sources]. The sink, if there is one, is source 0, with p_0 and q_0 in the place of p and q.
    """
    linear, square, sink_linear, sink_square = terms
    upper = torch.addcmul(linear, square, weights).mul_(weights)
    if has_sink:
        weight = weights[..., :1]
        upper[..., :1] = weight * (sink_linear + sink_square * weight)
    return upper.add_(slack * _UNDERFLOW)


def selected_upper_terms(length: Tensor, reach: Tensor | float, slack: float) -> Tensor:
    """As ``upper_terms``, with contribution norms b_j as weights; ``reach`` is 1, or that of ``sink_reach``.

    length: [..., sets, 1], ||s||. L is the measured g itself.

    By Cauchy and Schwarz <y_j, s> <= b_j ||s||, and from norms alone nothing better can be said: y_j may point along s.
    """
    linear, square = 2 * length * (reach + slack), torch.full_like(length, slack - 1)
    return _terms(linear, square, linear, square)


def sink_reach(g: Tensor, at_sink: Tensor, length: Tensor, b: Tensor, sink_high: Tensor, slack: float) -> Tensor:
    """Upper bound of cos(v_j, s) of unselected j, [..., sets, 1]; 1 where the sink is not selected.

    g, at_sink, b: [..., sets, N], of the selected sources; sink_high: s+, broadcasts against [..., sets, 1]. With
    t the angle of v_0 and s, the angle of v_j and s is at least arccos(s+) - t. Rounding is met by a larger s+ and a
    smaller cos t; both make the bound larger.
    """
    b = torch.where(at_sink, b, 0).sum(-1, keepdim=True)
    closeness = torch.where(at_sink, g, 0).sum(-1, keepdim=True)
    product = closeness + b.square() - slack * (b * (2 * length + b) + _UNDERFLOW)
    scale = 2 * b * length
    usable = at_sink.any(-1, keepdim=True) & (scale > _UNDERFLOW)
    toward = (product / torch.where(usable, scale, 1)).clamp(-1, 1)
    high = (sink_high.nan_to_num(nan=1.0) + slack).clamp(-1, 1)
    cosine = high * toward + ((1 - high) * (1 + high) * (1 - toward) * (1 + toward)).sqrt()
    return torch.where(usable & (toward > high), cosine, 1)


def slack(head_dim: int, size: int) -> float:
    """Relative rounding allowance in float32 for vectors of ``head_dim`` components and sums of ``size`` of them."""
    return (4 * head_dim + 2 * size + 32) * 2.0**-24


def pair_interval(units: Tensor, sink: Tensor, index: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Cosine intervals over the pairs that a certificate needs, each [..., sets, 1].

    units: unit values [..., 1, sources, head_dim]; sink: [sources] bool, true at source 0 if it is the sink; index:
    [..., sets, N], the selected sources. Returns the least cosine of two selected sources, the largest of a selected
    and an unselected one, the least of the sink with a selected one, and the largest of the sink with a source on the
    other side of the cut. Pairs with a zero vector are left out.
    """
    real = units.square().sum(-1) > 0
    plain = (real & ~sink).expand(*index.shape[:-1], -1)
    chosen = torch.zeros_like(plain).scatter_(-1, index, True)
    inside = units.expand(*index.shape[:-1], -1, -1).gather(
        -2, index.unsqueeze(-1).expand(*index.shape, units.shape[-1])
    )
    cosines = inside @ units.transpose(-1, -2)
    usable = plain.gather(-1, index).unsqueeze(-1)
    itself = index.unsqueeze(-1) == torch.arange(units.shape[-2], device=units.device)
    within = usable & (plain & chosen).unsqueeze(-2) & ~itself
    across = usable & (plain & ~chosen).unsqueeze(-2)
    with_sink = units @ units[..., :1, :].transpose(-1, -2)
    near = plain & (real & sink).any(-1, keepdim=True)
    other_side = near & (chosen != (chosen & sink).any(-1, keepdim=True))
    ends = (
        torch.where(within, cosines, torch.inf).amin((-1, -2)),
        torch.where(across, cosines, -torch.inf).amax((-1, -2)),
        torch.where(near & chosen, with_sink.squeeze(-1), torch.inf).amin(-1),
        torch.where(other_side, with_sink.squeeze(-1), -torch.inf).amax(-1),
    )
    return tuple(torch.where(x.isinf(), torch.nan, x).unsqueeze(-1) for x in ends)


def _terms(*terms: Tensor) -> Tensor:
    return torch.stack(torch.broadcast_tensors(*terms))


def _product_interval(low: Tensor, high: Tensor, norm_low: Tensor, norm_high: Tensor, power: int):
    """Interval of cosine times norms; an empty cosine interval gives 0."""
    low, high = low.nan_to_num(nan=0.0), high.nan_to_num(nan=0.0)
    small, large = norm_low**power, norm_high**power
    return low * torch.where(low >= 0, small, large), high * torch.where(high >= 0, large, small)
