"""Separability of a selected set from the other sources (spec, section 3).

With s the sum of the selected contributions and D_j = ||y_j - s||, put g_j = 2 <y_j, s> - ||y_j||^2, so that
D_j^2 = ||s||^2 - g_j and D_j <= D_i iff g_j >= g_i. For the cosine distance g_j = <y_j, s> / ||y_j||, and 0 for
a zero vector. Hence, with S the selected set,

    FP  = #{ j not in S : g_j >= min_S g }       TP = #{ i in S : g_i > max_{not S} g }
    INV = #{ (i in S, j not in S) : g_j >= g_i }

As y_j = a_j v_j, all that is needed of vectors is <v_j, s>, for which the heads that read one key/value head share a
product. The pools ``all`` and ``no_sink`` differ in one competitor, the sink, so each set is counted without it, and
again with it where it competes.
"""

import torch
from torch import Tensor

_BLOCK = 1 << 18
"""Comparisons made at once, 1 MB in float32: temporaries that stay in a core's cache are several times faster."""


def selected_sums(weights: Tensor, values: Tensor, index: Tensor) -> Tensor:
    """s of each set, [heads, sets, head_dim].

    weights: [heads, sources]; values: [key/value heads, sources, head_dim]; index: [heads, sets, N].
    """
    each = weights.unsqueeze(1).expand(-1, index.shape[1], -1)
    chosen = torch.zeros_like(each, memory_format=torch.contiguous_format).scatter_(-1, index, each.gather(-1, index))
    return (chosen.reshape(len(values), -1, chosen.shape[-1]) @ values).reshape(*index.shape[:2], -1)


def products(sums: Tensor, values: Tensor) -> Tensor:
    """<v_j, s> of every source and set, [heads, sets, sources]; shapes as in ``selected_sums``."""
    shared = sums.reshape(len(values), -1, sums.shape[-1]) @ values.transpose(-1, -2)
    return shared.reshape(*sums.shape[:2], -1)


def scales(weights: Tensor, norms: Tensor, distance: str = "euclidean") -> tuple[Tensor, Tensor]:
    """Factors and offsets, each [heads, 1, sources], such that g_j = factor_j <v_j, s> - offset_j.

    weights, norms: [heads, sources] attention weights and value norms.
    """
    if distance == "euclidean":
        factors, offsets = 2 * weights, (weights * norms).square()
    else:
        real = (weights > 0) & (norms > 0)
        factors = torch.where(real, 1 / torch.where(real, norms, 1), 0)
        offsets = torch.zeros_like(factors)
    return factors.unsqueeze(1), offsets.unsqueeze(1)


def split(g: Tensor, index: Tensor, has_sink: bool) -> tuple[Tensor, Tensor, Tensor]:
    """g [..., sets, sources] of the selected sources [..., sets, N], of the others, and of the sink [..., sets]."""
    chosen = g.gather(-1, index)
    return chosen, *unselected(g, index, has_sink)


def unselected(g: Tensor, index: Tensor, has_sink: bool) -> tuple[Tensor, Tensor]:
    """g [..., sets, sources] of the sources that are not selected, and of the sink [..., sets].

    The former is ``g`` itself, overwritten with -inf at the selected sources and at the sink (source 0, if there is
    one); the latter is -inf where the sink is selected.
    """
    rest = g.scatter_(-1, index, -torch.inf)
    if not has_sink:
        return rest, torch.full_like(g[..., 0], -torch.inf)
    sink = rest[..., 0].clone()
    rest[..., 0] = -torch.inf
    return rest, sink


def outer_counts(chosen: Tensor, rest: Tensor, sink: Tensor) -> tuple[Tensor, Tensor]:
    """FP and TP, each [pools, ..., sets] int64, of what ``split`` returns; ``rest`` is overwritten."""
    farthest, nearest = chosen.amin(-1), rest.amax(-1)
    # Ones and zeros in floats are counted exactly, and much faster than bools.
    fp = rest.ge_(farthest.unsqueeze(-1)).sum(-1).long()
    nearest = torch.stack((torch.maximum(nearest, sink), nearest)).unsqueeze(-1)
    nearer = torch.gt(chosen, nearest, out=chosen.new_empty(len(nearest), *chosen.shape))
    return torch.stack((fp + (sink >= farthest), fp)), nearer.sum(-1).long()


def inversions(chosen: Tensor, rest: Tensor, sink: Tensor) -> Tensor:
    """INV, [pools, ..., sets] int64, of what ``split`` returns."""
    thresholds, others = chosen.flatten(0, -2).unsqueeze(2), rest.flatten(0, -2).unsqueeze(1)
    size, sources = chosen.shape[-1], rest.shape[-1]
    step = max(1, _BLOCK // (size * sources))
    buffer = others.new_empty(min(step, others.shape[0]), size, sources)
    beyond = others.new_empty(*thresholds.shape[:2])
    for start in range(0, others.shape[0], step):
        block = slice(start, start + step)
        part = others[block]
        torch.sum(torch.ge(part, thresholds[block], out=buffer[: part.shape[0]]), -1, out=beyond[block])
    without = beyond.long().sum(-1).reshape(sink.shape)
    return torch.stack((without + (sink.unsqueeze(-1) >= chosen).sum(-1), without))


def precision_recall_f(fp: Tensor, tp: Tensor, sizes: Tensor | int) -> tuple[Tensor, Tensor, Tensor]:
    """P = N / (N + FP), R = TP / N and F = 2PR / (P + R), float64; ``sizes`` broadcasts against the counts."""
    precision = sizes / (sizes + fp).double()
    recall = tp.double() / sizes
    return precision, recall, 2 * precision * recall / (precision + recall)
