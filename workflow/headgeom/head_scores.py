"""Scores of heads, the larger the later a head is removed (spec, section 7).

measured on documents of their own:
    entropy    -sum_j a_j log a_j of a query position's float32 weights, over the visible sources; its mean over the
               measured query positions and documents. ``entropy_high`` keeps large ones, ``entropy_low`` small ones.
    gradient   mean over documents of |d loss / d xi_h| at xi = 1, where xi_h multiplies head h's output and loss is
               the document's (Michel, Levy and Neubig: Are Sixteen Heads Really Better than One?, 2019)
of the weights:
    magnitude       Frobenius norm of W_h, the head's slice of the output projection
    magnitude_qkvo  of W_h and the weights that make the head's queries, keys and values, side by side
of the geometry:
    separability   mean of F_N over the sizes N >= 2 that every head has (ranking attention, pool all), then documents
    taxonomy       Retrievers, then Mixers, then Resets; within a regime the larger vote share
    taxonomy_drop_<regime>   all heads but the regime's, equal among themselves
"""

import logging

import numpy as np
import torch
import xarray as xr
from torch import Tensor
from transformers import PreTrainedModel

from . import losses, projections, restart
from .attention import LayerView, gating, observing
from .models import input_device
from .statistics import precision_recall_f
from .taxonomy import REGIMES

logger = logging.getLogger(__name__)


@torch.inference_mode()
def entropies(model: PreTrainedModel, tokens: Tensor, rows: list[int]) -> np.ndarray:
    """Mean attention entropy in nats over the query positions ``rows``, [documents, layers, heads].

    tokens: [documents, length]. ``model`` has the attention function installed.
    """
    layers: dict[int, Tensor] = {}

    def observe(view: LayerView) -> None:
        layers[view.layer] = torch.special.entr(view.weights).sum(-1).mean(-1)

    with observing(torch.tensor(rows), observe):
        model.base_model(input_ids=tokens.to(input_device(model)), use_cache=False)
    return torch.stack([layers[layer].cpu() for layer in sorted(layers)], dim=1).numpy()


def gradients(model: PreTrainedModel, tokens: Tensor, heads: tuple[int, int]) -> np.ndarray:
    """|d loss / d gate| of each document at gates of one, [documents, layers, heads], in one backward pass.

    ``heads`` is (layers, heads). Each document has gates of its own, so that signs cannot cancel between documents.
    """
    model.requires_grad_(False)
    tokens = tokens.to(input_device(model))
    gates = torch.ones(len(tokens), *heads, device=tokens.device, requires_grad=True)
    problem = restart.why_not(model, tokens[:1])
    with gating(gates):
        if problem:
            logger.warning("the logits of whole windows are held at once: %s", problem)
            logits = model(input_ids=tokens, use_cache=False).logits[:, :-1]
            losses.nll_of_logits(logits.flatten(0, 1), tokens[:, 1:].flatten()).sum().backward()
        else:
            _backward(model, restart.final_states(model, tokens), tokens)
    return gates.grad.abs().cpu().numpy() / (tokens.shape[1] - 1)


def _backward(model: PreTrainedModel, final: Tensor, tokens: Tensor) -> None:
    """Backpropagate the sum of the NLL from what left the last layer, [documents, length, hidden].

    The graph of the vocabulary head would be the largest of all: it is built and freed piece by piece.
    """
    states = final.detach().requires_grad_()
    rows, targets = states[:, :-1].flatten(0, 1), tokens[:, 1:].flatten()
    for piece in losses.pieces_of(model, rows):
        nll = losses.nll_of_logits(restart.logits(model, rows[piece]), targets[piece])
        nll.sum().backward(retain_graph=True)
    final.backward(states.grad)


def magnitudes(model: PreTrainedModel) -> dict[str, np.ndarray]:
    """``magnitude`` and ``magnitude_qkvo`` of each head, [layers, heads] float64."""
    config = model.config.get_text_config()
    heads = config.num_attention_heads
    shared = getattr(config, "num_key_value_heads", None) or heads
    output, others = [], []
    for attention in projections.attention_modules(model):
        with projections.weights_at_hand(attention):
            output.append(_squares(projections.output_slices(attention, heads)))
            others.append(sum(map(_squares, projections.query_key_value_slices(attention, heads, shared))))
    output, others = np.stack(output), np.stack(others)
    return {"magnitude": np.sqrt(output), "magnitude_qkvo": np.sqrt(output + others)}


def _squares(slices: Tensor) -> np.ndarray:
    return slices.detach().double().pow(2).sum((1, 2)).cpu().numpy()


def separability(fp: xr.DataArray, tp: xr.DataArray) -> xr.DataArray:
    """Mean F_N of each head, layer x head, from counts of one ranking and pool over document, layer, head, size.

    Sizes that some head lacks (a short sliding window) would make heads incomparable and are left out.
    """
    f = precision_recall_f(fp, tp, fp["size"])[2]
    everywhere = f.notnull().all([dim for dim in f.dims if dim != "size"])
    f = f.sel(size=everywhere & (f["size"] >= 2))
    return f.mean("size").mean("document").transpose("layer", "head")


def taxonomy(shares: np.ndarray, regimes: np.ndarray) -> dict[str, np.ndarray]:
    """``taxonomy`` and the ``taxonomy_drop_`` scores, [layers, heads], from vote shares [layers, heads, regimes] and
    regimes [layers, heads], indices into ``REGIMES``."""
    won = np.take_along_axis(shares, regimes[..., None], -1)[..., 0]
    # A winning share is in (0, 1], so a regime's scores never reach those of the regime that is kept before it.
    scores = {"taxonomy": len(REGIMES) - 1 - regimes + won}
    for index, name in enumerate(REGIMES):
        scores[f"taxonomy_drop_{name}"] = (regimes != index).astype(float)
    return scores
