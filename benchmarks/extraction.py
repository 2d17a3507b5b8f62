"""How much extraction costs beside a plain forward pass: `python benchmarks/extraction.py --help`.

In each round every variant makes one pass over the same window, one after another in one process (A B A B), and a
time is compared with that of the plain pass of its own round, so that a machine that others use too disturbs all
alike. The result is the median ratio. Peak memory is that of a fresh process that loads the model and makes one pass.

- plain: transformers with SDPA, without the output head, nothing captured;
- extraction: all that stage `extract` measures (certificate `pairs` aside);
- eager: transformers with `output_attentions=True`, which keeps every layer's weights of all rows;
- transformer_lens, nnsight: the weights and values of every layer, where these libraries are installed.
"""

import argparse
import importlib.util
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "workflow"))

from headgeom import attention, extraction, geometry, models, rankings, winners

ROOT = Path(__file__).resolve().parents[1]
SIZES = [1, 2, 4, 8, 16, 32, 64, 128, 256]
REPEATS, QUERIES = 16, 8
OWN, PEERS = ("plain", "extraction", "eager"), ("transformer_lens", "nnsight")


def main() -> None:
    """Print a row for each length and variant."""
    options = arguments()
    torch.set_num_threads(options.threads)
    if options.peak:
        print(peak(options, options.peak, options.lengths[0]))
        return
    print("| L | variant | seconds | CPU seconds | time / plain | CPU / plain | peak MB | peak / plain |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    # Before anything is loaded here: on Linux the peak of a new process starts at what its parent holds.
    peaks = {
        length: {} if options.no_peaks else {name: child_peak(options, name, length) for name in options.variants}
        for length in options.lengths
    }
    for length in options.lengths:
        times = paired_times(options, length)
        for name, runs in times.items():
            print(row(length, name, runs, times["plain"], peaks[length]), flush=True)


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkpoint", type=Path, default=ROOT / "resources/models/smollm2-135m/checkpoint")
    parser.add_argument("--documents", type=Path, default=ROOT / "resources/corpora/wikipedia/documents.parquet")
    parser.add_argument("--lengths", type=int, nargs="+", default=[256, 512, 1024, 2048])
    parser.add_argument("--batch-size", type=int, default=1, help="documents in a pass")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--variants", nargs="+", choices=[*OWN, *PEERS], help="default: all that are installed")
    parser.add_argument("--no-peaks", action="store_true", help="times only")
    parser.add_argument("--peak", choices=[*OWN, *PEERS], help="one pass of this variant; print the peak memory, MB")
    options = parser.parse_args()
    installed = [*OWN, *(name for name in PEERS if importlib.util.find_spec(name))]
    options.variants = ["plain", *(name for name in options.variants or installed if name != "plain")]
    return options


def real_windows(options, length: int) -> torch.Tensor:
    """BOS and the first tokens of the first documents that are long enough, [batch, length]."""
    tokenizer = models.load_tokenizer(options.checkpoint)
    bos = models.bos_token(options.checkpoint, tokenizer=tokenizer)[0]
    found = []
    for text in pd.read_parquet(options.documents)["text"]:
        ids = tokenizer(text, add_special_tokens=False)["input_ids"] if len(text) > 3 * length else []
        if len(ids) >= length - 1:
            found.append([bos, *ids[: length - 1]])
        if len(found) == options.batch_size:
            return torch.tensor(found)
    raise SystemExit(f"{options.documents} has only {len(found)} documents of {length} tokens")


def variants(options, model, tokens: torch.Tensor) -> dict[str, Callable[[], object]]:
    """A function for each variant that makes one pass."""
    length = tokens.shape[1]
    settings = geometry.Settings(length, [size for size in SIZES if size < length], ["euclidean"])
    rows = winners.query_positions(length, QUERIES)

    def plain():
        model.set_attn_implementation("sdpa")
        return model.base_model(input_ids=tokens, use_cache=False)

    def extract():
        model.set_attn_implementation(attention.NAME)
        documents = range(len(tokens))
        orders = [rankings.random_orders(0, "benchmark", str(i), REPEATS, length) for i in documents]
        return extraction.measure_batch(model, tokens, torch.stack(orders), rows, settings)

    def eager():
        model.set_attn_implementation("eager")
        return model.base_model(input_ids=tokens, use_cache=False, output_attentions=True)

    functions = {"plain": plain, "extraction": extract, "eager": eager}
    return {name: functions.get(name) or peer(name, options, model, tokens) for name in options.variants}


def peer(name: str, options, model, tokens: torch.Tensor) -> Callable[[], object]:
    """One pass of another library that keeps weights and values of all layers."""
    model.set_attn_implementation("eager")
    if name == "nnsight":
        from nnsight import LanguageModel

        wrapped = LanguageModel(model, tokenizer=models.load_tokenizer(options.checkpoint))

        def nnsight():
            kept = []
            with wrapped.trace(tokens):
                for layer in wrapped.model.layers:
                    kept.append((layer.self_attn.v_proj.output.save(), layer.self_attn.output[1].save()))
            return kept

        return nnsight
    from transformer_lens.model_bridge import TransformerBridge

    bridge = TransformerBridge.boot_transformers(str(options.checkpoint), hf_model=model)
    wanted = ("hook_pattern", "hook_v")
    return lambda: bridge.run_with_cache(tokens, names_filter=lambda hook: hook.endswith(wanted))


@torch.inference_mode()
def paired_times(options, length: int) -> dict[str, list[tuple[float, float]]]:
    """(wall, CPU) seconds of each variant and round."""
    model = attention.install(models.load_model(options.checkpoint))
    functions = variants(options, model, real_windows(options, length))
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in functions}
    for turn in range(options.rounds + 1):
        for name, function in functions.items():
            wall, cpu = time.perf_counter(), time.process_time()
            function()
            if turn:  # the first warms up
                times[name].append((time.perf_counter() - wall, time.process_time() - cpu))
    return times


@torch.inference_mode()
def peak(options, name: str, length: int) -> float:
    """Peak memory of this process after one pass, in MB."""
    options.variants = [name]
    model = attention.install(models.load_model(options.checkpoint))
    variants(options, model, real_windows(options, length))[name]()
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20


def child_peak(options, name: str, length: int) -> float:
    """``peak`` in a fresh process."""
    command = [sys.executable, __file__, "--peak", name, "--lengths", str(length)]
    for option in ("checkpoint", "documents", "batch_size", "threads"):
        command += [f"--{option.replace('_', '-')}", str(getattr(options, option))]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[-1])


def row(length: int, name: str, runs, plain, peaks: dict[str, float]) -> str:
    """A line of the table."""
    wall, cpu = (statistics.median(run[k] for run in runs) for k in range(2))
    ratios = [statistics.median(a[k] / b[k] for a, b in zip(runs, plain, strict=True)) for k in range(2)]
    cells = [length, name, f"{wall:.2f}", f"{cpu:.2f}", *(f"{ratio:.2f}" for ratio in ratios)]
    if peaks:
        cells += [f"{peaks[name]:.0f}", f"{peaks[name] / peaks['plain']:.2f}"]
    else:
        cells += ["", ""]
    return f"| {' | '.join(map(str, cells))} |"


if __name__ == "__main__":
    main()
