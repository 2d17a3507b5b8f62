"""Write a checkpoint that keeps a model's best heads by one score, loadable by plain transformers."""

import argparse
import logging
from pathlib import Path

import pandas as pd

from .. import export, provenance, removal
from ..files import sha256
from .removal import drawn_scores

logger = logging.getLogger(__name__)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the stage's options; settings: model, corpus, seed, score, retention."""
    parser.add_argument("--checkpoint", type=Path, required=True, help="converted model")
    parser.add_argument("--scores", type=Path, required=True, metavar="CSV", help="table of scores")
    parser.add_argument("--output", type=Path, required=True, metavar="DIR", help="pruned checkpoint")


def run(options: argparse.Namespace) -> None:
    """Write weights, tokenizer and ``mask.json``; of the score ``random`` the first draw."""
    settings = options.settings
    values = drawn_scores(pd.read_csv(options.scores), settings | {"seeds": 1})[0]
    mask = removal.mask(values, settings["retention"], settings["seed"])
    record = provenance.record("export", settings, inputs={options.scores.name: sha256(options.scores)})
    export.write_checkpoint(options.checkpoint, mask, options.output, {"provenance": record})
    logger.info("%d of %d heads kept in %s", mask.sum(), mask.size, options.output)
