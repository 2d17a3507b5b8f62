"""A synthetic geometry Dataset with the variables of docs/results.md: plausible in shape, meaningless in value."""

import json
from pathlib import Path

import numpy as np
import xarray as xr

SIZES = (1, 2, 4, 8, 12)
LENGTH, WINDOW, QUERIES = 16, 10, 5
CERTIFICATES = ("interval", "per_token", "pairs", "selected", "selected_sink", "constant_norm")
QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
_COUNTS = ("document", "layer", "head", "distance", "ranking", "pool", "size")
_HEADS = ("document", "layer", "head")


def geometry(
    documents: int = 5,
    layers: int = 3,
    heads: int = 4,
    distances: tuple[str, ...] = ("euclidean", "cosine"),
    sizes: tuple[int, ...] = SIZES,
    length: int = LENGTH,
    hidden: tuple[int, ...] = (1,),
    window: int = WINDOW,
    seed: int = 0,
) -> xr.Dataset:
    """Documents in hashed order; the layers ``hidden`` see only the last ``window`` sources, and not the sink."""
    random = np.random.default_rng(seed)
    coordinates = {
        "document": [f"doc-{i}" for i in random.permutation(documents)],
        "order": ("document", np.arange(documents, dtype=np.int32)),
        "layer": np.arange(layers, dtype=np.int32),
        "head": np.arange(heads, dtype=np.int32),
        "distance": list(distances),
        "ranking": ["attention", "contribution"],
        "pool": ["all", "no_sink"],
        "size": np.array(sizes, dtype=np.int32),
        "regime": ["retriever", "mixer", "reset"],
        "certificate": list(CERTIFICATES),
        "quantile": list(QUANTILES),
        "lag": np.array([lag for lag in 2 ** np.arange(20) if lag < length - 1], dtype=np.int32),
        "lag_bin": np.array([0, *(edge for edge in 2 ** np.arange(20) if edge < length)], dtype=np.int32),
        "position_bin": np.array([0, 1, length // 2], dtype=np.int32),
    }
    shape = {name: len(c[1] if isinstance(c, tuple) else c) for name, c in coordinates.items()}
    sinkless = np.isin(np.arange(layers), hidden)
    visible = np.where(sinkless[:, None], window, np.array([length, length - 1]))
    variables = _counts(random, shape, visible) | _values(random, shape, sinkless, visible)
    variables |= _votes(random, shape, sinkless) | _competing(variables, sinkless, distances.index("euclidean"))
    variables |= _certified(np.random.default_rng(seed), variables, visible, sizes, distances.index("euclidean"))
    record = {"stage": "extract", "sources": {"model": {"name": "m"}, "corpus": {"name": "c"}}}
    return xr.Dataset(variables, coordinates, {"length": length, "provenance": json.dumps(record)})


def _counts(random: np.random.Generator, shape: dict[str, int], visible: np.ndarray) -> dict:
    """Counts and random rates; visible: [layers, pools] numbers of sources."""
    full = tuple(shape[dim] for dim in _COUNTS)
    sources = visible[None, :, None, None, None, :, None]
    size = np.array(SIZES if shape["size"] == len(SIZES) else 2 ** np.arange(shape["size"]))
    limits = {"fp": sources - size, "tp": size, "inv": size * (sources - size)}
    variables = {}
    for name, limit in limits.items():
        limit = np.broadcast_to(limit, full)
        drawn = random.integers(0, np.maximum(limit, 0) + 1)
        variables[name] = (_COUNTS, np.where(size < sources, drawn, -1).astype(float))
        variables[name][1][variables[name][1] < 0] = np.nan
    # An outer false positive or a missed selected source is part of an inversion.
    fp, tp, inv = (variables[name][1] for name in limits)
    np.maximum.reduce([fp, size - tp, inv], out=inv)
    pooled = tuple(dim for dim in _COUNTS if dim != "ranking")
    for name in ("random_precision", "random_recall", "random_f"):
        drawn = random.random([shape[dim] for dim in pooled])
        missing = np.broadcast_to((size >= sources)[:, :, :, :, 0], drawn.shape)
        variables[name] = (pooled, np.where(missing, np.nan, drawn).astype(np.float32))
    every = np.broadcast_to(visible[None, :, None], [shape[dim] for dim in (*_HEADS, "pool")])
    variables["sources"] = ((*_HEADS, "pool"), every.astype(float))
    return variables


def _values(random: np.random.Generator, shape: dict[str, int], sinkless: np.ndarray, visible: np.ndarray) -> dict:
    """Sink and value quantities, NaN where they belong to a hidden sink."""
    heads = tuple(shape[dim] for dim in _HEADS)
    hidden = np.broadcast_to(sinkless[None, :, None], heads)
    plain = ("norm_variation", "norm_min", "norm_max", "norm_mean", "coherence_mean", "output_current_cosine")
    of_sink = (
        "sink_mass", "sink_norm", "norm_ratio", "sink_alignment", "sink_negative_share", "sink_cosine_min",
        "sink_cosine_max", "output_sink_cosine",
    )  # fmt: skip
    variables = {name: (_HEADS, random.random(heads).astype(np.float32)) for name in plain}
    for name in of_sink:
        variables[name] = (_HEADS, np.where(hidden, np.nan, random.random(heads)).astype(np.float32))
    ranks = random.integers(0, visible[None, :, None, :1], size=(*heads, shape["ranking"]))
    variables["sink_rank"] = ((*_HEADS, "ranking"), np.where(hidden[..., None], np.nan, ranks))
    for name, dim in {
        "coherence": "quantile", "similarity": "lag", "attention_by_lag": "lag_bin",
        "attention_by_position": "position_bin",
    }.items():  # fmt: skip
        variables[name] = ((*_HEADS, dim), random.normal(size=(*heads, shape[dim])).astype(np.float32))
    return variables


def _votes(random: np.random.Generator, shape: dict[str, int], sinkless: np.ndarray) -> dict:
    full = tuple(shape[dim] for dim in (*_HEADS, "regime"))
    chances = np.where(sinkless[:, None], [0.4, 0.0, 0.6], [0.3, 0.4, 0.3])
    votes = random.multinomial(QUERIES, np.broadcast_to(chances[None, :, None], full)).astype(float)
    contribution = random.random(full)
    contribution[:, sinkless, :, 1] = np.nan
    dims = (*_HEADS, "regime")
    return {"votes": (dims, votes), "role_contribution": (dims, contribution.astype(np.float32))}


def _competing(variables: dict, sinkless: np.ndarray, euclidean: int) -> dict:
    """Counts of pool no_sink with one false positive more: the sink."""
    dims = (*_HEADS, "ranking", "size")
    fp, tp = (variables[name][1][:, :, :, euclidean, :, 1] for name in ("fp", "tp"))
    hidden = sinkless[None, :, None, None, None]
    return {
        "competing_fp": (dims, np.where(hidden, np.nan, fp + 1)),
        "competing_tp": (dims, np.where(hidden, np.nan, tp)),
    }


def _certified(
    random: np.random.Generator, variables: dict, visible: np.ndarray, sizes: tuple[int, ...], euclidean: int
) -> dict:
    """Valid bounds of the counts; the costly certificate is there for the first two documents only."""
    fp, tp = (variables[name][1][:, :, :, euclidean][:, :, :, None] for name in ("fp", "tp"))
    shape = [len(CERTIFICATES) if axis == 3 else n for axis, n in enumerate(fp.shape)]
    dims = (*_HEADS, "certificate", "ranking", "pool", "size")
    limit = visible[None, :, None, None, None, :, None] - np.array(sizes)
    above = np.minimum(fp + random.integers(0, 3, shape), np.where(np.isnan(fp), np.nan, limit))
    below = np.maximum(tp - random.integers(0, 3, shape), np.where(np.isnan(tp), np.nan, 0))
    for bound in (above, below):
        bound[2:, :, :, CERTIFICATES.index("pairs")] = np.nan
    return {"certified_fp": (dims, above), "certified_tp": (dims, below)}


def write_shards(data: xr.Dataset, folder: Path, number: int) -> list[Path]:
    """Write the documents as ``number`` NetCDF shards, integers with -1 for missing, as the extraction does."""
    folder.mkdir(parents=True, exist_ok=True)
    integers = (
        "fp",
        "tp",
        "inv",
        "certified_fp",
        "certified_tp",
        "competing_fp",
        "competing_tp",
        "sources",
        "sink_rank",
        "votes",
    )
    encoding = {name: {"dtype": "int32", "_FillValue": -1} for name in integers}
    paths = []
    for index, part in enumerate(np.array_split(np.arange(data.sizes["document"]), number)):
        path = folder / f"shard-{index}-of-{number}.nc"
        data.isel(document=part).to_netcdf(path, engine="h5netcdf", encoding=encoding)
        paths.append(path)
    return paths
