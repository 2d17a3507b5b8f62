"""Separability of a selected set from the other sources (spec, section 3).

With s the sum of the selected contributions and D_j = ||y_j - s||, put g_j = 2 <y_j, s> - ||y_j||^2, so that
D_j^2 = ||s||^2 - g_j and D_j <= D_i iff g_j >= g_i. For the cosine distance g_j = <y_j, s> / ||y_j||, and 0 for
a zero vector. Hence, with S the selected set,

    FP  = #{ j not in S : g_j >= min_S g }       TP = #{ i in S : g_i > max_{not S} g }
    INV = #{ (i in S, j not in S) : g_j >= g_i }

The pools ``all`` and ``no_sink`` differ in one competitor, the sink. So each set is counted without it, and again with
it where it competes.
"""

import torch
from torch import Tensor

_BLOCK = 1 << 18
"""Comparisons made at once, 1 MB in float32: temporaries that stay in a core's cache are several times faster."""


def selected_sums(contributions: Tensor, index: Tensor) -> Tensor:
    """s of each set, [..., sets, head_dim]; contributions: [..., sources, head_dim], index: [..., sets, N]."""
    masks = contributions.new_zeros(*index.shape[:-1], contributions.shape[-2]).scatter_(-1, index, 1.0)
    return masks @ contributions


def directions(contributions: Tensor, distance: str = "euclidean") -> tuple[Tensor, Tensor]:
    """Vectors [..., sources, head_dim] and offsets [..., sources] such that g_j = <vector_j, s> - offset_j."""
    if distance == "euclidean":
        return 2 * contributions, contributions.square().sum(-1)
    # Scaled first: the squares of weights below 1e-19 are zero in float32, but their directions count.
    largest = contributions.abs().amax(-1, keepdim=True)
    units = contributions / torch.where(largest > 0, largest, 1.0)
    units = units / torch.where(largest > 0, units.norm(dim=-1, keepdim=True), 1.0)
    return units, torch.zeros_like(units[..., 0])


def closeness(sums: Tensor, vectors: Tensor, offsets: Tensor) -> Tensor:
    """g [..., sets, sources] of every source for every set, larger where nearer; see ``directions``."""
    return (sums @ vectors.transpose(-1, -2)).sub_(offsets.unsqueeze(-2))


def split(g: Tensor, index: Tensor, has_sink: bool) -> tuple[Tensor, Tensor, Tensor]:
    """g [..., sets, sources] of the selected sources [..., sets, N], of the others, and of the sink [..., sets].

    The others' are ``g`` itself, overwritten with -inf at the selected sources and at the sink (source 0, if there is
    one); the sink's is -inf where it is selected.
    """
    chosen = g.gather(-1, index)
    rest = g.scatter_(-1, index, -torch.inf)
    if not has_sink:
        return chosen, rest, torch.full_like(g[..., 0], -torch.inf)
    sink = rest[..., 0].clone()
    rest[..., 0] = -torch.inf
    return chosen, rest, sink


def outer_counts(chosen: Tensor, rest: Tensor, sink: Tensor) -> tuple[Tensor, Tensor]:
    """FP and TP, each [pools, ..., sets] int64, of what ``split`` returns; ``rest`` is overwritten."""
    farthest, nearest = chosen.amin(-1), rest.amax(-1)
    # Ones and zeros in floats are counted exactly, and much faster than bools.
    fp = rest.ge_(farthest.unsqueeze(-1)).sum(-1).long()
    nearest = torch.stack((torch.maximum(nearest, sink), nearest))
    return torch.stack((fp + (sink >= farthest), fp)), (chosen > nearest.unsqueeze(-1)).sum(-1)


def inversions(chosen: Tensor, rest: Tensor, sink: Tensor) -> Tensor:
    """INV, [pools, ..., sets] int64, of what ``split`` returns."""
    thresholds, others = chosen.flatten(0, -2).unsqueeze(2), rest.flatten(0, -2).unsqueeze(1)
    size, sources = chosen.shape[-1], rest.shape[-1]
    step = max(1, _BLOCK // (size * sources))
    buffer = others.new_empty(min(step, len(others)), size, sources)
    counts = [
        torch.ge(part, threshold, out=buffer[: len(part)]).sum(-1).long().sum(-1)
        for part, threshold in zip(others.split(step), thresholds.split(step), strict=True)
    ]
    without = torch.cat(counts).reshape(sink.shape)
    return torch.stack((without + (sink.unsqueeze(-1) >= chosen).sum(-1), without))


def precision_recall_f(fp: Tensor, tp: Tensor, sizes: Tensor | int) -> tuple[Tensor, Tensor, Tensor]:
    """P = N / (N + FP), R = TP / N and F = 2PR / (P + R), float64; ``sizes`` broadcasts against the counts."""
    precision = sizes / (sizes + fp).double()
    recall = tp.double() / sizes
    return precision, recall, 2 * precision * recall / (precision + recall)
