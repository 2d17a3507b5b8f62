"""Tables of separability, sink and value geometry of one model and corpus, from its geometry shards."""

import argparse
import logging
from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr

from .. import contrasts, first_version, provenance, statistics
from ..files import sha256
from ..measurements import RATES, read_shards, reference_distance
from ..statistics import Bootstrap, document_means
from ..table_files import depth_columns, labelled, quantity_table, write_table

logger = logging.getLogger(__name__)

SINK_QUANTITIES = (
    "norm_ratio", "norm_variation", "sink_alignment", "sink_negative_share", "sink_mass", "coherence_mean",
)  # fmt: skip
VARIABLES = (
    "fp", "tp", "inv", "competing_fp", "competing_tp", *(f"random_{rate}" for rate in RATES), "sources", "sink_rank",
    *SINK_QUANTITIES, "similarity", "attention_by_lag", "attention_by_position",
)  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the stage's options; settings: model, corpus, seed, replicates, confidence."""
    parser.add_argument("--geometry", type=Path, nargs="+", required=True, metavar="SHARD", help="all shards (NetCDF)")
    parser.add_argument("--output", type=Path, required=True, metavar="DIR", help="folder of the tables")


def run(options: argparse.Namespace) -> None:
    """Write each table as CSV, with its provenance."""
    settings = options.settings
    names = {"model": settings["model"], "corpus": settings["corpus"]}
    data, sources = read_shards(options.geometry, VARIABLES, **names)
    bootstrap = Bootstrap.draw(
        data.sizes["document"], **{key: settings[key] for key in ("seed", "replicates", "confidence")}
    )
    inputs = {path.name: sha256(path) for path in options.geometry}
    record = provenance.record("metrics", settings, sources=sources, inputs=inputs)
    for name, frame in tables(data, bootstrap).items():
        write_table(options.output, name, labelled(frame, **names), record)
    logger.info("%(model)s, %(corpus)s: %(n)d documents", {**names, "n": data.sizes["document"]})


def tables(data: xr.Dataset, bootstrap: Bootstrap) -> dict[str, pd.DataFrame]:
    """All tables of this stage, without the columns model and corpus."""
    precision, recall, f = statistics.precision_recall_f(data["fp"], data["tp"], data["size"])
    return {
        "separability": separability(data, {"precision": precision, "recall": recall, "f": f}, bootstrap),
        "sink_effect": sink_effect(data, f, bootstrap),
        "sink_geometry": sink_geometry(data, bootstrap),
        "sink_heads": sink_heads(data),
        "depth": depth(data, f, bootstrap),
        "similarity": bootstrap.table(document_means(data["similarity"])),
        "attention_profile": attention_profile(data, bootstrap),
        "first_version": first_version_claims(data, recall, bootstrap),
        "contrasts": contrasts_of(data, f, bootstrap),
    }


def contrasts_of(data: xr.Dataset, f: xr.DataArray, bootstrap: Bootstrap) -> pd.DataFrame:
    """What attention gains over chance, and the phases of attention by position."""
    place = {"pool": "all", "distance": reference_distance(data), "drop": True}
    attention, random = f.sel(ranking="attention", **place), data["random_f"].sel(**place)
    length = data.attrs["length"]
    rows = contrasts.advantage(attention, random, length, bootstrap)
    rows += contrasts.competing(*(data[f"competing_{x}"].sel(ranking="attention") for x in ("fp", "tp")), bootstrap)
    return quantity_table(rows + contrasts.phases(data["attention_by_position"], length, bootstrap))


def separability(data: xr.Dataset, rates: dict[str, xr.DataArray], bootstrap: Bootstrap) -> pd.DataFrame:
    """P, R and F of the scored and the random rankings; ``documents`` counts those with the size."""
    metric = pd.Index(RATES, name="metric")
    scored = xr.concat([document_means(rates[rate]) for rate in RATES], metric)
    random = xr.concat([document_means(data[f"random_{rate}"]) for rate in RATES], metric)
    values = xr.concat([scored, random.expand_dims(ranking=["random"])], "ranking")
    values = values.transpose("document", "distance", "pool", "ranking", "size", "metric")
    frame = bootstrap.table(values)
    return frame.assign(documents=values.notnull().sum("document").values.ravel())


def sink_effect(data: xr.Dataset, f: xr.DataArray, bootstrap: Bootstrap) -> pd.DataFrame:
    """Mean F without the sink over mean F with it, over the same operations: all that see the sink and have the
    size in both pools, and those of them whose top N holds the sink. ``share`` is of all operations."""
    without, with_sink = f.sel(pool="no_sink", drop=True), f.sel(pool="all", drop=True)
    rank = data["sink_rank"]
    counted = without.notnull() & with_sink.notnull() & rank.notnull()
    chosen = {"all": counted, "sink_selected": counted & (rank < data["size"])}
    frames = []
    for operations, mask in chosen.items():
        mask = mask.transpose(*without.dims)
        means = [document_means(pool.where(mask)) for pool in (without, with_sink)]
        estimate = bootstrap.ratio(*(mean.values for mean in means))
        shares = mask.mean(("document", *statistics.OPERATIONS))
        columns = dict(zip(("ratio", "low", "high", "share"), (*estimate, shares.values), strict=True))
        frame = xr.Dataset({key: (shares.dims, value) for key, value in columns.items()}, shares.coords)
        frame = frame.expand_dims(operations=[operations])
        frames.append(frame)
    return xr.concat(frames, "operations").to_dataframe(dim_order=[*shares.dims, "operations"]).reset_index()


