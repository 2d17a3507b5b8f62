"""The slices of a layer's projection weights that belong to each head.

Heads h = 0 .. H-1 write through the output projection, whose input is the heads' outputs side by side:

    out = sum_h W_h z_h (+ bias),   W_h = columns h d .. (h+1) d - 1 of a Linear's weight [out, in],
                                    or the same rows of GPT-2's Conv1D, whose weight is [in, out].

Under grouped queries head h reads key/value head h // (H / H_kv).
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import torch
from accelerate.utils import align_module_device
from torch import Tensor
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

from .errors import UserError

_OUTPUTS = ("o_proj", "out_proj", "dense", "c_proj")


def attention_modules(model: PreTrainedModel) -> list[torch.nn.Module]:
    """The attention module of each layer, in order. Raises UserError, by name, if a layer has none that is known."""
    found = {}
    for module in model.base_model.modules():
        if hasattr(module, "layer_idx") and any(hasattr(module, name) for name in _OUTPUTS):
            found[module.layer_idx] = module
    expected = list(range(model.config.get_text_config().num_hidden_layers))
    if sorted(found) != expected:
        raise UserError(
            f"{type(model).__name__}: the output projections of layers {sorted(set(expected) - set(found))} are not "
            f"known (none of {', '.join(_OUTPUTS)}), so heads cannot be scored by magnitude or removed from the weights"
        )
    return [found[layer] for layer in expected]


@contextmanager
def weights_at_hand(attention: torch.nn.Module) -> Iterator[None]:
    """Fetch the weights of a layer that accelerate keeps elsewhere, in a model that is spread over devices."""
    with ExitStack() as stack:
        for module in attention.modules():
            stack.enter_context(align_module_device(module))
        yield


def output_slices(attention: torch.nn.Module, heads: int) -> Tensor:
    """W_h of each head, [heads, head_dim, hidden]: a view, so writing to it changes the weight."""
    module = next(getattr(attention, name) for name in _OUTPUTS if hasattr(attention, name))
    weight = module.weight if isinstance(module, Conv1D) else module.weight.T
    return weight.unflatten(0, (heads, -1))


def query_key_value_slices(attention: torch.nn.Module, heads: int, key_value_heads: int) -> tuple[Tensor, ...]:
    """Weights that make each head's queries, keys and values, three of [heads, head_dim, hidden].

    A shared key/value head is repeated for each head that reads it. Raises UserError for unknown projections.
    """
    groups = heads // key_value_heads
    if hasattr(attention, "q_proj"):
        weights = [getattr(attention, name).weight for name in ("q_proj", "k_proj", "v_proj")]
    elif hasattr(attention, "qkv_proj"):
        size = attention.qkv_proj.weight.shape[0] // (heads + 2 * key_value_heads)
        weights = attention.qkv_proj.weight.split([size * n for n in (heads, key_value_heads, key_value_heads)])
    elif hasattr(attention, "c_attn"):
        weights = attention.c_attn.weight.T.chunk(3)
    elif hasattr(attention, "query_key_value"):
        return attention.query_key_value.weight.unflatten(0, (heads, 3, -1)).unbind(1)
    else:
        raise UserError(f"{type(attention).__name__}: its query, key and value projections are not known")
    numbers = (heads, key_value_heads, key_value_heads)
    query, key, value = (weight.unflatten(0, (n, -1)) for weight, n in zip(weights, numbers, strict=True))
    return query, key.repeat_interleave(groups, dim=0), value.repeat_interleave(groups, dim=0)
