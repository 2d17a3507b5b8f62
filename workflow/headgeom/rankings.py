"""Orders of the sources of an attention operation, and the sets that they select (spec, section 2).

``attention`` ranks by weight, ``contribution`` by weight times value norm, both with ties to the lower index;
``random`` orders are shared by all heads of a document and nested in N. Sets are lists of indices, [..., sets, N].
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from .windows import hashed

SCORED = ("attention", "contribution")
POOLS = ("all", "no_sink")


def score_orders(weights: Tensor, norms: Tensor, top: int) -> Tensor:
    """The first ``top`` sources in both scored rankings, [..., 2, top] indices, best first.

    weights, norms: [..., sources] attention weights and value norms, float32 and not negative.
    """
    scores = torch.stack((weights, weights * norms), dim=-2)
    # The bits of floats that are not negative are ordered as the floats are; the index below them settles ties.
    keys = (scores.view(torch.int32).long() << 32) - torch.arange(scores.shape[-1], device=scores.device)
    return torch.topk(keys, top, dim=-1).indices


def without_first(orders: Tensor) -> Tensor:
    """Orders [..., length - 1] of the other sources, from orders [..., length] that may hold source 0."""
    passed = (orders == 0).cumsum(-1)[..., :-1]
    return orders.gather(-1, torch.arange(passed.shape[-1], device=orders.device) + passed)


def random_orders(seed: int, corpus: str, document: str, repeats: int, sources: int) -> Tensor:
    """Uniformly random orders [repeats, sources], each from its own seed (run seed, corpus, document, repeat)."""
    orders = [
        np.random.default_rng(hashed(seed, corpus, document, repeat)).permutation(sources) for repeat in range(repeats)
    ]
    return torch.from_numpy(np.stack(orders))


def restricted(orders: Tensor, sources: Tensor) -> Tensor:
    """Orders [..., all sources] of just ``sources`` (indices, ascending), which are counted from 0."""
    return torch.argsort(torch.argsort(orders, dim=-1)[..., sources], dim=-1)


@dataclass(frozen=True)
class RandomSets:
    """Random sets of one size N, which both pools share where the sink is not selected.

    index: [sets, N]; rows: [pools, repeats], which of the sets it is in each pool and repeat.
    """

    index: Tensor
    rows: Tensor


def random_sets(orders: Tensor, size: int, has_sink: bool) -> RandomSets:
    """The sets of the first ``size`` sources of orders [repeats, sources]; the sink is source 0 if there is one."""
    first = orders[:, :size]
    each = torch.arange(len(orders), device=orders.device)
    held = (first == 0).any(-1) & has_sink
    others = without_first(orders)[held, :size]
    return RandomSets(
        torch.cat((first, others)), torch.stack((each, torch.where(held, len(orders) - 1 + held.cumsum(0), each)))
    )
