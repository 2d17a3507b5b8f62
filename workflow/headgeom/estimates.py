"""What a run needs, from the shapes of its models: memory and time of jobs.

For requests to a cluster and for the plan of a run (`make plan`). Needs neither torch nor weights.
"""

import json
import math
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RANDOM = "random"
"""The score that is drawn, several times; it always runs beside those of the config."""
BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
MB = 10**6
# Measured on one core of a CPU at 256 to 1024 tokens (docs/cluster.md); on a GPU assumed: an A100 or better at a third
# of its speed for the forward pass, and 50 of those cores for the rest.
FLOPS = {"cpu": 1e11, "cuda": 1e14}
NUMBERS = {"cpu": 4.4e7, "cuda": 50 * 4.4e7}
TOGETHER = {"cpu": 1 << 15, "cuda": 1 << 20}
"""Attention weights (of documents, layers, heads and sources) at which the layers seen so far are measured together:
few enough for a CPU's cache and for memory, enough that small tensors and a GPU's launches do not dominate."""
HEAD_BYTES = 1000
"""What a document, layer and head leaves on disk, compressed: up to 880 bytes in the laptop run, at 8 sizes N."""
LIBRARIES = {"cpu": 600 * MB, "cuda": 600 * MB}
"""What torch and the others take before there is a model: measured on a CPU; on a GPU an assumption."""


@dataclass(frozen=True)
class Shape:
    """Counts and sizes of a decoder; ``parameters`` is the number of weights, tied ones counted once."""

    layers: int
    heads: int
    key_value_heads: int
    head_dim: int
    hidden_size: int
    vocabulary: int
    parameters: int


def from_config(stated: dict[str, Any]) -> Shape:
    """The shape that a config states (`models[].shape`), of a decoder with gated feed-forward networks."""
    keys = ("layers", "heads", "key_value_heads", "head_dim", "hidden_size", "vocabulary")
    layers, heads, shared, head_dim, hidden, vocabulary = (stated[key] for key in keys)
    attention = 2 * hidden * head_dim * (heads + shared)
    layer = attention + 3 * hidden * stated["intermediate_size"] + 2 * hidden
    embeddings = vocabulary * hidden * (1 if stated.get("tied_embeddings") else 2)
    parameters = layers * layer + hidden + embeddings
    return Shape(layers, heads, shared, head_dim, hidden, vocabulary, parameters)


def from_checkpoint(folder: str | Path) -> Shape:
    """The shape of a converted checkpoint. Raises FileNotFoundError, naming the folder, if it is not there yet."""
    _require(folder)
    facts = json.loads((Path(folder) / "provenance.json").read_text(encoding="utf-8"))
    return Shape(**{key: facts[key] for key in Shape.__dataclass_fields__})


def _require(folder: str | Path) -> None:
    # Snakemake takes this error for "to be determined" if it names the input file itself.
    if not Path(folder).is_dir():
        raise FileNotFoundError(2, "not made yet", str(folder))


def weights(shape: Shape, dtype: str) -> int:
    """Bytes of the weights."""
    return shape.parameters * BYTES[dtype]


def _numbers(shape: Shape) -> int:
    """Numbers in float32 that measuring holds for each document, layer, query head and source: the values expanded,
    ranked and weighted. The factor was fitted to the measured memory of layers (docs/cluster.md)."""
    return 4 * shape.head_dim


def working_memory(shape: Shape, dtype: str, config: dict[str, Any]) -> int:
    """Bytes besides the weights while the heads of the layers that are measured together are."""
    extraction, length = config["extraction"], config["windows"]["length"]
    batch = min(extraction["batch_size"], config["windows"]["documents"]["geometry"])
    layers = min(shape.layers, math.ceil(TOGETHER[config["device"]] / (batch * shape.heads * length)))
    pairs = min(batch, extraction["pair_documents"]) * 4 * max(extraction["sizes"])
    measuring = 4 * layers * shape.heads * length * (batch * _numbers(shape) + pairs)
    activations = batch * length * 12 * shape.hidden_size * BYTES[dtype]
    return measuring + activations


def peak_memory(shape: Shape, dtype: str, config: dict[str, Any]) -> int:
    """Bytes where the model runs: in main memory, or on the GPU."""
    return LIBRARIES[config["device"]] + weights(shape, dtype) + working_memory(shape, dtype, config)


