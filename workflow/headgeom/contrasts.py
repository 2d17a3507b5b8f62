"""Paired differences and derived quantities that the paper's claims are about (spec, section 8).

Each is computed within every bootstrap replicate, so its interval is that of the difference itself, not of two numbers
that were measured on the same documents. Rows are (quantity, size or None, estimate).

- ``advantage``: mean F of the ranking by attention less that of random sets, pool ``all``, at each N >= 2;
- ``advantage_peak``: the N >= 2 with the largest advantage; ``peak_share``: the same over the window's length;
- ``competing``: mean F of the top N by attention without the sink, if the sink still competes, at each N >= 2;
- ``plateau``, ``recency``: mean attention at the first and at the last eighth of the positions (source 0 left out)
  over that at the middle half;
- ``dominance_<regime>``: share of heads in the regime less the largest share of another one;
- ``mixer_sink``: mean cos(z, v_0) of Mixer heads less that of Retriever heads; ``retriever_current``: mean cos(z, v_t)
  of Retriever heads less that of Mixer heads.
"""

import numpy as np
import xarray as xr

from . import statistics
from .statistics import Bootstrap, document_means
from .taxonomy import REGIMES


def advantage(attention: xr.DataArray, random: xr.DataArray, length: int, bootstrap: Bootstrap) -> list[tuple]:
    """F by attention and of random sets, both [document, layer, head, size]; length of the window."""
    sizes = [int(size) for size in attention["size"].values if size >= 2]
    if not sizes:
        return []
    means = [document_means(f.sel(size=sizes)).transpose("document", "size").values for f in (attention, random)]
    differences = means[0] - means[1]
    rows = [("advantage", size, bootstrap.mean(values)) for size, values in zip(sizes, differences.T, strict=True)]
    peak = bootstrap.argmax(differences, sizes)
    return [*rows, ("advantage_peak", None, peak), ("peak_share", None, [end / length for end in peak])]


def competing(fp: xr.DataArray, tp: xr.DataArray, bootstrap: Bootstrap) -> list[tuple]:
    """Of counts over document, layer, head and size; missing where the sink is hidden."""
    means = document_means(statistics.precision_recall_f(fp, tp, fp["size"])[2]).transpose("document", "size")
    sizes = (int(size) for size in fp["size"].values)
    return [("competing", n, bootstrap.mean(x)) for n, x in zip(sizes, means.values.T, strict=True) if n >= 2]


def phases(profile: xr.DataArray, length: int, bootstrap: Bootstrap) -> list[tuple]:
    """Mean attention by position, [document, layer, head, position_bin], in bins of equal width after source 0."""
    profile = document_means(profile).transpose("document", "position_bin")
    depth = profile["position_bin"].values / length
    middle = profile.values[:, (depth >= 0.25) & (depth < 0.75)].mean(1)
    parts = {"plateau": (depth > 0) & (depth < 0.125), "recency": depth >= 0.875}
    return [
        (name, None, bootstrap.ratio(profile.values[:, part].mean(1), middle))
        for name, part in parts.items()
        if part.any()
    ]


def dominance(regimes: np.ndarray, resampled: np.ndarray, bootstrap: Bootstrap) -> list[tuple]:
    """regimes: [layers, heads] indices; resampled: the same of each replicate, [replicates, layers, heads]."""
    rows = []
    shares, replicated = (
        np.stack([(r == i).mean((-2, -1)) for i in range(len(REGIMES))], -1) for r in (regimes, resampled)
    )
    for index, name in enumerate(REGIMES):
        margin, margins = (s[..., index] - np.delete(s, index, -1).max(-1) for s in (shares, replicated))
        rows.append((f"dominance_{name}", None, bootstrap.estimate(margin, margins)))
    return rows


def alignment(data: xr.Dataset, regimes: np.ndarray, bootstrap: Bootstrap) -> list[tuple]:
    """Contrasts of Mixers and Retrievers, from the cosines of ``data`` and the regimes [layers, heads]."""
    labels = xr.DataArray(regimes, dims=("layer", "head"))
    pairs = {
        "mixer_sink": ("output_sink_cosine", "mixer", "retriever"),
        "retriever_current": ("output_current_cosine", "retriever", "mixer"),
    }
    rows = []
    for name, (variable, first, second) in pairs.items():
        means = [document_means(data[variable].where(labels == REGIMES.index(regime))) for regime in (first, second)]
        rows.append((name, None, bootstrap.mean((means[0] - means[1]).values)))
    return rows
