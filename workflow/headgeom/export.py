"""Checkpoints without some of their heads (spec, section 7).

A head is removed from the weights by zeroing its slice of the output projection: its output then adds nothing,
exactly as a gate of zero does. The checkpoint keeps its shape, so plain transformers loads it; a bias of the output
projection stays, for it is not of any head. Beside the weights lies ``mask.json``.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel

from . import models, projections
from .errors import UserError
from .files import replacing

MASK = "mask.json"
_WEIGHTS = (".safetensors", ".safetensors.index.json", ".gguf")


def remove_heads(model: PreTrainedModel, mask: np.ndarray) -> None:
    """Zero, in place, the output-projection slices of the heads whose mask [layers, heads] is 0.

    Raises UserError if the mask is not of the model's shape or the projections are not known.
    """
    attentions = projections.attention_modules(model)
    expected = (len(attentions), model.config.get_text_config().num_attention_heads)
    if mask.shape != expected:
        raise UserError(f"a mask of {mask.shape} layers and heads for a model of {expected}")
    with torch.no_grad():
        for attention, kept in zip(attentions, mask, strict=True):
            projections.output_slices(attention, expected[1])[torch.from_numpy(kept == 0)] = 0


def write_checkpoint(checkpoint: Path, mask: np.ndarray, output: Path, facts: dict[str, Any]) -> None:
    """Write the checkpoint without the removed heads, in its stored precision, and the mask with ``facts``.

    What is not weights (tokenizer, chat template, ...) is copied.
    """
    model = models.load_model(checkpoint, "auto")
    remove_heads(model, mask)
    with replacing(output) as folder:
        model.save_pretrained(folder)
        for path in checkpoint.iterdir():
            if path.is_file() and not path.name.endswith(_WEIGHTS) and not (folder / path.name).exists():
                shutil.copyfile(path, folder / path.name)
        removed = np.argwhere(mask == 0).tolist()
        content = {"mask": mask.astype(int).tolist(), "removed": removed, "heads": mask.size, **facts}
        (folder / MASK).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
