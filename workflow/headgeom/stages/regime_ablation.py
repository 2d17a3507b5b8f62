"""Losses of a model without some heads of one regime, and without as many of the same layers at random."""

import argparse
from pathlib import Path

import pandas as pd
import torch

from .. import evaluation, removal
from ..errors import UserError
from ..taxonomy import REGIMES


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the stage's options; settings: model, corpus, seed, dtype, device, ablation_share, seeds, batch_size."""
    evaluation.add_arguments(parser, "losses")
    parser.add_argument("--taxonomy", type=Path, required=True, metavar="DIR", help="tables of the heads' regimes")


def run(options: argparse.Namespace) -> None:
    """Write a row a regime, draw, arm (treated, control) and document; regimes without heads have none."""
    settings = options.settings
    torch.set_num_threads(options.threads)
    windows = evaluation.Windows.read(options.tokens, "evaluate")
    heads = options.taxonomy / "heads.csv"
    labels, masks = [], []
    for label, mask in ablations(pd.read_csv(heads), settings):
        labels.append(label)
        masks.append(mask)
    model = evaluation.load_model(options.checkpoint, settings)
    frame = evaluation.losses(model, windows, labels, masks, settings["batch_size"])
    record = evaluation.record("regime_ablation", settings, windows, tokens=options.tokens, heads=heads)
    evaluation.write(options, frame, record)


def ablations(heads: pd.DataFrame, settings: dict):
    """Yield label and mask of each set; heads: the table ``heads``. Raises UserError if the share is of no head."""
    share, seed = settings["ablation_share"], settings["seed"]
    if removal.number(share, len(heads)) == 0:
        raise UserError(
            f"removal.ablation_share: {share} of the {len(heads)} heads of model {settings['model']!r} is no head; "
            "raise it"
        )
    table = heads.sort_values(["layer", "head"])
    regimes = table["regime"].map(REGIMES.index).to_numpy().reshape(table["layer"].nunique(), -1)
    for index, name in enumerate(REGIMES):
        members = int((regimes == index).sum())
        for draw in range(settings["seeds"] if members else 0):
            treated, control = removal.ablation(regimes, index, share, seed, draw)
            shared = removal.overlap(treated, control)
            label = {"regime": name, "heads": members, "removed": int((treated == 0).sum()), "overlap": shared}
            yield {**label, "draw": draw, "arm": "treated"}, treated
            yield {**label, "draw": draw, "arm": "control"}, control
