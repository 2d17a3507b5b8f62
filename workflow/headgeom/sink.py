"""Geometry of the value states and of the sink, source 0 (spec, section 4).

All of it belongs to a key/value head; ``geometry`` repeats it for the query heads that read it.
"""

import torch
from torch import Tensor

QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
_BINS = 2048
_ROWS, _BLOCK = 64, 1 << 18
"""Cosines are computed for so many sources at once, and for as many heads as make a block of 1 MB in float32."""


def lags(sources: int) -> list[int]:
    """Powers of two that leave at least one pair among the sources 1, 2, ..."""
    return [1 << k for k in range(sources.bit_length()) if (1 << k) < sources - 1]


def norm_quantities(norms: Tensor, sink_visible: bool) -> dict[str, Tensor]:
    """Norm statistics, each [...], from the norms [..., visible sources]; the sink is the first if visible."""
    others = norms[..., 1:] if sink_visible else norms
    mean = others.mean(-1)
    sink = norms[..., 0] if sink_visible else torch.full_like(mean, torch.nan)
    divisor = torch.where(sink > 0, sink, torch.nan)
    return {
        "sink_norm": sink,
        "norm_ratio": _median(others) / divisor,
        "norm_variation": others.std(-1, correction=0) / mean,
        "norm_min": others.amin(-1),
        "norm_max": others.amax(-1),
        "norm_mean": mean,
    }


def sink_quantities(units: Tensor) -> dict[str, Tensor]:
    """Cosines of the sink with the other sources, each [...], from unit values [..., sources, head_dim].

    NaN where v_0 is zero.
    """
    cosines = (units[..., 1:, :] @ units[..., :1, :].transpose(-1, -2)).squeeze(-1)
    absent = (units[..., :1, :].square().sum(-1) == 0).expand_as(cosines)
    cosines = torch.where(absent, torch.nan, cosines)
    low, high = _extremes(cosines, units[..., 1:, :])
    return {
        "sink_alignment": cosines.mean(-1),
        "sink_negative_share": torch.where(absent, torch.nan, (cosines < 0).float()).mean(-1),
        "sink_cosine_min": low,
        "sink_cosine_max": high,
    }


def coherence(units: Tensor) -> dict[str, Tensor]:
    """Quantiles [..., quantile] and mean [...] of pairwise cosines of unit values [..., sources, head_dim].

    The extremes are exact (over non-zero vectors); quantiles between come from a histogram of 2048 bins. Each pair is
    taken once, in blocks of rows, so memory does not grow with the square of the sources.
    """
    flat = units.reshape(-1, *units.shape[-2:])
    n = flat.shape[1]
    heads = max(1, _BLOCK // (_ROWS * n))
    low, high, counts = map(torch.cat, zip(*(_extremes_and_histogram(part) for part in flat.split(heads)), strict=True))
    squares = units.square().sum((-1, -2))
    mean = (units.sum(-2).square().sum(-1) - squares) / (n * (n - 1))
    quantiles = torch.cat((low[:, None], _histogram_quantiles(counts), high[:, None]), dim=-1)
    return {"coherence": quantiles.reshape(*units.shape[:-2], -1), "coherence_mean": mean}


def similarity_by_lag(units: Tensor, steps: list[int]) -> Tensor:
    """Mean cos(v_i, v_{i+lag}), [..., lag], from unit values [..., sources, head_dim]; NaN where no pair is left."""
    n, d = units.shape[-2:]
    flat = units.flatten(-2)
    sums = [
        torch.linalg.vecdot(flat[..., lag * d :], flat[..., : max(n - lag, 0) * d]) / max(n - lag, 0) for lag in steps
    ]
    return torch.stack(sums, dim=-1)


def unit(values: Tensor, norms: Tensor) -> Tensor:
    """Values over their norms; a zero vector stays zero."""
    return values / torch.where(norms > 0, norms, 1.0).unsqueeze(-1)


def _median(x: Tensor) -> Tensor:
    """Median over the last dimension, the mean of the middle two of an even number (torch takes the lower)."""
    ordered = x.sort(-1).values
    n = x.shape[-1]
    return (ordered[..., (n - 1) // 2] + ordered[..., n // 2]) / 2


def _extremes(cosines: Tensor, units: Tensor) -> tuple[Tensor, Tensor]:
    """Least and largest cosine over non-zero vectors; NaN where there is none."""
    real = units.square().sum(-1) > 0
    low = torch.where(real, cosines, torch.inf).amin(-1)
    high = torch.where(real, cosines, -torch.inf).amax(-1)
    return torch.where(low.isinf(), torch.nan, low), torch.where(high.isinf(), torch.nan, high)


def _extremes_and_histogram(units: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Least and largest cosine, [head], and histogram [head, bins] of all pairs of units [head, sources, head_dim]."""
    absent = units.square().sum(-1) == 0
    absent = absent if absent.any() else None
    blocks = [_pairs_from(units, absent, start) for start in range(0, units.shape[1], _ROWS)]
    low, high, counts = map(torch.stack, zip(*blocks, strict=True))
    low, high = low.amin(0), high.amax(0)
    return *(torch.where(high < low, torch.nan, x.clamp(-1, 1)) for x in (low, high)), counts.sum(0)


def _pairs_from(units: Tensor, absent: Tensor | None, start: int) -> tuple[Tensor, Tensor, Tensor]:
    """``_extremes_and_histogram`` of the pairs (i, j) with i among the _ROWS sources from ``start`` on, and j > i.

    absent: [head, sources], true at zero vectors, which have no part in the extremes.
    """
    cosines = units[:, start : start + _ROWS] @ units[:, start:].transpose(-1, -2)
    here = cosines.shape[1]
    seen = torch.ones(here, here, dtype=torch.bool, device=units.device).tril()
    ends = []
    for beyond, extreme in ((-2.0, Tensor.amax), (2.0, Tensor.amin)):
        cosines[..., :here].masked_fill_(seen, beyond)
        valid = cosines
        if absent is not None:
            pairs = absent[:, start : start + _ROWS, None] | absent[:, None, start:]
            valid = cosines.masked_fill(pairs, beyond)
        ends.append(extreme(valid, (1, 2)))
    places = 3 * _BINS // 2 + 1  # room for 2, where ``seen`` is
    bins = cosines.add_(1).mul_(_BINS / 2).int()
    bins += places * torch.arange(len(bins), dtype=torch.int32, device=bins.device)[:, None, None]
    counts = torch.bincount(bins.flatten(), minlength=places * len(bins)).reshape(len(bins), places)
    counts[:, _BINS - 1] += counts[:, _BINS]  # rounded to 1 or above
    return ends[1], ends[0], counts[:, :_BINS]


def _histogram_quantiles(counts: Tensor) -> Tensor:
    """Inner quantiles [head, quantile] from histograms [head, bins] over -1 to 1, linear within a bin."""
    cumulative = counts.cumsum(-1).double()
    targets = torch.tensor(QUANTILES[1:-1], dtype=torch.float64, device=counts.device) * cumulative[:, -1:]
    index = torch.searchsorted(cumulative, targets)
    inside = counts.gather(-1, index)
    below = cumulative.gather(-1, index) - inside
    return (-1 + (index + (targets - below) / inside) * (2 / _BINS)).float()
