"""Geometry shards of one model and corpus: reading them, and the invariants that they must meet.

Whatever the number of shards and their order, the same documents give the same arrays: documents are put in
their hashed order. The invariants follow from the definitions (spec, sections 1 to 3, 6): for N selected of
|I| sources,

    0 <= FP <= |I| - N      0 <= TP <= N      0 <= INV <= N (|I| - N)

and the certified FP and TP lie in the same ranges; counts are missing exactly where N is not below |I|, sink
quantities exactly where the sink is hidden, every head has the same number of votes, and nothing is infinite.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from .errors import InvariantError, UserError

RATES = ("precision", "recall", "f")
_TOLERANCE = 1e-6  # of rates averaged in float32


def read_shards(
    paths: Iterable[Path], variables: Iterable[str], *, model: str, corpus: str
) -> tuple[xr.Dataset, dict[str, Any]]:
    """The variables of all documents, in hashed order and checked, and the upstream sources on record."""
    variables = list(variables)
    shards = []
    for path in paths:
        with xr.open_dataset(path, engine="h5netcdf") as shard:
            absent = [name for name in (*variables, "order") if name not in shard.variables]
            if absent:
                raise UserError(f"{model}, {corpus}: {path.name} lacks {', '.join(absent)}; extract it anew")
            shards.append(shard[variables].assign_coords(order=shard["order"]).load())
    data = _joined(shards, f"{model}, {corpus}")
    check(data, model=model, corpus=corpus)
    return data, json.loads(data.attrs.get("provenance", "{}")).get("sources", {})


def _joined(shards: list[xr.Dataset], where: str) -> xr.Dataset:
    try:
        data = xr.concat(
            shards,
            "document",
            data_vars="minimal",
            coords="minimal",
            compat="equals",
            join="exact",
            combine_attrs="override",
        )
    except ValueError as error:
        raise UserError(f"{where}: the shards differ in more than documents; extract them with one config") from error
    data = data.sortby("order")
    ids, number = np.unique(data["document"].values.astype(str), return_counts=True)
    if number.max() > 1:
        raise UserError(f"{where}: document {ids[number.argmax()]} is in more than one shard")
    return data


def reference_distance(data: xr.Dataset) -> str:
    """The distance that headline quantities are told in: euclidean, or the first where it was not measured."""
    measured = [str(name) for name in data["distance"].values]
    return "euclidean" if "euclidean" in measured else measured[0]


def check(data: xr.Dataset, *, model: str, corpus: str) -> None:
    """Raise an InvariantError that names the first offender, for the variables that ``data`` has."""
    where = f"{model}, {corpus}"
    for name in data.data_vars:
        if data[name].dtype.kind == "f":
            _require(~np.isinf(data[name]), where, f"{name} is infinite")
    _check_counts(data, where)
    _check_certificates(data, where)
    _check_rates(data, where)
    _check_sink(data, where)
    _check_competing(data, where)
    if "votes" in data:
        votes = data["votes"].sum("regime")
        _require((data["votes"] >= 0), where, "votes are missing or negative")
        _require(votes == votes.values.flat[0], where, "the number of votes differs from the other heads'")


def _check_counts(data: xr.Dataset, where: str) -> None:
    """Ranges of the counts, and that they are missing where N >= |I| and nowhere else."""
    limits = {
        "fp": ("|I| - N", lambda size, sources: sources - size),
        "tp": ("N", lambda size, sources: size),
        "inv": ("N (|I| - N)", lambda size, sources: size * (sources - size)),
    }
    for name, (text, limit) in limits.items():
        if name in data:
            size, sources, counts = data["size"], data["sources"], data[name]
            wrong = f"{name} is outside 0 .. {text}, or missing though N < |I|, or the reverse"
            _require_range(counts, limit(size, sources), size < sources, where, wrong)


def _check_certificates(data: xr.Dataset, where: str) -> None:
    """Ranges of the certified counts, and that every level is there wherever the counts are.

    The costly level ``pairs`` is there for whole documents, the others for all.
    """
    if "certified_fp" not in data:
        return
    size, sources = data["size"], data["sources"]
    costly = data["certificate"] == "pairs"
    dims = [dim for dim in data["certified_fp"].dims if dim != "document"]
    had = costly & data["certified_fp"].notnull().any([dim for dim in dims if dim != "certificate"])
    for name, limit in (("certified_fp", sources - size), ("certified_tp", size)):
        wrong = f"{name} is out of range, or missing though the count is there, or the reverse"
        _require_range(data[name], limit, (size < sources) & (~costly | had), where, wrong)


def _check_competing(data: xr.Dataset, where: str) -> None:
    """Ranges of the counts with a competing sink, which are there where the sink is seen and N is below |I| - 1."""
    if "competing_fp" not in data:
        return
    size, sources, seen = data["size"], data["sources"].sel(pool="no_sink"), data["sink_mass"].notnull()
    for name, limit in (("competing_fp", sources + 1 - size), ("competing_tp", size)):
        wrong = f"{name} is out of range, or missing though the sink is seen, or the reverse"
        _require_range(data[name], limit, (size < sources) & seen, where, wrong)


def _check_rates(data: xr.Dataset, where: str) -> None:
    for name in (f"random_{rate}" for rate in RATES):
        if name in data:
            wrong = f"{name} is outside 0 .. 1, or missing though N < |I|, or the reverse"
            _require_range(data[name], 1, data["size"] < data["sources"], where, wrong, _TOLERANCE)


def _check_sink(data: xr.Dataset, where: str) -> None:
    if "sink_rank" in data:
        rank, mass = data["sink_rank"], data["sink_mass"]
        wrong = "sink_rank is outside 0 .. |I| - 1, or missing where sink_mass is not, or the reverse"
        _require_range(rank, data["sources"].sel(pool="all") - 1, mass.notnull(), where, wrong)


def _require_range(
    values: xr.DataArray, limit: xr.DataArray | int, there: xr.DataArray, where: str, wrong: str, tolerance: float = 0.0
) -> None:
    """Raise unless the values lie in 0 .. limit where they must be ``there``, and are missing elsewhere."""
    inside = (values >= -tolerance) & (values <= limit + tolerance)
    _require(xr.where(there, inside, values.isnull()).transpose(*values.dims), where, wrong)


def _require(right: xr.DataArray, where: str, wrong: str) -> None:
    """Raise if any element of ``right`` is false, with its labels."""
    if bool(right.all()):
        return
    first = np.unravel_index(np.argmin(right.values), right.shape)
    names = {"size": "N"}
    labels = (f"{names.get(dim, dim)} {right[dim].values[i]}" for dim, i in zip(right.dims, first, strict=True))
    raise InvariantError(f"{where}, {', '.join(labels)}: {wrong}; this is a defect of the measurement")
