"""The attention function that measures and gates heads, registered with transformers.

It stands in for a model's own attention through transformers' attention interface, so scaling, rotary
embeddings, masks, sliding windows, soft-capping and attention sinks stay the model's. Outputs come from SDPA
(or the model's eager function, where SDPA cannot compute the layer). The weights of the measured query rows
alone are computed with the model's eager function in float32, so memory grows with the rows, not with L^2.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from .errors import UserError

NAME = "headgeom"


@dataclass(frozen=True)
class LayerView:
    """What one layer's attention showed to an observer.

    weights: [batch, heads, rows, sources] float32, post-softmax; 0 where a source is hidden.
    values: [batch, key/value heads, sources, head_dim] float32; query head h reads h // (heads / kv heads).
    visible: [rows, sources] bool, what the layer's mask lets each measured row see.
    whole: whether the weights sum to 1; beside a learned sink, as in gpt-oss, they sum to less.
    """

    layer: int
    rows: Tensor
    weights: Tensor
    values: Tensor
    visible: Tensor
    whole: bool = True


@dataclass(frozen=True)
class _Session:
    rows: Tensor | None = None
    observe: Callable[[LayerView], None] | None = None
    gates: Tensor | None = None


_session: ContextVar[_Session] = ContextVar("headgeom_session", default=_Session())  # noqa: B039 (frozen)


@contextmanager
def observing(rows: Tensor, observe: Callable[[LayerView], None]) -> Iterator[None]:
    """Call ``observe`` with a LayerView of the query positions ``rows`` [rows] at every attention layer."""
    with _using(_Session(rows=rows, observe=observe)):
        yield


@contextmanager
def gating(gates: Tensor) -> Iterator[None]:
    """Multiply each head's output, before the output projection, by its gate.

    ``gates`` is [layers, heads], or [batch, layers, heads] for a gate set a batch row.
    """
    with _using(_Session(gates=gates)):
        yield


@contextmanager
def _using(session: _Session) -> Iterator[None]:
    token = _session.set(session)
    try:
        yield
    finally:
        _session.reset(token)


def install(model: PreTrainedModel) -> PreTrainedModel:
    """Make ``model`` use this attention function; refuse, by name, architectures that do not support it."""
    AttentionInterface.register(NAME, _attention)
    AttentionMaskInterface.register(NAME, sdpa_mask)
    name = type(model).__name__
    if not (model._supports_attention_backend and model._can_set_attn_implementation()):
        raise UserError(
            f"{name} does not go through transformers' attention interface, so its heads cannot be measured; "
            "choose a model of another architecture (llama, mistral, gemma, qwen, phi3, gpt2, ...)"
        )
    _eager_function(model.base_model)
    model.set_attn_implementation(NAME)
    return model


def _eager_function(module: torch.nn.Module) -> Callable:
    for cls in type(module).__mro__:
        function = getattr(sys.modules[cls.__module__], "eager_attention_forward", None)
        if function is not None:
            return function
    raise UserError(f"{type(module).__name__} has no eager attention function, so its heads cannot be measured")


def _attention(module, query, key, value, attention_mask, scaling=None, dropout=0.0, **kwargs):
    """Signature and shapes of transformers' attention functions: returns [batch, queries, heads, head_dim]."""
    session = _session.get()
    arguments = {"scaling": scaling, "dropout": dropout, **kwargs}
    if kwargs.get("softcap") is not None or kwargs.get("s_aux") is not None:
        mask = _additive(_visible(attention_mask, slice(None), query), query.dtype)
        output, _ = _eager_function(module)(module, query, key, value, mask, **arguments)
    else:
        output, _ = sdpa_attention_forward(module, query, key, value, attention_mask, **arguments)
    if session.observe is not None:
        session.observe(_view(session, module, query, key, value, attention_mask, arguments))
    if session.gates is not None:
        gate = session.gates[..., module.layer_idx, :].to(output)
        output = output * gate.reshape(-1, 1, gate.shape[-1], 1)
    return output, None


def _view(session, module, query, key, value, attention_mask, arguments) -> LayerView:
    rows = session.rows.to(query.device)
    visible = _visible(attention_mask, rows, query)
    # The eager function multiplies the weights with the values too; one channel keeps that product small.
    _, weights = _eager_function(module)(
        module,
        query[:, :, rows].float(),
        key.float(),
        value[..., :1].float(),
        _additive(visible, torch.float32),
        **arguments,
    )
    return LayerView(module.layer_idx, rows, weights, value.float(), visible, arguments.get("s_aux") is None)


def _visible(attention_mask: Tensor | None, rows: Tensor | slice, query: Tensor) -> Tensor:
    """[rows, sources] bool from SDPA's mask, which is None for plain causality or boolean (no padding here)."""
    if attention_mask is not None:
        return attention_mask[0, 0, rows]
    positions = torch.arange(query.shape[2], device=query.device)
    return positions[rows][:, None] >= positions[None, :]


def _additive(visible: Tensor, dtype: torch.dtype) -> Tensor:
    zeros = torch.zeros(visible.shape, dtype=dtype, device=visible.device)
    return zeros.masked_fill(~visible, torch.finfo(dtype).min)[None, None]
