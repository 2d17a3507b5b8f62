"""Do the float32 counts equal those that float64 finds in the same weights and values? `--help` lists the options.

Each record is one set: a document, layer, head, ranking, pool and size. The reference takes the captured weights and
values as they are, and orders, sums, distances and counts in float64, straight from the definitions (spec, sections 2
and 3). For each record that differs, it prints how nearly tied the two nearest distances across the cut are.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "workflow"))

from headgeom import attention, geometry, models, rankings, tables
from headgeom.separability import precision_recall_f

ROOT = Path(__file__).resolve().parents[1]
SIZES, REPEATS = [1, 2, 4, 8, 16, 32, 64, 128, 256], 16


def main() -> None:
    """Print the records that differ, and their share."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkpoint", type=Path, default=ROOT / "resources/models/smollm2-135m/checkpoint")
    parser.add_argument("--tokens", type=Path, default=ROOT / "results/laptop/tokens/smollm2-135m/wikipedia.parquet")
    parser.add_argument("--documents", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(1)
    model = attention.install(models.load_model(options.checkpoint))
    windows = tables.read_parquet(options.tokens)[0].query("split == 'geometry'")[: options.documents]
    records = differ = rates = rates_differ = 0
    for document, tokens in zip(windows["document"], windows["tokens"], strict=True):
        for view, found, orders in measured(model, str(document), torch.tensor(np.array(tokens, dtype=np.int64))):
            for head in range(view.weights.shape[1]):
                for where, ours, theirs, tie in compared(view, head, found, orders):
                    records += 1
                    if not np.array_equal(ours, theirs):
                        differ += 1
                        place = f"{document}, layer {view.layer}, head {head}, {where}"
                        print(f"{place}: FP, TP, INV {ours}, in float64 {theirs}; nearest pair {tie:.1e}")
                for ours, theirs in random_rates(view, head, found, orders):
                    rates += 1
                    rates_differ += not np.allclose(ours, theirs, rtol=0, atol=1e-12)
    print(f"{differ} of {records} records differ: {100 * (1 - differ / records):.4f} % agree")
    print(f"{rates_differ} of {rates} means over random sets differ: {100 * (1 - rates_differ / rates):.4f} % agree")


@torch.inference_mode()
def measured(model, document: str, tokens: torch.Tensor):
    """Each layer's view, counts, and the random orders of the document."""
    length, views = len(tokens), []
    settings = geometry.Settings(length, [size for size in SIZES if size < length], ["euclidean"])
    orders = rankings.random_orders(0, "agreement", document, REPEATS, length)
    with attention.observing(torch.tensor([length - 1]), views.append):
        model.base_model(input_ids=tokens[None], use_cache=False)
    for view in views:
        found = geometry.measure_layer(view, orders[None], settings)
        yield view, {name: x[0].numpy() for name, x in found.items()}, orders.numpy()


def operation(view, head: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Visible sources, their contributions and scores [2, sources] in float64."""
    sources = view.visible[-1].nonzero().squeeze(-1)
    group = view.weights.shape[1] // view.values.shape[1]
    weights = view.weights[0, head, -1, sources].double().numpy()
    values = view.values[0, head // group, sources].double().numpy()
    return sources.numpy(), weights[:, None] * values, np.stack((weights, weights * np.linalg.norm(values, axis=1)))


def counts(y: np.ndarray, selected: np.ndarray) -> tuple[list[int], float]:
    """FP, TP, INV of a set, and the smallest relative difference of two distances across its cut."""
    distances = np.linalg.norm(y - y[selected].sum(0), axis=1)
    inside, outside = distances[selected], np.delete(distances, selected)
    fp, tp = (outside <= inside.max()).sum(), (inside < outside.min()).sum()
    gaps = outside[:, None] - inside
    return [int(fp), int(tp), int((gaps <= 0).sum())], float(np.abs(gaps).min() / (inside.max() or 1))


def compared(view, head: int, found: dict, orders: np.ndarray):
    """(Name, our counts, those of float64, nearest pair) of each set of the scored rankings."""
    sources, y, scores = operation(view, head)
    for p, pool in enumerate((sources >= 0, sources != 0)):
        for r, ranking in enumerate(rankings.SCORED):
            order = np.argsort(-scores[r][pool], kind="stable")
            for k, size in enumerate(SIZES):
                if size < pool.sum():
                    ours = [int(found[name][head, 0, r, p, k]) for name in ("fp", "tp", "inv")]
                    yield f"{ranking}, {rankings.POOLS[p]}, N {size}", ours, *counts(y[pool], order[:size])


def random_rates(view, head: int, found: dict, orders: np.ndarray):
    """(Ours, those of float64), the mean P, R and F over the random sets of each pool and size."""
    sources, y, _ = operation(view, head)
    for p, pool in enumerate((sources >= 0, sources != 0)):
        place = {source: i for i, source in enumerate(sources[pool])}
        kept = [np.array([place[j] for j in order if j in place]) for order in orders]
        for k, size in enumerate(SIZES):
            if size < pool.sum():
                fp, tp, _ = torch.tensor([counts(y[pool], order[:size])[0] for order in kept]).T
                expected = [rate.mean().item() for rate in precision_recall_f(fp, tp, size)]
                ours = [found[f"random_{name}"][head, 0, p, k] for name in ("precision", "recall", "f")]
                yield ours, expected


if __name__ == "__main__":
    main()
