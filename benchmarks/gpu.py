"""Extraction beside a plain pass on a GPU, for a model of LLaMA-2-7B's shape: `python benchmarks/gpu.py`.

The weights are random (no checkpoint is needed; 13 GB in bfloat16), so counts mean nothing and times do. Geometry is
in float32, as in a run. Passes alternate; the result is the median of the ratios of neighbours. Peak memory is torch's.
Made for one GPU with 24 GB or more and some minutes; it has not been run on one yet.
"""

import argparse
import statistics
import sys
import time
from pathlib import Path

import torch
import transformers

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "workflow"))

from headgeom import attention, extraction, geometry, rankings, winners

SIZES = [1, 2, 4, 8, 16, 32, 64, 128, 256]


def main() -> None:
    """Print times, peaks and the ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--batch-size", type=int, default=4, help="documents in a pass")
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--hidden-size", type=int, default=4096, help="a multiple of 128, the size of a head")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--device", default="cuda", help="cpu, with a small shape, tries the script itself")
    options = parser.parse_args()
    if options.device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("torch sees no CUDA device; this benchmark needs one")
    model = attention.install(random_llama(options))
    tokens = torch.randint(3, 32000, (options.batch_size, options.length), device=options.device)
    passes = {"plain": plain(model, tokens), "extraction": extract(model, tokens)}
    runs = {name: [] for name in passes}
    for turn in range(options.rounds + 2):
        for name, function in passes.items():
            seconds, peak = measured(function, options.device)
            if turn >= 2:  # the first two warm up
                runs[name].append((seconds, peak))
    for name, found in runs.items():
        seconds, peaks = zip(*found, strict=True)
        print(f"{name}: {statistics.median(seconds):.3f} s, peak {max(peaks) / 2**30:.2f} GB")
    ratios = [a[0] / b[0] for a, b in zip(runs["extraction"], runs["plain"], strict=True)]
    print(f"extraction / plain: median {statistics.median(ratios):.2f}, {min(ratios):.2f} to {max(ratios):.2f}")


def random_llama(options) -> transformers.PreTrainedModel:
    """A model of LLaMA-2-7B's shape in bfloat16, made where it runs."""
    heads = options.hidden_size // 128
    config = transformers.LlamaConfig(
        hidden_size=options.hidden_size,
        intermediate_size=options.hidden_size * 43 // 16,
        num_hidden_layers=options.layers,
        num_attention_heads=heads,
        num_key_value_heads=heads,
        max_position_embeddings=4096,
    )
    torch.manual_seed(0)
    with torch.device(options.device):
        return transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).eval()


def plain(model, tokens: torch.Tensor):
    """A pass with SDPA, without the output head."""

    def run():
        model.set_attn_implementation("sdpa")
        model.base_model(input_ids=tokens, use_cache=False)

    return run


def extract(model, tokens: torch.Tensor):
    """A pass that measures everything but certificate ``pairs``."""
    documents, length = tokens.shape
    settings = geometry.Settings(length, [size for size in SIZES if size < length], ["euclidean"])
    orders = torch.stack([rankings.random_orders(0, "gpu", str(i), 16, length) for i in range(documents)])
    queries = winners.query_positions(length, 8)

    def run():
        model.set_attn_implementation(attention.NAME)
        extraction.measure_batch(model, tokens, orders, queries, settings)

    return run


@torch.inference_mode()
def measured(function, device: str) -> tuple[float, int]:
    """Seconds and peak bytes of one call."""
    cuda = device == "cuda"
    if cuda:
        torch.cuda.reset_peak_memory_stats()
        torch.cuda.synchronize()
    start = time.perf_counter()
    function()
    if cuda:
        torch.cuda.synchronize()
    return time.perf_counter() - start, torch.cuda.max_memory_allocated() if cuda else 0


if __name__ == "__main__":
    main()
