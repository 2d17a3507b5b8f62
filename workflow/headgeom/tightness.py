"""Certificates held against the measurement: violations, tightness, prediction (spec, section 5).

A certificate bounds FP from above and TP from below. The inversion bound is P >= N / (N + INV) and
R >= max(0, 1 - INV / N), that is FP <= INV and TP >= N - INV. ``constant_norm`` is a prediction, and may fail.
"""

import numpy as np
import pandas as pd
import xarray as xr

from . import statistics
from .errors import UserError
from .statistics import Bootstrap, document_means
from .table_files import labelled, quantity_table

PREDICTION = "constant_norm"

_FLAT = 1e-20
"""Variance of F, which is at most 1, below which it is the same everywhere but for rounding."""


def levels(data: xr.Dataset) -> tuple[xr.DataArray, xr.DataArray]:
    """FP and TP by level, ``measured`` and ``inversion`` before the certificates; euclidean distance."""
    fp, tp, inv = (data[name].sel(distance="euclidean", drop=True) for name in ("fp", "tp", "inv"))
    label = xr.DataArray(["measured", "inversion"], dims="certificate", name="certificate")
    bound_tp = (data["size"] - inv).clip(min=0).where(inv.notnull()).transpose(*inv.dims)
    return (
        xr.concat([xr.concat([fp, inv], label), data["certified_fp"]], "certificate"),
        xr.concat([xr.concat([tp, bound_tp], label), data["certified_tp"]], "certificate"),
    )


def violations(fp: xr.DataArray, tp: xr.DataArray) -> xr.DataArray:
    """Where a bound is on the wrong side of the measurement: bool, with the bounds' levels."""
    bounds = [name for name in fp["certificate"].values if name not in ("measured", PREDICTION)]
    measured_fp, measured_tp = (x.sel(certificate="measured", drop=True) for x in (fp, tp))
    # A missing bound (NaN) compares as false.
    return (fp.sel(certificate=bounds) < measured_fp) | (tp.sel(certificate=bounds) > measured_tp)


def require_none(broken: xr.DataArray, where: str) -> None:
    """Raise with the addresses of the first violations, if there is any."""
    count = int(broken.sum())
    if count:
        first = np.argwhere(broken.values)[:5]
        addresses = "; ".join(
            ", ".join(
                f"{'N' if dim == 'size' else dim} {broken[dim].values[k]}"
                for dim, k in zip(broken.dims, index, strict=True)
            )
            for index in first
        )
        raise UserError(f"{where}: {count} violations of a certificate, which is a defect; the first: {addresses}")


def curves(rates: dict[str, xr.DataArray], inv: xr.DataArray, bootstrap: Bootstrap) -> pd.DataFrame:
    """Mean P, R and F of every level by ranking, pool and N, and the share of operations with a positive margin.

    ``documents`` counts those that have the level: the costly one is there for some only.
    """
    metric = xr.DataArray(list(rates), dims="metric", name="metric")
    means = xr.concat([document_means(rate) for rate in rates.values()], metric)
    means = means.transpose("document", "certificate", "ranking", "pool", "size", "metric")
    frame = bootstrap.table(means).assign(documents=means.notnull().sum("document").values.ravel())
    positive = document_means((inv == 0).where(inv.notnull())).transpose("document", "ranking", "pool", "size")
    margin = bootstrap.table(positive).assign(certificate="measured", metric="margin_positive")
    margin["documents"] = positive.notnull().sum("document").values.ravel()
    return pd.concat([frame, margin[frame.columns]], ignore_index=True)


