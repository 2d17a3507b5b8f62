"""Verify the certificates on every attention operation of one model and corpus, and measure how tight they are."""

import argparse
import logging
from pathlib import Path

import pandas as pd
import xarray as xr

from .. import provenance, statistics, tightness
from ..files import sha256
from ..interpretation import middle
from ..measurements import RATES, read_shards
from ..statistics import Bootstrap
from ..table_files import labelled, write_table

logger = logging.getLogger(__name__)

VARIABLES = ("fp", "tp", "inv", "sources", "sink_rank", "sink_mass", "certified_fp", "certified_tp")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the stage's options; settings: model, corpus, seed, replicates, confidence."""
    parser.add_argument("--geometry", type=Path, nargs="+", required=True, metavar="SHARD", help="all shards (NetCDF)")
    parser.add_argument("--taxonomy", type=Path, required=True, metavar="DIR", help="the pair's regimes")
    parser.add_argument("--output", type=Path, required=True, metavar="DIR", help="folder of the tables")


def run(options: argparse.Namespace) -> None:
    """Write each table as CSV, with its provenance; a violation is an error that names its records."""
    settings = options.settings
    names = {"model": settings["model"], "corpus": settings["corpus"]}
    data, sources = read_shards(options.geometry, VARIABLES, **names)
    heads = pd.read_csv(options.taxonomy / "heads.csv")
    bootstrap = Bootstrap.draw(
        data.sizes["document"], **{key: settings[key] for key in ("seed", "replicates", "confidence")}
    )
    inputs = {path.name: sha256(path) for path in (*options.geometry, options.taxonomy / "heads.csv")}
    record = provenance.record("bounds", settings, sources=sources, inputs=inputs)
    for name, frame in tables(data, heads, bootstrap, f"{names['model']}, {names['corpus']}").items():
        write_table(options.output, name, labelled(frame, **names), record)


def tables(data: xr.Dataset, heads: pd.DataFrame, bootstrap: Bootstrap, where: str) -> dict[str, pd.DataFrame]:
    """All tables of this stage, without the columns model and corpus."""
    fp, tp = tightness.levels(data)
    broken = tightness.violations(fp, tp)
    tightness.require_none(broken, where)
    rates = dict(zip(RATES, statistics.precision_recall_f(fp, tp, data["size"]), strict=True))
    regimes = heads.set_index(["layer", "head"])["regime"].to_xarray()
    inv = data["inv"].sel(distance="euclidean", drop=True)
    frames = {
        "bounds": tightness.curves(rates, inv, bootstrap),
        "tightness": tightness.tightness(rates["f"], regimes, data["sink_rank"], bootstrap),
        "prediction": tightness.prediction(rates, bootstrap),
        "violations": _verified(fp.notnull() & tp.notnull(), broken),
    }
    return frames | {"certificates": summary(frames)}


def summary(frames: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """One row: what was verified, and how tight the certificates are at the middle size N >= 2.

    Rates are of the ranking by attention with the sink in the competition.
    """
    chosen = "ranking == 'attention' and pool == 'all'"
    size = middle(frames["bounds"]["size"])
    curves, ratios, prediction = (frames[name].query(chosen) for name in ("bounds", "tightness", "prediction"))
    means = curves[curves["size"] == size].set_index(["certificate", "metric"])["mean"]
    row = {"size": size, "records": frames["violations"]["records"].max()}
    row |= {"violations": frames["violations"]["violations"].sum()}
    row |= {"measured_f": means["measured", "f"], "margin_positive": means["measured", "margin_positive"]}
    row |= ratios[(ratios["by"] == "all") & (ratios["size"] == size)].set_index("certificate")["ratio"].to_dict()
    values = prediction[prediction["size"].isna() | (prediction["size"] == size)].set_index("quantity")["value"]
    row |= {name: values.get(name) for name in ("correlation", "coverage", "argmax_measured", "argmax_predicted")}
    return pd.DataFrame([row])


def _verified(there: xr.DataArray, broken: xr.DataArray) -> pd.DataFrame:
    """Records verified and violations found, by certificate."""
    over = [dim for dim in broken.dims if dim != "certificate"]
    records = there.sel(certificate=broken["certificate"]).sum(over)
    frame = pd.DataFrame({"certificate": broken["certificate"].values, "records": records.values})
    return frame.assign(violations=broken.sum(over).values)
