"""Forward passes over token windows, and the labelled arrays that they leave (docs/results.md)."""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from . import bounds, geometry, rankings, sink, winners
from .attention import LayerView, observing
from .errors import InvariantError, UserError
from .estimates import TOGETHER
from .models import OTHER_DTYPE, input_device

_SUM = 1e-3
"""How far from 1 the sum of attention weights may be: a thousand times what float32 makes of it."""
_DIMENSIONS = {
    "fp": ("distance", "ranking", "pool", "size"),
    "tp": ("distance", "ranking", "pool", "size"),
    "inv": ("distance", "ranking", "pool", "size"),
    "random_precision": ("distance", "pool", "size"),
    "random_recall": ("distance", "pool", "size"),
    "random_f": ("distance", "pool", "size"),
    "certified_fp": ("certificate", "ranking", "pool", "size"),
    "certified_tp": ("certificate", "ranking", "pool", "size"),
    "competing_fp": ("ranking", "size"),
    "competing_tp": ("ranking", "size"),
    "sources": ("pool",),
    "sink_rank": ("ranking",),
    "coherence": ("quantile",),
    "similarity": ("lag",),
    "attention_by_lag": ("lag_bin",),
    "attention_by_position": ("position_bin",),
    "votes": ("regime",),
    "role_contribution": ("regime",),
}


@torch.inference_mode()
def measure_batch(
    model, tokens: Tensor, orders: Tensor, rows: list[int], settings: geometry.Settings, pairs: int = 0
) -> dict[str, np.ndarray]:
    """Quantities of every head, [document, layer, head, ...], in one forward pass.

    tokens: [document, length] ids; orders: [document, repeats, length] random orders; rows: query positions,
    the last of which is the query of the geometry; pairs: documents with the costly certificate, the first ones.
    ``model`` has the attention function installed.
    """
    expected = model.config.get_text_config().num_hidden_layers
    result: dict[str, np.ndarray] = {}
    waiting: list[LayerView] = []
    seen: list[int] = []

    def measure() -> None:
        layers, view = [view.layer for view in waiting], _stacked(waiting)
        _check_weights(view, layers)
        found = geometry.measure_layer(view, orders.to(view.weights.device), settings, pairs)
        for name, x in found.items():
            x = x.unflatten(0, (-1, len(layers))).cpu().numpy()
            if name not in result:
                result[name] = np.empty((len(x), expected, *x.shape[2:]), x.dtype)
            result[name][:, layers] = x
        seen.extend(layers)
        waiting.clear()

    def observe(view: LayerView) -> None:
        if waiting and not _together(view, waiting[0]):
            measure()
        waiting.append(view)
        if sum(other.weights[:, :, -1].numel() for other in waiting) >= TOGETHER[view.weights.device.type]:
            measure()

    with observing(torch.tensor(rows), observe):
        states = model.base_model(input_ids=tokens.to(input_device(model)), use_cache=False).last_hidden_state
    if not states.isfinite().all():
        raise InvariantError(f"{type(model).__name__}: its hidden states overflow in {model.dtype}; {OTHER_DTYPE}.")
    if waiting:
        measure()
    if sorted(seen) != list(range(expected)):
        raise UserError(
            f"{type(model).__name__}: only {len(seen)} of {expected} layers have attention heads that can be measured"
        )
    return result


def _check_weights(view: LayerView, layers: list[int]) -> None:
    """Raise where attention weights do not sum to 1, with the address; ``view`` stacks the ``layers``."""
    total = view.weights.sum(-1)
    right = (total >= 0) & (total < 1 + _SUM) & ((total > 1 - _SUM) | (not view.whole))
    if bool(right.all()):
        return
    place, head, row = (~right).nonzero()[0].tolist()
    document, layer = divmod(place, len(layers))
    raise InvariantError(
        f"document {document + 1} of the batch, layer {layers[layer]}, head {head}, query {int(view.rows[row])}: "
        f"attention weights sum to {total[place, head, row]:.6g}, not 1; if that is nan, the model overflows: "
        f"{OTHER_DTYPE}"
    )


def _together(first: LayerView, second: LayerView) -> bool:
    """Whether two layers see the same sources, on the same device."""
    return first.visible.device == second.visible.device and torch.equal(first.visible, second.visible)


def _stacked(views: list[LayerView]) -> LayerView:
    """Layers that see the same sources as one, whose batch holds the layers of each document in turn."""
    weights, values = (
        torch.stack([getattr(view, name) for view in views], dim=1).flatten(0, 1) for name in ("weights", "values")
    )
    return replace(views[0], weights=weights, values=values)


def dataset(
    batches: Iterable[dict[str, np.ndarray]], documents: list[str], orders: list[int], settings: geometry.Settings
) -> xr.Dataset:
    """The batches' documents as one labelled data set."""
    batches = list(batches)
    variables = {}
    for name in batches[0]:
        array = np.concatenate([batch[name] for batch in batches])
        array = array.astype(np.float32 if array.dtype == np.float32 else _narrow(array.dtype))
        variables[name] = (("document", "layer", "head", *_DIMENSIONS.get(name, ())), array)
    layers, heads = batches[0]["sink_mass"].shape[1:3]
    coordinates = {
        "document": documents,
        "order": ("document", np.array(orders, dtype=np.int32)),
        "layer": np.arange(layers, dtype=np.int32),
        "head": np.arange(heads, dtype=np.int32),
        "distance": settings.distances,
        "ranking": list(rankings.SCORED),
        "pool": list(rankings.POOLS),
        "certificate": list(bounds.LEVELS),
        "size": np.array(settings.sizes, dtype=np.int32),
        "regime": list(winners.REGIMES),
        "quantile": np.array(sink.QUANTILES),
        "lag": np.array(settings.lags, dtype=np.int32),
        "lag_bin": np.array(settings.lag_edges, dtype=np.int32),
        "position_bin": np.array(settings.position_edges, dtype=np.int32),
    }
    return xr.Dataset(variables, coordinates, attrs={"length": settings.length})


def encoding(data: xr.Dataset) -> dict[str, dict]:
    """NetCDF encoding: compressed; -1 marks missing integers."""
    return {
        str(name): {"zlib": True, "complevel": 4, "_FillValue": -1 if variable.dtype.kind == "i" else np.nan}
        for name, variable in data.data_vars.items()
    }


def _narrow(dtype: np.dtype) -> type:
    return np.int32 if dtype.kind in "iu" else np.float64
