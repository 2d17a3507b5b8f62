"""Geometry of the value states and of the sink, source 0 (spec, section 4).

All of it belongs to a key/value head; ``geometry`` repeats it for the query heads that read it.
"""

import torch
from torch import Tensor

QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
_BINS = 2048


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

    The extremes are exact (over non-zero vectors); quantiles between come from a histogram of 2048 bins.
    """
    flat = units.reshape(-1, *units.shape[-2:])
    pairs = torch.stack([_pair_quantiles(head) for head in flat])
    n = units.shape[-2]
    squares = units.square().sum((-1, -2))
    mean = (units.sum(-2).square().sum(-1) - squares) / (n * (n - 1))
    return {"coherence": pairs.reshape(*units.shape[:-2], -1), "coherence_mean": mean}


def similarity_by_lag(units: Tensor, steps: list[int]) -> Tensor:
    """Mean cos(v_i, v_{i+lag}), [..., lag], from unit values [..., sources, head_dim]; NaN where no pair is left."""
    n = units.shape[-2]
    means = [(units[..., lag:, :] * units[..., : max(n - lag, 0), :]).sum(-1).mean(-1) for lag in steps]
    return torch.stack(means, dim=-1)


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


def _pair_quantiles(units: Tensor) -> Tensor:
    """Quantiles [quantile] for one head's unit values [sources, head_dim]."""
    gram = units @ units.T
    counts = torch.histc(gram.clamp_(-1, 1).fill_diagonal_(2), bins=_BINS, min=-1, max=1)
    zero = units.square().sum(-1) == 0
    if zero.any():
        gram[zero] = gram[:, zero] = 2
        gram.fill_diagonal_(2)
    low = gram.amin()
    high = torch.where(gram > 1, -torch.inf, gram).amax()
    low, high = (torch.nan, torch.nan) if high.isinf() else (low.item(), high.item())
    cumulative = counts.double().cumsum(0)
    targets = torch.tensor(QUANTILES[1:-1], dtype=torch.float64, device=units.device) * cumulative[-1]
    index = torch.searchsorted(cumulative, targets)
    below = cumulative[index] - counts[index]
    inner = -1 + (index + (targets - below) / counts[index]) * (2 / _BINS)
    return torch.cat((inner.new_tensor([low]), inner, inner.new_tensor([high]))).float()