def host_memory(shape: Shape, dtype: str, config: dict[str, Any]) -> int:
    """MB of main memory to ask for: a quarter above the estimate, and the two Snakemakes that run a job on a node.

    With a GPU it holds the libraries and, for a while, weights on their way.
    """
    if config["device"] == "cpu":
        return math.ceil(500 + 1.25 * peak_memory(shape, dtype, config) / MB)
    return math.ceil(6000 + 0.5 * weights(shape, dtype) / MB)


def document_seconds(shape: Shape, config: dict[str, Any]) -> float:
    """Seconds that measuring a document takes: the forward pass, and the heads of every layer."""
    length, device = config["windows"]["length"], config["device"]
    passed = 2 * (shape.parameters - shape.vocabulary * shape.hidden_size) * length
    measured = shape.layers * shape.heads * length * _numbers(shape)
    return passed / FLOPS[device] + measured / NUMBERS[device]


def shard_minutes(shape: Shape, config: dict[str, Any]) -> int:
    """Minutes to ask for: thrice the estimate, ten to start and load, and at least half an hour."""
    documents = math.ceil(config["windows"]["documents"]["geometry"] / config["extraction"]["shards"])
    return max(30, math.ceil(10 + 3 * documents * document_seconds(shape, config) / 60))


def removal_memory(shape: Shape, dtype: str, config: dict[str, Any]) -> int:
    """MB of main memory of a job that evaluates losses; on a CPU the weights are there twice, once packed."""
    packed = weights(shape, dtype) if config["device"] == "cpu" else 0
    return host_memory(shape, dtype, config) + math.ceil(1.25 * packed / MB)


def removal_passes(rule: str, shape: Shape, config: dict[str, Any], score: str | None = None) -> float:
    """Windows that a job of head removal passes through the model, or as much work; ``score`` is the job's, if any.

    At most: pruned models start at their first removed head, and are counted as if each had whole passes.
    """
    removal, documents = config["removal"], config["windows"]["documents"]
    if rule == "head_scores":
        return 4 * documents["score"]  # one for entropies; the gradient's, and back again
    if rule == "removal":
        draws = removal["seeds"] if score == RANDOM else 1
        return (1 + len(removal["retentions"]) * draws) * documents["evaluate"]
    if rule == "regime_ablation":
        # Three regimes, each with its control.
        return (1 + 6 * removal["seeds"]) * documents["evaluate"]
    return (1 + shape.layers * shape.heads / removal["scan_shards"]) * removal["scan_documents"]


def removal_jobs(config: dict[str, Any]) -> dict[str, list[str | None]]:
    """The jobs of each rule of head removal for a (model, corpus) pair, by score where the rule has a job a score."""
    removal = config["removal"]
    scores = [RANDOM, *removal["scores"]]
    once = [None]
    shards = once * removal["scan_shards"]
    return {"head_scores": once, "removal": scores, "regime_ablation": once, "head_scan": shards}


def passes_seconds(shape: Shape, config: dict[str, Any], passes: float) -> float:
    """Seconds that ``passes`` windows take through the model, the vocabulary head included."""
    return passes * 2 * shape.parameters * config["windows"]["length"] / FLOPS[config["device"]]


def passes_minutes(shape: Shape, config: dict[str, Any], passes: float) -> int:
    """Minutes to ask for ``passes`` windows: as ``shard_minutes``."""
    return max(30, math.ceil(10 + 3 * passes_seconds(shape, config, passes) / 60))


def shard_bytes(shape: Shape, config: dict[str, Any]) -> int:
    """Bytes of the geometry of all documents of a corpus."""
    return config["windows"]["documents"]["geometry"] * shape.layers * shape.heads * HEAD_BYTES


def counts_memory(shards: float) -> int:
    """MB of main memory of a job that holds all counts of shards of this size (MB) at once.

    35 times their size, as measured (docs/cluster.md), and a quarter more; libraries, and the two Snakemakes.
    """
    return math.ceil(700 + 45 * shards)


def conversion_memory(source: str | Path) -> int:
    """MB of main memory that converting the fetched folder takes, or writing a checkpoint anew without some heads.

    A GGUF file of 4 bits a weight becomes 8 times as large, and saving it can take as much again; of Gemma-3-270M 3.2
    GB were measured, where this asks for 6. Raises FileNotFoundError, naming the folder, if it is not there yet.
    """
    _require(source)
    sizes = Counter()
    for path in Path(source).iterdir():
        sizes[path.suffix] += path.stat().st_size
    return math.ceil((16 * sizes[".gguf"] + 1.2 * sizes[".safetensors"]) / MB) + 2000
