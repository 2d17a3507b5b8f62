"""How the cost of extraction grows with L, documents, repeats and sizes: `python benchmarks/growth.py --help`.

Each row is the median CPU time of extraction and of a plain pass over the same windows of random tokens, in turns. The
exponent is the slope of log CPU seconds by log of what grows, fitted to its rows by least squares.
"""

import argparse
import statistics
import sys
import time
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "workflow"))

from headgeom import attention, extraction, geometry, models, rankings, winners

ROOT = Path(__file__).resolve().parents[1]
SIZES = [1, 2, 4, 8, 16, 32, 64, 128, 256]
BASE = {"L": 512, "documents": 1, "repeats": 16, "sizes": 8}


def main() -> None:
    """Print the table and the exponents."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkpoint", type=Path, default=ROOT / "resources/models/smollm2-135m/checkpoint")
    parser.add_argument("--lengths", type=int, nargs="+", default=[256, 512, 1024, 2048, 4096])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    model = attention.install(models.load_model(options.checkpoint))
    ranges = {"L": options.lengths, "documents": [1, 2, 4], "repeats": [4, 8, 16, 32], "sizes": [2, 4, 8]}
    print("| L | documents | repeats | sizes | extraction, CPU s | plain, CPU s | extraction / plain |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    exponents = []
    for name, values in ranges.items():
        rows = [row(model, BASE | {name: value}, options.rounds) for value in values]
        ours, plain = (np.polyfit(np.log(values), np.log(column), 1)[0] for column in zip(*rows, strict=True))
        exponents.append(f"- {name} {values[0]} to {values[-1]}: extraction {ours:.2f}, plain {plain:.2f}")
    print("\nExponents:\n")
    print("\n".join(exponents))


def row(model, case: dict[str, int], rounds: int) -> tuple[float, float]:
    """CPU seconds of extraction and of a plain pass; prints them."""
    length = case["L"]
    tokens = torch.randint(3, 1000, (case["documents"], length), generator=torch.Generator().manual_seed(length))
    orders = [rankings.random_orders(0, "growth", str(i), case["repeats"], length) for i in range(case["documents"])]
    settings = geometry.Settings(length, SIZES[-case["sizes"] :] if length > 256 else SIZES[:-1], ["euclidean"])
    queries = winners.query_positions(length, 8)

    def plain():
        model.set_attn_implementation("sdpa")
        model.base_model(input_ids=tokens, use_cache=False)

    def ours():
        model.set_attn_implementation(attention.NAME)
        extraction.measure_batch(model, tokens, torch.stack(orders), queries, settings)

    times = [(cpu_seconds(ours), cpu_seconds(plain)) for _ in range(rounds)]
    medians = tuple(statistics.median(column) for column in zip(*times, strict=True))
    ratio = statistics.median(a / b for a, b in times)
    print(
        f"| {' | '.join(str(x) for x in case.values())} | {medians[0]:.2f} | {medians[1]:.2f} | {ratio:.2f} |",
        flush=True,
    )
    return medians


@torch.inference_mode()
def cpu_seconds(function) -> float:
    """CPU time of one call, all threads."""
    start = time.process_time()
    function()
    return time.process_time() - start


if __name__ == "__main__":
    main()
