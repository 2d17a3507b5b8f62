"""Regimes of the heads of one model on one corpus, from its geometry shards."""

import argparse
import logging
from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr

from .. import contrasts, provenance
from .. import taxonomy as rules
from ..errors import InvariantError
from ..files import sha256
from ..measurements import read_shards
from ..statistics import Bootstrap, document_means
from ..table_files import depth_columns, labelled, quantity_table, write_table
from ..taxonomy import REGIMES

logger = logging.getLogger(__name__)

TARGETS = {"sink": "output_sink_cosine", "current": "output_current_cosine"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the stage's options; settings: model, corpus, seed, replicates, confidence."""
    parser.add_argument("--geometry", type=Path, nargs="+", required=True, metavar="SHARD", help="all shards (NetCDF)")
    parser.add_argument("--output", type=Path, required=True, metavar="DIR", help="folder of the tables")


def run(options: argparse.Namespace) -> None:
    """Write each table as CSV, with its provenance."""
    settings = options.settings
    names = {"model": settings["model"], "corpus": settings["corpus"]}
    data, sources = read_shards(options.geometry, ("votes", "role_contribution", *TARGETS.values()), **names)
    bootstrap = Bootstrap.draw(
        data.sizes["document"], **{key: settings[key] for key in ("seed", "replicates", "confidence")}
    )
    inputs = {path.name: sha256(path) for path in options.geometry}
    record = provenance.record("taxonomy", settings, sources=sources, inputs=inputs)
    for name, frame in tables(data, bootstrap).items():
        write_table(options.output, name, labelled(frame, **names), record)


def tables(data: xr.Dataset, bootstrap: Bootstrap) -> dict[str, pd.DataFrame]:
    """All tables of this stage, without the columns model and corpus."""
    data = data.sel(regime=list(REGIMES)).transpose("document", "layer", "head", "regime", ...)
    votes = data["votes"].values
    regimes = rules.regimes(votes)
    resampled = rules.resampled_regimes(bootstrap.counts, votes)
    alternative = rules.alternative_regimes(data["role_contribution"].values)
    return {
        "heads": heads(data, regimes, alternative),
        "taxonomy": shares(regimes, rules.majority(votes), alternative, resampled, bootstrap),
        "alignment": alignment(data, regimes, bootstrap),
        "depth_regimes": depth_regimes(data["layer"].values, regimes, resampled, bootstrap),
        "stability": stability(votes, regimes, alternative),
        "contrasts": quantity_table(
            contrasts.dominance(regimes, resampled, bootstrap) + contrasts.alignment(data, regimes, bootstrap)
        ),
    }


def heads(data: xr.Dataset, regimes: np.ndarray, alternative: np.ndarray) -> pd.DataFrame:
    """A row a head; regimes and alternative: [layers, heads]."""
    votes = data["votes"].values
    layer, head = np.meshgrid(data["layer"].values, data["head"].values, indexing="ij")
    columns = {"layer": layer, "head": head}
    columns |= dict(zip(REGIMES, np.moveaxis(rules.vote_shares(votes), -1, 0), strict=True))
    columns |= {"regime": np.array(REGIMES)[regimes], "majority": rules.majority(votes)}
    columns["alternative"] = np.array(REGIMES)[alternative]
    columns |= {name: data[name].astype(float).mean("document", skipna=True).values for name in TARGETS.values()}
    return pd.DataFrame({name: values.ravel() for name, values in columns.items()})


def shares(
    regimes: np.ndarray, majority: np.ndarray, alternative: np.ndarray, resampled: np.ndarray, bootstrap: Bootstrap
) -> pd.DataFrame:
    """Share of heads in each regime; replicates take the plurality anew, resampled: [replicates, layers, heads]."""
    rows = []
    for index, name in enumerate(REGIMES):
        won = regimes == index
        share, low, high = bootstrap.estimate(won.mean(), (resampled == index).mean((1, 2)))
        row = {"regime": name, "heads": won.sum(), "share": float(share), "low": low, "high": high}
        row |= {"majority_share": (won & majority).mean(), "alternative_share": (alternative == index).mean()}
        rows.append(row)
    frame = pd.DataFrame(rows)
    if frame["heads"].sum() != regimes.size:
        raise InvariantError(
            f"{frame['heads'].sum()} heads in regimes, of {regimes.size}; their shares do not sum to 1"
        )
    return frame


def alignment(data: xr.Dataset, regimes: np.ndarray, bootstrap: Bootstrap) -> pd.DataFrame:
    """Mean cosine of the output with the sink and with the current token, over the heads of each regime.

    Regimes are those of all documents. ``heads`` counts those with a value: not the ones whose sink is hidden.
    """
    labels = xr.DataArray(regimes, dims=("layer", "head"))
    rows = []
    for index, name in enumerate(REGIMES):
        for target, variable in TARGETS.items():
            values = data[variable].where(labels == index)
            estimate = bootstrap.mean(document_means(values).values)
            row = dict(zip(("mean", "low", "high"), map(float, estimate), strict=True))
            number = int(values.notnull().any("document").sum())
            rows.append({"regime": name, "target": target, **row, "heads": number})
    return pd.DataFrame(rows)


def depth_regimes(layers: np.ndarray, regimes: np.ndarray, resampled: np.ndarray, bootstrap: Bootstrap) -> pd.DataFrame:
    """Share of each layer's heads in each regime, in the columns of the table ``depth``."""
    frames = []
    for index, name in enumerate(REGIMES):
        estimate = bootstrap.estimate((regimes == index).mean(-1), (resampled == index).mean(-1))
        columns = dict(zip(("mean", "low", "high"), estimate, strict=True))
        frames.append(pd.DataFrame({"layer": layers, "quantity": name, **columns}))
    return depth_columns(pd.concat(frames, ignore_index=True), layers)


def stability(votes: np.ndarray, regimes: np.ndarray, alternative: np.ndarray) -> pd.DataFrame:
    """Agreement between the halves of the documents, and between the voting and the alternative rule."""
    rows = [("rule", "votes", "contribution", rules.agreement(regimes, alternative))]
    if len(votes) > 1:
        rows.insert(0, ("halves", "first", "second", rules.agreement(*rules.halves(votes))))
    frame = pd.DataFrame(rows, columns=["comparison", "first", "second", "agreement"])
    frame.insert(3, "heads", regimes.size)
    return frame
