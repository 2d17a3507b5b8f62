"""Runs of a model that start at a layer, from the hidden states that an earlier run left there.

A layer's input depends on the layers before it alone. Skipped layers return the given states instead of computing, so
all that lies around the layers (embeddings, masks, rotary angles, final norm, vocabulary head with its scaling and
capping) stays the model's own code, whatever the architecture. "Layer n", where n is their number, stands for what
leaves the last one: a run that starts there computes the final norm and the head alone.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor
from transformers import PreTrainedModel
from transformers.modeling_layers import GradientCheckpointingLayer

from .errors import UserError
from .models import OTHER_DTYPE

_TRIED = 16


class CannotRestartError(Exception):
    """This architecture's layers cannot be run from given states; the message says why."""


def layers(model: PreTrainedModel) -> list[torch.nn.Module]:
    """The decoder layers, in order. Raises CannotRestartError if they cannot be told from other modules."""
    found = [module for module in model.base_model.modules() if isinstance(module, GradientCheckpointingLayer)]
    expected = model.config.get_text_config().num_hidden_layers
    if len(found) != expected:
        name = type(model).__name__
        raise CannotRestartError(f"{name} has {expected} layers, but {len(found)} modules look like one")
    return found


@contextmanager
def recording(model: PreTrainedModel, wanted: Iterable[int]) -> Iterator[dict[int, Tensor]]:
    """Fill the yielded dict with the states [batch, length, hidden] that enter each of the layers ``wanted``."""
    states: dict[int, Tensor] = {}
    stack = layers(model)
    handles = []
    for layer in set(wanted):
        if layer == len(stack):
            handles.append(stack[-1].register_forward_hook(_keep_output(states, layer)))
        else:
            handles.append(stack[layer].register_forward_pre_hook(_keep_input(states, layer)))
    try:
        yield states
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def starting(model: PreTrainedModel, layer: int, states: Tensor | None) -> Iterator[None]:
    """Skip the layers before ``layer``, which gets ``states``; a start at layer 0 skips nothing and needs none."""
    skipped = layers(model)[:layer]
    own = [vars(module).get("forward") for module in skipped]  # of a model that is spread, accelerate's
    for module in skipped:
        module.forward = lambda *arguments, **options: states
    try:
        yield
    finally:
        for module, forward in zip(skipped, own, strict=True):
            if forward is None:
                del module.forward
            else:
                module.forward = forward


def final_states(model: PreTrainedModel, tokens: Tensor, layer: int = 0, states: Tensor | None = None) -> Tensor:
    """What leaves the last layer, [batch, length, hidden], of a run on tokens [batch, length] that starts at
    ``layer`` with ``states``."""
    last = len(layers(model))
    with starting(model, layer, states), recording(model, [last]) as recorded:
        model.base_model(input_ids=tokens, use_cache=False)
    return recorded[last]


def logits(model: PreTrainedModel, states: Tensor) -> Tensor:
    """Logits [rows, vocabulary] of states [rows, hidden] that left the last layer."""
    # The head works on each position by itself, so rows pass as windows of one token, whichever token it is.
    tokens = torch.zeros(len(states), 1, dtype=torch.long, device=states.device)
    with starting(model, len(layers(model)), states.unsqueeze(1)):
        return model(input_ids=tokens, use_cache=False).logits.squeeze(1)


@torch.no_grad()
def why_not(model: PreTrainedModel, window: Tensor) -> str | None:
    """Why the model cannot be run from the states that enter a layer; None if it can.

    Tried on the first tokens of a window [1, length] from an early, a middle and the last layer: later layers may use
    more of earlier ones than their states, such as keys and values. Raises UserError if the logits are not finite.
    """
    window, name = window[:, :_TRIED], type(model).__name__
    try:
        last = len(layers(model)) - 1
        starts = {min(1, last), last // 2, last}
        with recording(model, starts) as states:
            expected = model(input_ids=window, use_cache=False).logits[0]
        finals = {start: final_states(model, window, start, states[start])[0] for start in sorted(starts)}
        found = {start: logits(model, final).to(expected.device) for start, final in finals.items()}
    except CannotRestartError as error:
        return str(error)
    except Exception as error:  # what an architecture does without its first layers is not foreseeable
        return f"{name} does not run from a later layer ({type(error).__name__}: {error})"
    if not expected.isfinite().all():
        raise UserError(f"{name}: its logits are not finite in {model.dtype}; {OTHER_DTYPE}.")
    tolerance = torch.finfo(model.dtype).eps ** 0.5
    for start, again in found.items():
        if not torch.allclose(again, expected, rtol=tolerance, atol=tolerance * float(expected.abs().max())):
            return f"{name} gives other logits when it is run from layer {start}"
    return None


def _keep_input(states: dict[int, Tensor], layer: int) -> Callable:
    def hook(module: torch.nn.Module, arguments: tuple) -> None:
        states[layer] = arguments[0]

    return hook


def _keep_output(states: dict[int, Tensor], layer: int) -> Callable:
    def hook(module: torch.nn.Module, arguments: tuple, output: Tensor) -> None:
        states[layer] = output

    return hook
