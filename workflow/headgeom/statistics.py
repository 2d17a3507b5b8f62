"""Rates, aggregation and uncertainty (spec, section 3).

From the counts of one attention operation, with N selected sources,

    P = N / (N + FP)      R = TP / N      F = 2 P R / (P + R), and 0 where P + R = 0.

Means are taken in one order: random repeats within a head (done by the extraction), then heads and layers
within a document, then documents. Uncertainty is the percentile bootstrap over documents: a replicate draws
as many documents as there are, with replacement, so it is a row of counts that sum to their number. One
matrix of counts serves all quantities, and a replicate of all of them is a row of one matrix product.

Resampling repeats documents, so head means are noisier in a replicate than in the sample. A mean or a ratio of
means does not mind; a statistic of head means that noise shifts (a correlation over heads, a plurality) is shifted
in all replicates, and its value can lie outside its interval.
"""

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import xarray as xr

OPERATIONS = ("layer", "head")


class Estimate(NamedTuple):
    """A value and the limits of its interval, arrays of one shape; NaN where nothing was measured."""

    value: np.ndarray
    low: np.ndarray
    high: np.ndarray


def precision_recall_f(fp: xr.DataArray, tp: xr.DataArray, size: xr.DataArray) -> tuple[xr.DataArray, ...]:
    """P, R and F, float64, of counts that broadcast against the sizes N; NaN where a count is missing."""
    precision = (size / (size + fp.astype(float))).transpose(*fp.dims)
    recall = tp.astype(float) / size
    total = precision + recall
    f = (2 * precision * recall / total.where(total != 0, 1)).where(total.notnull())
    return precision, recall, f


def document_means(values: xr.DataArray, over: tuple[str, ...] = OPERATIONS) -> xr.DataArray:
    """Mean over operations within each document, float64; missing operations are left out."""
    return values.astype(float).mean(over, skipna=True)


def weighted_means(counts: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Means over documents, each taken as often as a row of ``counts`` says.

    counts: [replicates, documents]; values: [documents, ...], where NaN leaves the document out.
    Returns [replicates, ...], NaN where no document is left.
    """
    flat = values.reshape(len(values), -1)
    present = ~np.isnan(flat)
    sums = counts @ np.where(present, flat, 0.0)
    weights = counts @ present.astype(float)
    means = np.divide(sums, weights, out=np.full_like(sums, np.nan), where=weights > 0)
    return means.reshape(len(counts), *values.shape[1:])


def argmax_label(curves: np.ndarray, labels: Iterable[float]) -> np.ndarray:
    """Label of the largest value of each row, [..., labels] to [...]; NaN where two share it, or none is there."""
    known = np.nan_to_num(curves, nan=-np.inf)
    largest = known.max(-1, keepdims=True)
    single = ((known == largest).sum(-1) == 1) & np.isfinite(largest[..., 0])
    return np.where(single, np.asarray(list(labels), float)[known.argmax(-1)], np.nan)


@dataclass(frozen=True)
class Bootstrap:
    """Resampled documents, and the level of the intervals made from them.

    counts: [replicates, documents] float64, how often each replicate holds each document.
    """

    counts: np.ndarray
    confidence: float

    @classmethod
    def draw(cls, documents: int, *, seed: int, replicates: int, confidence: float) -> "Bootstrap":
        """Draw the replicates; the same arguments give the same ones."""
        drawn = np.random.default_rng(seed).integers(documents, size=(replicates, documents))
        drawn += documents * np.arange(replicates)[:, None]
        counts = np.bincount(drawn.ravel(), minlength=replicates * documents)
        return cls(counts.reshape(replicates, documents).astype(float), confidence)

    @property
    def every(self) -> np.ndarray:
        """Counts [1, documents] that take each document once: the sample itself."""
        return np.ones((1, self.counts.shape[1]))

    def estimate(self, value: np.ndarray, replicated: np.ndarray, method: str = "linear") -> Estimate:
        """The value [...] with the percentile interval of its replicates [replicates, ...].

        ``method`` is that of np.quantile: "nearest" where only values that occur make sense.

        NaN replicates are left out; where the value itself is NaN, so is its interval.
        """
        tail = (1 - self.confidence) / 2
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "All-NaN slice")
            low, high = np.nanquantile(replicated, (tail, 1 - tail), axis=0, method=method)
        value = np.asarray(value, float)
        return Estimate(value, *(np.where(np.isnan(value), np.nan, limit) for limit in (low, high)))

    def mean(self, values: np.ndarray) -> Estimate:
        """Mean over documents of values [documents, ...]."""
        return self.estimate(weighted_means(self.every, values)[0], weighted_means(self.counts, values))

    def argmax(self, values: np.ndarray, labels: Iterable[float]) -> Estimate:
        """Label of the largest mean over documents of values [documents, labels], by ``argmax_label``; the interval
        ends at labels."""
        labels = list(labels)
        best, bests = (argmax_label(weighted_means(counts, values), labels) for counts in (self.every, self.counts))
        return self.estimate(best[0], bests, "nearest")

    def ratio(self, numerator: np.ndarray, denominator: np.ndarray) -> Estimate:
        """Ratio of the means over documents, never the mean of ratios; NaN where the denominator's mean is 0.

        Both are [documents, ...]; a document counts where it has both.
        """
        both = ~np.isnan(numerator) & ~np.isnan(denominator)

        def ratios(counts: np.ndarray) -> np.ndarray:
            above, below = (weighted_means(counts, np.where(both, x, np.nan)) for x in (numerator, denominator))
            return np.divide(above, below, out=np.full_like(above, np.nan), where=below != 0)

        return self.estimate(ratios(self.every)[0], ratios(self.counts))

    def table(self, values: xr.DataArray, name: str = "mean"):
        """Means over documents as a data frame: the other dimensions' labels, ``name``, low and high.

        Rows are in the order of the labels, the last dimension running fastest.
        """
        values = values.transpose("document", ...)
        labels = {dim: values[dim].values for dim in values.dims[1:]}
        columns = zip((name, "low", "high"), self.mean(values.values), strict=True)
        data = xr.Dataset({column: (tuple(labels), array) for column, array in columns}, coords=labels)
        return data.to_dataframe(dim_order=list(labels)).reset_index()