def sink_geometry(data: xr.Dataset, bootstrap: Bootstrap) -> pd.DataFrame:
    """Means of the sink and value quantities."""
    quantities = xr.concat(
        [document_means(data[name]) for name in SINK_QUANTITIES], pd.Index(SINK_QUANTITIES, name="quantity")
    )
    return bootstrap.table(quantities)


def sink_heads(data: xr.Dataset) -> pd.DataFrame:
    """Each head's means over documents."""
    means = data[list(SINK_QUANTITIES)].astype(float).mean("document", skipna=True)
    return means.to_dataframe(dim_order=["layer", "head"]).reset_index()[["layer", "head", *SINK_QUANTITIES]]


def depth(data: xr.Dataset, f: xr.DataArray, bootstrap: Bootstrap) -> pd.DataFrame:
    """F (ranking ``attention``) of both pools at every size, and the sink's mass, by layer."""
    f = document_means(f.sel(ranking="attention", distance=reference_distance(data), drop=True), ("head",))
    frames = [
        bootstrap.table(f.sel(pool=pool, drop=True).transpose("document", "layer", "size")).assign(quantity=f"f_{pool}")
        for pool in ("all", "no_sink")
    ]
    frames.append(bootstrap.table(document_means(data["sink_mass"], ("head",))).assign(quantity="sink_mass"))
    return depth_columns(pd.concat(frames, ignore_index=True), data["layer"].values)


def attention_profile(data: xr.Dataset, bootstrap: Bootstrap) -> pd.DataFrame:
    """Mean attention weight by distance and by position; the last bin ends with the window."""
    frames = []
    for axis, bins in (("lag", "lag_bin"), ("position", "position_bin")):
        ends = dict(zip(data[bins].values, [*data[bins].values[1:], data.attrs["length"]], strict=True))
        frame = bootstrap.table(document_means(data[f"attention_by_{axis}"])).rename(columns={bins: "start"})
        frames.append(frame.assign(axis=axis, end=frame["start"].map(ends)))
    return pd.concat(frames, ignore_index=True)[["axis", "start", "end", "mean", "low", "high"]]


def first_version_claims(data: xr.Dataset, recall: xr.DataArray, bootstrap: Bootstrap) -> pd.DataFrame:
    """The decay of similarity with distance, and the correlation of sink alignment with recall over heads."""
    rows = decay_rows(document_means(data["similarity"]), bootstrap)
    recall = recall.sel(ranking="attention", pool="all", distance=reference_distance(data), drop=True)
    alignment = data["sink_alignment"].transpose("document", ...).values.reshape(data.sizes["document"], -1)

    def correlations(counts: np.ndarray, size: int) -> np.ndarray:
        recalls = recall.sel(size=size).transpose("document", ...).values.reshape(alignment.shape)
        means = (statistics.weighted_means(counts, values.astype(float)) for values in (alignment, recalls))
        return first_version.correlation(*means)

    for size in (int(n) for n in data["size"].values if n >= 2):
        value = correlations(bootstrap.every, size)[0]
        estimate = bootstrap.estimate(value, correlations(bootstrap.counts, size))
        rows.append(("recall_correlation", size, estimate))
    return quantity_table(rows)


def decay_rows(similarity: xr.DataArray, bootstrap: Bootstrap) -> list[tuple]:
    """Fit and minimum of the mean profile; similarity: document, lag."""
    lags = similarity["lag"].values.astype(float)
    values = similarity.transpose("document", "lag").values
    profile, profiles = (statistics.weighted_means(counts, values) for counts in (bootstrap.every, bootstrap.counts))
    fit, fits = first_version.fit_decay(profile, lags), first_version.fit_decay(profiles, lags)
    if np.isnan(fit[1][0]):
        logger.warning("no exponential decay fits the mean similarity by lag: %s", profile[0])
    elif lost := int(np.isnan(fits[1]).sum()):
        logger.warning("no exponential decay fits %d of %d bootstrap replicates", lost, len(profiles))
    fit, fits = ([*found, found[2] / found[0]] for found in (fit, fits))
    quantities = zip(("decay_amplitude", "decay_length", "decay_mae", "decay_error"), fit, fits, strict=True)
    rows = [(name, None, bootstrap.estimate(value[0], spread)) for name, value, spread in quantities]
    smallest = (np.fmin.reduce(values, axis=-1) for values in (profile, profiles))
    value, spread = smallest
    return [*rows, ("similarity_minimum", None, bootstrap.estimate(value[0], spread))]
