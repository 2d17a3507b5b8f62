"""Score every head of a model for removal, on documents that the loss is never evaluated on."""

import argparse
import logging
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from tqdm import tqdm

from .. import evaluation, head_scores, winners
from ..files import sha256
from ..measurements import read_shards, reference_distance
from ..taxonomy import REGIMES

logger = logging.getLogger(__name__)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the stage's options; settings: model, corpus, dtype, device, length, queries."""
    evaluation.add_arguments(parser, "scores")
    parser.add_argument("--geometry", type=Path, nargs="+", required=True, metavar="SHARD", help="all shards (NetCDF)")
    parser.add_argument("--taxonomy", type=Path, required=True, metavar="DIR", help="tables of the heads' regimes")


def run(options: argparse.Namespace) -> None:
    """Write a row a head and score: those of the spec's table but ``random``, which is drawn where it is used."""
    settings = options.settings
    torch.set_num_threads(options.threads)
    windows = evaluation.Windows.read(options.tokens, "score")
    names = {"model": settings["model"], "corpus": settings["corpus"]}
    regimes = options.taxonomy / "heads.csv"
    scores = of_taxonomy(pd.read_csv(regimes))
    scores["separability"] = of_geometry(options.geometry, names)
    scores |= of_model(evaluation.load_model(options.checkpoint, settings), windows.tokens, settings)
    frame = pd.concat([rows(name, values) for name, values in scores.items()], ignore_index=True)
    record = evaluation.record("head_scores", settings, windows, tokens=options.tokens, regimes=regimes)
    record["inputs"] |= {path.name: sha256(path) for path in options.geometry}
    evaluation.write(options, frame, record)
    logger.info("%(model)s, %(corpus)s: %(n)d scores a head", {**names, "n": len(scores)})


def rows(name: str, values: np.ndarray) -> pd.DataFrame:
    """The rows of one score; values: [layers, heads]."""
    layer, head = np.indices(values.shape)
    return pd.DataFrame({"layer": layer.ravel(), "head": head.ravel(), "score": name, "value": values.ravel()})


def of_taxonomy(heads: pd.DataFrame) -> dict[str, np.ndarray]:
    """Scores from the table ``heads``, [layers, heads]."""
    heads = heads.sort_values(["layer", "head"])
    layers = heads["layer"].nunique()
    shares = heads[list(REGIMES)].to_numpy().reshape(layers, -1, len(REGIMES))
    return head_scores.taxonomy(shares, heads["regime"].map(REGIMES.index).to_numpy().reshape(layers, -1))


def of_geometry(shards: list[Path], names: dict[str, str]) -> np.ndarray:
    """Mean F_N of each head from the counts, [layers, heads]."""
    data, _ = read_shards(shards, ("fp", "tp", "sources"), **names)
    chosen = {"ranking": "attention", "pool": "all", "distance": reference_distance(data)}
    fp, tp = (data[name].sel(chosen, drop=True) for name in ("fp", "tp"))
    return head_scores.separability(fp, tp).values


def of_model(model, tokens: torch.Tensor, settings: dict) -> dict[str, np.ndarray]:
    """Scores of the weights, and means over documents of the measured ones, [layers, heads]."""
    positions = winners.query_positions(settings["length"], settings["queries"])
    entropies, gradients = [], []
    for window in tqdm(tokens.split(1), desc=f"{settings['model']} {settings['corpus']}", disable=None):
        entropies.append(head_scores.entropies(model, window, positions))
        gradients.append(head_scores.gradients(model, window, evaluation.shape(model)))
    entropy, gradient = (np.concatenate(values).astype(float).mean(0) for values in (entropies, gradients))
    return head_scores.magnitudes(model) | {"entropy_high": entropy, "entropy_low": -entropy, "gradient": gradient}
