"""Losses of a model without one head, for every head of one shard of its layers."""

import argparse

import numpy as np
import torch

from .. import evaluation
from ..errors import UserError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the stage's options.

    Settings: model, corpus, dtype, device, scan_documents, batch_size, shard, shards.
    """
    evaluation.add_arguments(parser, "losses")


def run(options: argparse.Namespace) -> None:
    """Write a row a head and document; more shards than layers are an error."""
    settings = options.settings
    torch.set_num_threads(options.threads)
    windows = evaluation.Windows.read(options.tokens, "evaluate", settings["scan_documents"])
    model = evaluation.load_model(options.checkpoint, settings)
    layers = evaluation.shape(model)[0]
    if settings["shards"] > layers:
        raise UserError(
            f"removal.scan_shards: {settings['shards']} shards for the {layers} layers of model "
            f"{settings['model']!r}; set it to at most {layers}"
        )
    labels, masks = one_removed(*evaluation.shape(model), settings["shard"], settings["shards"])
    frame = evaluation.losses(model, windows, labels, masks, settings["batch_size"])
    record = evaluation.record("head_scan", settings, windows, tokens=options.tokens)
    evaluation.write(options, frame, record)


def one_removed(layers: int, heads: int, shard: int, shards: int) -> tuple[list[dict[str, int]], list[np.ndarray]]:
    """Labels and masks of the shard's heads: every ``shards``-th layer, as late ones cost less than early ones."""
    labels = [{"layer": layer, "head": head} for layer in range(shard, layers, shards) for head in range(heads)]
    masks = []
    for label in labels:
        masks.append(np.ones((layers, heads)))
        masks[-1][label["layer"], label["head"]] = 0
    return labels, masks
