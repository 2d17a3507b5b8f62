"""Losses of a model that keeps its best heads by one score, at every retention."""

import argparse
import itertools
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from .. import evaluation, removal
from ..errors import UserError

RANDOM = "random"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the stage's options.

    Settings: model, corpus, seed, dtype, device, score, retentions, seeds, batch_size.
    """
    evaluation.add_arguments(parser, "losses")
    parser.add_argument("--scores", type=Path, required=True, metavar="CSV", help="table of scores")


def run(options: argparse.Namespace) -> None:
    """Write a row a draw, retention and document; scores other than ``random`` have the one draw 0."""
    settings = options.settings
    torch.set_num_threads(options.threads)
    windows = evaluation.Windows.read(options.tokens, "evaluate")
    orders = drawn_scores(pd.read_csv(options.scores), settings)
    labels, masks = [], []
    for (draw, values), retention in itertools.product(enumerate(orders), settings["retentions"]):
        masks.append(removal.mask(values, retention, settings["seed"]))
        labels.append({"draw": draw, "retention": retention, "heads": int(masks[-1].sum())})
    model = evaluation.load_model(options.checkpoint, settings)
    frame = evaluation.losses(model, windows, labels, masks, settings["batch_size"])
    record = evaluation.record("removal", settings, windows, tokens=options.tokens, scores=options.scores)
    evaluation.write(options, frame, record, "score")


def drawn_scores(scores: pd.DataFrame, settings: dict) -> list[np.ndarray]:
    """Scores [layers, heads] of each draw, from the table ``head_scores``; settings: score, seed, seeds."""
    name = settings["score"]
    layers, heads = scores["layer"].max() + 1, scores["head"].max() + 1
    if name == RANDOM:
        return [removal.random_scores((layers, heads), settings["seed"], draw) for draw in range(settings["seeds"])]
    chosen = scores[scores["score"] == name].sort_values(["layer", "head"])
    if len(chosen) != layers * heads:
        known = ", ".join(scores["score"].unique())
        raise UserError(f"the table of scores has no {name!r}; it has {RANDOM}, {known}")
    return [chosen["value"].to_numpy().reshape(layers, heads)]