def tightness(f: xr.DataArray, regimes: xr.DataArray, sink_rank: xr.DataArray, bootstrap: Bootstrap) -> pd.DataFrame:
    """Mean bound of F over mean measured F, of all operations and by layer, regime, and whether S holds the sink.

    f: with dimension certificate; regimes: layer, head; sink_rank: document, layer, head, ranking.
    """
    bound, measured = f.drop_sel(certificate="measured"), f.sel(certificate="measured", drop=True)
    measured = measured.where(bound.notnull())
    holds = (sink_rank < f["size"]).where(sink_rank.notnull())
    groups = [("all", "all", None)]
    groups += [("layer", str(layer), f["layer"] == layer) for layer in f["layer"].values]
    groups += [("regime", name, regimes == name) for name in ("retriever", "mixer", "reset")]
    groups += [("sink", "selected", holds == 1), ("sink", "not selected", holds == 0)]
    frames = []
    for by, group, mask in groups:
        pair = [x if mask is None else x.where(mask) for x in (bound, measured)]
        above, below = (document_means(x).transpose("document", "certificate", "ranking", "pool", "size") for x in pair)
        columns = dict(zip(("ratio", "low", "high"), bootstrap.ratio(above.values, below.values), strict=True))
        labels = {dim: above[dim].values for dim in above.dims[1:]}
        frame = xr.Dataset({name: (tuple(labels), x) for name, x in columns.items()}, labels).to_dataframe()
        frames.append(frame.reset_index().assign(by=by, group=group))
    return pd.concat(frames, ignore_index=True)


def prediction(rates: dict[str, xr.DataArray], bootstrap: Bootstrap) -> pd.DataFrame:
    """How well the constant-norm prediction does, by ranking and pool.

    ``correlation``: Pearson, of predicted with measured F over operations at one N; ``coverage``: share of
    operations on which predicted P and R are both at most the measured; ``argmax_measured`` and
    ``argmax_predicted``: N >= 2 with the largest mean F (size is empty), NaN where several share it.
    """
    frames = []
    for ranking in rates["f"]["ranking"].values:
        for pool in rates["f"]["pool"].values:
            place = {"ranking": ranking, "pool": pool}
            chosen = {name: rate.sel(place) for name, rate in rates.items()}
            frames.append(labelled(quantity_table(_prediction_rows(chosen, bootstrap)), **place))
    return pd.concat(frames, ignore_index=True)


def _prediction_rows(rates: dict[str, xr.DataArray], bootstrap: Bootstrap) -> list[tuple]:
    predicted = {name: rate.sel(certificate=PREDICTION) for name, rate in rates.items()}
    measured = {name: rate.sel(certificate="measured") for name, rate in rates.items()}
    sizes = [int(size) for size in measured["f"]["size"].values if size >= 2]
    below = (predicted["precision"] <= measured["precision"]) & (predicted["recall"] <= measured["recall"])
    below = document_means(below.where(measured["f"].notnull()))
    rows = []
    for size in sizes:
        estimate = _correlation(predicted["f"].sel(size=size), measured["f"].sel(size=size), bootstrap)
        rows.append(("correlation", size, estimate))
        rows.append(("coverage", size, bootstrap.mean(below.sel(size=size).values)))
    for name, rate in (("argmax_measured", measured["f"]), ("argmax_predicted", predicted["f"])):
        means = document_means(rate.sel(size=sizes)).transpose("document", "size").values
        if sizes:
            rows.append((name, None, bootstrap.argmax(means, sizes)))
    return rows


def _correlation(first: xr.DataArray, second: xr.DataArray, bootstrap: Bootstrap) -> statistics.Estimate:
    """Pearson correlation over operations, each replicate from the moments of its documents."""
    x, y = (a.transpose("document", "layer", "head").values.reshape(a.sizes["document"], -1) for a in (first, second))
    both = ~np.isnan(x) & ~np.isnan(y)
    # Centred first, so that the differences of moments below do not cancel.
    x, y = (np.where(both, a - np.mean(a, where=both), 0.0) for a in (x, y))
    moments = np.stack([m.sum(1) for m in (both.astype(float), x, y, x * x, y * y, x * y)], axis=1)

    def correlation(counts: np.ndarray) -> np.ndarray:
        n, sx, sy, sxx, syy, sxy = (counts @ moments).T
        spread = [np.maximum(n * ss - s**2, 0) for s, ss in ((sx, sxx), (sy, syy))]
        varied = (spread[0] > _FLAT * n**2) & (spread[1] > _FLAT * n**2)
        scale = np.sqrt(spread[0] * spread[1])
        return np.divide(n * sxy - sx * sy, scale, out=np.full_like(scale, np.nan), where=varied)

    return bootstrap.estimate(correlation(bootstrap.every)[0], correlation(bootstrap.counts))
