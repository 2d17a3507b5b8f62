"""Which heads are kept and which removed: orders, masks, and the sets of the regime ablation (spec, section 7).

A mask is [layers, heads], 1 for a head that is kept, 0 for one that is removed; it is used as the heads' gates.
Draws are hashes of (seed, purpose, number, layer, head), the same on every machine; equal scores are ordered by the
hash of (seed, layer, head), never by layer index, which would prune the model from one end.
"""

import math
from fractions import Fraction

import numpy as np

from .windows import hashed


def order(scores: np.ndarray, seed: int) -> np.ndarray:
    """Flat indices of the heads, [layers * heads], the one with the largest score first; scores: [layers, heads]."""
    if np.isnan(scores).any():
        raise ValueError("a head has no score")
    return np.lexsort((_hashes(scores.shape, seed).ravel(), -scores.ravel()))


def number(share: float, heads: int) -> int:
    """floor(share * heads + 1/2), of the share as it is written in decimals."""
    return math.floor(Fraction(str(share)) * heads + Fraction(1, 2))


def mask(scores: np.ndarray, retention: float, seed: int) -> np.ndarray:
    """Mask that keeps the best ``number(retention, heads)`` heads over the whole model."""
    kept = np.zeros(scores.size)
    kept[order(scores, seed)[: number(retention, scores.size)]] = 1
    return kept.reshape(scores.shape)


def random_scores(shape: tuple[int, int], seed: int, draw: int) -> np.ndarray:
    """Scores in [0, 1) that put the heads [layers, heads] in a random order; each ``draw`` is another one."""
    return _hashes(shape, seed, "random", draw) / 2**64


def ablation(regimes: np.ndarray, regime: int, share: float, seed: int, draw: int) -> tuple[np.ndarray, np.ndarray]:
    """Masks (treated, control) of one draw.

    regimes: [layers, heads] indices. Treated removes ``number(share, heads)`` heads of ``regime``, or all of them if
    there are fewer. Control removes as many in each layer, drawn from all of the layer's heads: where the two overlap
    they remove the same.
    """
    members = regimes == regime
    count = min(number(share, regimes.size), int(members.sum()))
    drawn = np.where(members, _hashes(regimes.shape, seed, "ablation", draw).astype(float), np.inf)
    treated = np.ones(regimes.shape)
    treated.ravel()[drawn.argsort(axis=None, kind="stable")[:count]] = 0
    control = np.ones(regimes.shape)
    for layer, ranks in enumerate(_hashes(regimes.shape, seed, "control", draw).argsort(axis=1).argsort(axis=1)):
        control[layer, ranks < (treated[layer] == 0).sum()] = 0
    return treated, control


def overlap(treated: np.ndarray, control: np.ndarray) -> float:
    """Share of the control's removed heads that the treated mask removes too; NaN where nothing is removed."""
    removed = control == 0
    return float((treated[removed] == 0).mean()) if removed.any() else math.nan


def _hashes(shape: tuple[int, int], seed: int, *purpose: str | int) -> np.ndarray:
    layers, heads = shape
    return np.array(
        [[hashed(seed, *purpose, layer, head) for head in range(heads)] for layer in range(layers)], dtype=np.uint64
    )
