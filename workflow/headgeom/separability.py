"""Separability of a selected set from the other sources (spec, section 3).

With s the sum of the selected contributions and D_j = ||y_j - s||, put g_j = 2 <y_j, s> - ||y_j||^2, so that
D_j^2 = ||s||^2 - g_j and D_j <= D_i iff g_j >= g_i. For the cosine distance g_j = <y_j, s> / ||y_j||, and 0 for
a zero vector. Hence, with S the selected set,

    FP  = #{ j not in S : g_j >= min_S g }       TP = #{ i in S : g_i > max_{not S} g }
    INV = #{ (i in S, j not in S) : g_j >= g_i }
"""

import torch
from torch import Tensor


def closeness(contributions: Tensor, sums: Tensor, distance: str = "euclidean") -> Tensor:
    """g of every source for every selected set, larger where nearer.

    contributions: [..., sources, head_dim]; sums: [..., sets, head_dim], the sum over each set.
    Returns [..., sets, sources].
    """
    if distance == "euclidean":
        return 2 * sums @ contributions.transpose(-1, -2) - contributions.square().sum(-1).unsqueeze(-2)
    # Scaled first: the squares of weights below 1e-19 are zero in float32, but their directions count.
    largest = contributions.abs().amax(-1, keepdim=True)
    units = contributions / torch.where(largest > 0, largest, 1.0)
    units = units / torch.where(largest > 0, units.norm(dim=-1, keepdim=True), 1.0)
    return sums @ units.transpose(-1, -2)


def outer_counts(g: Tensor, selected: Tensor) -> tuple[Tensor, Tensor]:
    """FP and TP, [..., sets] int64, from g [..., sets, sources] and the sets' masks (broadcastable bool)."""
    farthest = torch.where(selected, g, torch.inf).amin(-1, keepdim=True)
    nearest = torch.where(selected, -torch.inf, g).amax(-1, keepdim=True)
    # All selected sources have g >= farthest, and no other has g > nearest.
    fp = (g >= farthest).sum(-1) - selected.sum(-1)
    return fp, (g > nearest).sum(-1)


def inversions(g: Tensor, sizes: Tensor) -> Tensor:
    """INV, [..., sizes] int64, where the first sizes[k] sources of g [..., sizes, sources] are the k-th set."""
    sources = g.shape[-1]
    # Reversed, unselected sources come first, so a stable sort puts them before selected ones at ties.
    order = torch.sort(g.flip(-1), dim=-1, descending=True, stable=True).indices
    selected = order >= sources - sizes.unsqueeze(-1)
    return ((~selected).cumsum(-1) * selected).sum(-1)


def prefix_sums(ranked: Tensor, sizes: list[int]) -> Tensor:
    """Sums [..., sizes, head_dim] of the first N of ranked contributions [..., sources, head_dim]."""
    ends = torch.tensor(sizes, device=ranked.device)
    return ranked[..., : max(sizes), :].cumsum(-2)[..., ends - 1, :]


def prefix_sets(sources: int, sizes: list[int], device: torch.device | None = None) -> Tensor:
    """Masks [sizes, sources] of the first N sources."""
    return torch.arange(sources, device=device) < torch.tensor(sizes, device=device)[:, None]


def prefix_counts(g: Tensor, sizes: list[int]) -> tuple[Tensor, Tensor, Tensor]:
    """FP, TP and INV, each [..., sizes], of the first N sources of g [..., sizes, sources]; N below the sources."""
    selected = prefix_sets(g.shape[-1], sizes, g.device)
    return *outer_counts(g, selected), inversions(g, torch.tensor(sizes, device=g.device))


def precision_recall_f(fp: Tensor, tp: Tensor, sizes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """P = N / (N + FP), R = TP / N and F = 2PR / (P + R), float64; ``sizes`` broadcasts against the counts."""
    precision = sizes / (sizes + fp).double()
    recall = tp.double() / sizes
    return precision, recall, 2 * precision * recall / (precision + recall)
