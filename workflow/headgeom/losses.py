"""Loss of a model on token windows (spec, section 7).

    NLL(t) = -log p(x_t | x_0 .. x_{t-1}),  t = 1 .. L-1;   loss of a document = mean of its NLL(t), in nats

in float32 whatever the model's dtype. The logits of a whole window are never held at once: a vocabulary of 262,144
makes them larger than the model, so positions pass through the vocabulary head in pieces.
"""

import torch
from torch import Tensor
from transformers import PreTrainedModel

from . import restart

LOGITS = 2**25
"""Most logits held at once, in one piece."""


def token_nll(model: PreTrainedModel, tokens: Tensor, layer: int = 0, states: Tensor | None = None) -> Tensor:
    """NLL [batch, length - 1] float32 of windows [batch, length], by a run that starts at ``layer`` with ``states``.

    Raises CannotRestartError if the architecture's head cannot be run by itself.
    """
    final = restart.final_states(model, tokens, layer, states)
    return nll_of_states(model, final, tokens)


def nll_of_states(model: PreTrainedModel, final: Tensor, tokens: Tensor) -> Tensor:
    """The same from what left the last layer, [batch, length, hidden]."""
    states = final[:, :-1].flatten(0, 1)
    targets = tokens[:, 1:].flatten()
    pieces = [nll_of_logits(restart.logits(model, states[piece]), targets[piece]) for piece in pieces_of(model, states)]
    return torch.cat(pieces).unflatten(0, (len(tokens), -1))


def pieces_of(model: PreTrainedModel, rows: Tensor) -> list[slice]:
    """Slices of ``rows`` whose logits fit in one piece."""
    step = max(1, LOGITS // model.config.get_text_config().vocab_size)
    return [slice(start, start + step) for start in range(0, len(rows), step)]


def nll_of_logits(logits: Tensor, targets: Tensor) -> Tensor:
    """NLL [rows] float32 of logits [rows, vocabulary] and target ids [rows]."""
    logits, targets = logits.float(), targets.to(logits.device)
    return logits.logsumexp(-1) - logits.gather(-1, targets.unsqueeze(-1)).squeeze(-1)


def document_losses(nll: Tensor) -> Tensor:
    """Mean NLL of each document, [..., length - 1] to [...], averaged in float64."""
    return nll.double().mean(-1)
