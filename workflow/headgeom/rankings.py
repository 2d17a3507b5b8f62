"""Orders of the sources of an attention operation (spec, section 2).

``attention`` ranks by weight, ``contribution`` by weight times value norm, both with ties to the lower index;
``random`` orders are shared by all heads of a document and nested in N.
"""

import numpy as np
import torch
from torch import Tensor

from .windows import hashed

SCORED = ("attention", "contribution")
POOLS = ("all", "no_sink")


def score_orders(weights: Tensor, norms: Tensor) -> Tensor:
    """Orders of both scored rankings.

    weights, norms: [..., sources] attention weights and value norms. Returns [..., 2, sources] indices, best first.
    """
    scores = torch.stack((weights, weights * norms), dim=-2)
    return torch.sort(scores, dim=-1, descending=True, stable=True).indices


def random_orders(seed: int, corpus: str, document: str, repeats: int, sources: int) -> Tensor:
    """Uniformly random orders [repeats, sources], each from its own seed (run seed, corpus, document, repeat)."""
    orders = [
        np.random.default_rng(hashed(seed, corpus, document, repeat)).permutation(sources) for repeat in range(repeats)
    ]
    return torch.from_numpy(np.stack(orders))


def prefix_masks(orders: Tensor, sources: Tensor, sizes: list[int]) -> Tensor:
    """Selected sets of orders restricted to some sources.

    orders: [..., repeats, all sources]; sources: indices that remain, ascending. Returns
    [..., repeats, sizes, remaining sources] bool, true for the first N remaining sources of each order.
    """
    ranks = torch.argsort(orders, dim=-1)[..., sources]
    ranks = torch.argsort(torch.argsort(ranks, dim=-1), dim=-1)
    return ranks.unsqueeze(-2) < torch.tensor(sizes, device=orders.device)[:, None]
