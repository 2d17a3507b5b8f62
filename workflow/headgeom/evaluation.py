"""Losses of pruned models on the windows of one (model, corpus) pair: what the stages of head removal share.

Their tables have a row for each set of gates and document: labels of the set, document, ``loss`` and ``unpruned``, the
mean token NLL in nats with the set's gates and with all heads. So every difference can be taken document by document.
"""

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from transformers import PreTrainedModel

from . import attention, models, packing, provenance, scan, tables
from .errors import InvariantError
from .files import sha256
from .table_files import labelled, write_table


@dataclass(frozen=True)
class Windows:
    """Windows of one split: document ids, tokens [documents, length], and what is on record of them."""

    documents: list[str]
    tokens: Tensor
    record: dict[str, Any]

    @classmethod
    def read(cls, path: Path, split: str, most: int | None = None) -> "Windows":
        """The split's first ``most`` documents in hashed order, or all."""
        frame, record = tables.read_parquet(path)
        frame = frame[frame["split"] == split].sort_values("order")[:most]
        tokens = torch.from_numpy(np.stack(list(frame["tokens"])).astype(np.int64))
        return cls(list(frame["document"]), tokens, record)


def add_arguments(parser: argparse.ArgumentParser, output: str) -> None:
    """Declare what each of these stages takes; ``output`` says what its table is of."""
    parser.add_argument("--checkpoint", type=Path, required=True, help="converted model")
    parser.add_argument("--tokens", type=Path, required=True, help="Parquet of windows")
    parser.add_argument("--output", type=Path, required=True, metavar="CSV", help=f"table of {output}")


def write(options: argparse.Namespace, frame: pd.DataFrame, record: dict[str, Any], *more: str) -> None:
    """Write the stage's table, with columns of the settings model, corpus and ``more`` in front."""
    _require_finite(frame, options.settings)
    names = {name: options.settings[name] for name in ("model", "corpus", *more)}
    write_table(options.output.parent, options.output.stem, labelled(frame, **names), record)


def _require_finite(frame: pd.DataFrame, settings: dict[str, Any]) -> None:
    """Raise with the labels of the first loss or score that is not finite."""
    values = frame[[name for name in ("loss", "unpruned", "value") if name in frame]]
    broken = ~np.isfinite(values).all(axis=1)
    if broken.any():
        row = frame[broken.values].iloc[0].to_dict()
        labels = ", ".join(f"{name} {value}" for name, value in row.items())
        raise InvariantError(
            f"{settings['model']}, {settings['corpus']}: not finite: {labels}; if the model "
            f"overflows, {models.OTHER_DTYPE}"
        )


def load_model(checkpoint: Path, settings: dict[str, Any]) -> PreTrainedModel:
    """The model with the attention function installed; settings: dtype, device."""
    return attention.install(models.load_model(checkpoint, settings["dtype"], settings["device"]))


def shape(model: PreTrainedModel) -> tuple[int, int]:
    """Layers and heads of a layer."""
    config = model.config.get_text_config()
    return config.num_hidden_layers, config.num_attention_heads


def losses(
    model: PreTrainedModel, windows: Windows, labels: list[dict[str, Any]], masks: list[np.ndarray], batch_size: int
) -> pd.DataFrame:
    """The table of losses; labels and masks [layers, heads] of each set."""
    gates = torch.from_numpy(np.stack([np.ones_like(masks[0]), *masks]))
    unpruned, *pruned = scan.gated_losses(packing.pack(model), windows.tokens, gates.float(), batch_size)
    common = {"document": windows.documents, "unpruned": unpruned}
    frames = [pd.DataFrame({**label, **common, "loss": loss}) for label, loss in zip(labels, pruned, strict=True)]
    return pd.concat(frames, ignore_index=True)


def record(stage: str, settings: dict[str, Any], windows: Windows, **inputs: Path) -> dict[str, Any]:
    """Provenance of a table made from the windows and other ``inputs``."""
    hashes = {name: sha256(path) for name, path in inputs.items()}
    facts = {"sources": windows.record["sources"], "bos": windows.record["bos"], "inputs": hashes}
    return provenance.record(stage, settings, **facts)
