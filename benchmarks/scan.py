"""How losses under gates compare in cost with a loop of whole passes: `python benchmarks/scan.py --help`.

The naive loop is what one would write first: for each set of gates and document a whole pass of the model, with the
loss that transformers computes. Ours starts at the first closed layer; packed, as the workflow runs it, it also
multiplies with weights laid out for oneDNN. The sets close one head each, of evenly spaced layers, as the single-head
scan does; with `--pruned`, a random half of all heads each. All run on the same sets and windows, in turns. Times are
the process's CPU time, and ratios are of runs that follow each other: other users of the machine disturb all alike.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "workflow"))

from headgeom import attention, models, packing, removal, scan, tables


def main() -> None:
    """Print each round's times and the ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoint", type=Path, default="resources/models/smollm2-135m/checkpoint")
    parser.add_argument("--tokens", type=Path, default="results/laptop/tokens/smollm2-135m/wikipedia.parquet")
    parser.add_argument("--documents", type=int, default=1)
    parser.add_argument("--layers", type=int, default=5, help="number of layers whose heads are removed")
    parser.add_argument("--pruned", type=int, metavar="SETS", help="number of sets without half of the heads")
    parser.add_argument("--batch-size", type=int, default=4, help="sets in one pass of ours")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    windows = tables.read_parquet(options.tokens)[0].query("split == 'evaluate'")["tokens"][: options.documents]
    tokens = torch.from_numpy(np.stack(list(windows)).astype(np.int64))
    plain, packed = (attention.install(models.load_model(options.checkpoint)) for _ in range(2))
    packing.pack(packed)
    gates = half_closed(plain.config, options.pruned) if options.pruned else one_closed(plain.config, options.layers)
    print(f"{len(gates)} sets, {len(tokens)} windows of {tokens.shape[1]} tokens, {options.threads} threads")
    runs = {
        "naive": lambda: whole_passes(plain, tokens, gates),
        "ours": lambda: scan.gated_losses(plain, tokens, gates, options.batch_size),
        "ours, packed": lambda: scan.gated_losses(packed, tokens, gates, options.batch_size),
    }
    rounds = [compared(runs, turn) for turn in range(options.rounds)]
    for name in ("ours", "ours, packed"):
        ratios = [one[name] for one in rounds]
        print(f"naive over {name}: median {statistics.median(ratios):.2f}, {min(ratios):.2f} to {max(ratios):.2f}")


def one_closed(config, number: int) -> torch.Tensor:
    """Gates [sets, layers, heads] that close one head each, all heads of ``number`` layers spread evenly."""
    layers, heads = config.num_hidden_layers, config.num_attention_heads
    chosen = {int((i + 0.5) * layers / number) for i in range(number)}
    closed = [(layer, head) for layer in sorted(chosen) for head in range(heads)]
    gates = torch.ones(len(closed), layers, heads)
    for one, (layer, head) in zip(gates, closed, strict=True):
        one[layer, head] = 0
    return gates


def half_closed(config, number: int) -> torch.Tensor:
    """Gates [sets, layers, heads] that close a random half of all heads."""
    shape = (config.num_hidden_layers, config.num_attention_heads)
    scores = (removal.random_scores(shape, 0, draw) for draw in range(number))
    return torch.stack([torch.as_tensor(removal.mask(one, 0.5, 0), dtype=torch.float32) for one in scores])


def compared(runs: dict[str, Callable], turn: int) -> dict[str, float]:
    """Time of the naive loop over that of each run; the order changes from turn to turn."""
    seconds, results = {}, {}
    for name in sorted(runs, reverse=bool(turn % 2)):
        start = time.process_time()
        results[name] = runs[name]()
        seconds[name] = time.process_time() - start
    difference = max(abs(found - results["naive"]).max() for found in results.values())
    times = ", ".join(f"{name} {taken:.1f} s" for name, taken in seconds.items())
    print(f"{times}; losses differ by {difference:.1e}", flush=True)
    return {name: seconds["naive"] / taken for name, taken in seconds.items()}


@torch.inference_mode()
def whole_passes(model, tokens: torch.Tensor, gates: torch.Tensor) -> np.ndarray:
    """The naive loop; losses [sets, documents]."""
    result = np.empty((len(gates), len(tokens)))
    for row, one in enumerate(gates):
        for column, window in enumerate(tokens.split(1)):
            with attention.gating(one):
                result[row, column] = float(model(input_ids=window, labels=window, use_cache=False).loss)
    return result


if __name__ == "__main__":
    main()
