"""Linear layers whose weights are packed once for oneDNN, for passes on a CPU that are repeated many times.

Torch multiplies float32 matrices with MKL, oneDNN was about twice as fast on an AMD processor (benchmarks/README.md).
Packing lays a weight out for oneDNN beforehand. Results are those of float32 with another order of summation.
"""

from functools import partial

import torch
from torch import Tensor
from transformers import PreTrainedModel

from .models import is_spread

ROWS = 1024
"""Rows that the layout is chosen for; any number of rows may be multiplied."""


def pack(model: PreTrainedModel) -> PreTrainedModel:
    """Let the float32 ``nn.Linear`` of a model on a CPU compute with packed weights; no gradient passes them then.

    Other models, those that are spread over devices too, and torch builds without oneDNN, are left as they are. Later
    changes of a weight go unseen.
    """
    if is_spread(model) or model.device.type != "cpu" or not torch.backends.mkldnn.is_available():
        return model
    for module in model.modules():
        if type(module) is torch.nn.Linear and module.weight.dtype == torch.float32:
            packed = torch.ops.mkldnn._reorder_linear_weight(module.weight.detach(), ROWS)
            bias = None if module.bias is None else module.bias.detach()
            module.forward = partial(_linear, packed, bias)
    return model


def _linear(packed: Tensor, bias: Tensor | None, states: Tensor) -> Tensor:
    return torch.ops.mkldnn._linear_pointwise(states, packed, bias, "none", [], "")
