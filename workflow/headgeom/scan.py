"""Losses of many sets of gates on the same documents (spec, section 7): pruned models, and the single-head scan.

A head in layer l leaves all layers before l as they were. So a document passes through the untouched model once, the
states that enter the layers are kept, and each set of gates runs from its first closed gate on, several sets in one
batch. The scan of one head after the other then costs about half the layers, and sets that are close in depth share a
pass. Where an architecture does not allow that, each set has a whole pass of its own.
"""

import logging

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from . import losses, restart
from .attention import gating
from .models import input_device

logger = logging.getLogger(__name__)


@torch.inference_mode()
def gated_losses(model: PreTrainedModel, tokens: Tensor, gates: Tensor, batch_size: int = 8) -> np.ndarray:
    """Loss in nats, [sets, documents] float64, of windows [documents, length] under gates [sets, layers, heads].

    ``batch_size`` is the number of sets in one pass. ``model`` has the attention function installed.
    """
    device = input_device(model)
    tokens, gates = tokens.to(device), gates.to(device)
    problem = restart.why_not(model, tokens[:1])
    if problem:
        logger.warning("every set of gates gets a whole pass: %s", problem)
        return naive_losses(model, tokens, gates)
    columns = [_document_losses(model, window, gates, batch_size) for window in tokens.split(1)]
    return torch.stack(columns, dim=1).cpu().numpy()


@torch.inference_mode()
def naive_losses(model: PreTrainedModel, tokens: Tensor, gates: Tensor) -> np.ndarray:
    """The same from one whole pass for each set and document, with the logits of the whole window."""
    rows = []
    for one in gates:
        with gating(one):
            passes = [model(input_ids=window, use_cache=False).logits[0, :-1] for window in tokens.split(1)]
        nll = [losses.nll_of_logits(x, window[1:]) for x, window in zip(passes, tokens, strict=True)]
        rows.append(losses.document_losses(torch.stack(nll)))
    return torch.stack(rows).cpu().numpy()


def first_closed(gates: Tensor) -> Tensor:
    """First layer with a gate other than one, [sets]; the number of layers where all are one."""
    touched = (gates != 1).any(-1)
    return torch.where(touched.any(-1), touched.int().argmax(-1), gates.shape[1])


def _document_losses(model: PreTrainedModel, window: Tensor, gates: Tensor, batch_size: int) -> Tensor:
    """Losses [sets] of one window [1, length]."""
    starts = first_closed(gates)
    with restart.recording(model, starts.tolist()) as states:
        model.base_model(input_ids=window, use_cache=False)
    result = torch.empty(len(gates), dtype=torch.float64, device=gates.device)
    for batch in starts.argsort(stable=True).split(batch_size):
        layer = int(starts[batch[0]])
        tokens, entering = (x.expand(len(batch), *x.shape[1:]) for x in (window, states[layer]))
        with gating(gates[batch]):
            nll = losses.token_nll(model, tokens, layer, entering)
        result[batch] = losses.document_losses(nll).to(result.device)
    return result
