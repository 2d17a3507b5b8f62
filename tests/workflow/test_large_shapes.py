"""The stages on models with the paper's widths and two layers, random weights: shapes, and memory as estimated.

Short windows, a tiny vocabulary and the CPU: a proof that does not need the weights of the paper's models.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import transformers
import xarray as xr
import yaml

import makers
from headgeom import estimates

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[2]
CLASSES = {
    "llama-2-7b": transformers.LlamaConfig, "gemma-7b": transformers.GemmaConfig,
    "mistral-7b": transformers.MistralConfig,
}  # fmt: skip
LENGTH, DOCUMENTS = 48, 2
MEASURING = {
    "corpus": "words", "seed": 1, "device": "cpu", "length": LENGTH, "sizes": [1, 2, 4, 8, 16], "repeats": 4,
    "distances": ["euclidean"], "queries": 4, "pair_documents": 1, "batch_size": 1, "shard": 0, "shards": 1,
}  # fmt: skip


def paper(name):
    """A model's entry of the paper's config."""
    models = yaml.safe_load((ROOT / "config/paper.yaml").read_text())["models"]
    return next(model for model in models if model["name"] == name)


def two_layers(name):
    """The shape in the paper's config, less layers and vocabulary."""
    return paper(name)["shape"] | {"layers": 2, "vocabulary": 96}


def save(name, folder):
    """A random checkpoint of that shape, bfloat16, with the tiny tokenizer and a source.json."""
    shape = two_layers(name)
    config = CLASSES[name](
        num_hidden_layers=shape["layers"], num_attention_heads=shape["heads"], hidden_size=shape["hidden_size"],
        num_key_value_heads=shape["key_value_heads"], head_dim=shape["head_dim"], vocab_size=shape["vocabulary"],
        intermediate_size=shape["intermediate_size"], tie_word_embeddings=shape.get("tied_embeddings", False),
        bos_token_id=1, eos_token_id=2, pad_token_id=0, max_position_embeddings=4096,
    )  # fmt: skip
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    model.save_pretrained(folder)
    makers.tiny_tokenizer().save_pretrained(folder)
    (folder / "source.json").write_text('{"kind": "local", "path": "random", "files": [], "sha256": "0"}')


def stage(name, settings, *arguments):
    """Run a stage by itself; its peak memory in bytes."""
    command = [sys.executable, "workflow/run.py", name, "--threads", "2", "--settings", json.dumps(settings)]
    process = subprocess.Popen([*command, *map(str, arguments)], cwd=ROOT, stderr=subprocess.PIPE, text=True)
    said = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, said
    return usage.ru_maxrss * 1024


@pytest.mark.parametrize("name", CLASSES)
def test_the_stages_run_at_the_papers_widths_within_the_estimated_memory(tmp_path, name):
    source, checkpoint = tmp_path / "source", tmp_path / "checkpoint"
    environment = os.environ | {"PYTHONPATH": f"{ROOT}/tests:{ROOT}/workflow"}
    subprocess.run([sys.executable, __file__, name, source], env=environment, check=True)  # its memory comes back
    makers.tiny_corpus(tmp_path / "documents.parquet")
    shape, dtype = two_layers(name), paper(name)["dtype"]
    converting = stage(
        "convert_model", {"name": name, "shape": shape}, "--source", source, "--output", checkpoint
    )  # fmt: skip
    facts = json.loads((checkpoint / "provenance.json").read_text())
    assert {key: facts[key] for key in ("layers", "heads", "key_value_heads", "head_dim", "hidden_size")} == {
        key: shape[key] for key in ("layers", "heads", "key_value_heads", "head_dim", "hidden_size")
    }
    assert facts["sliding_window"] == (4096 if name == "mistral-7b" else None)
    windows = {"model": name, "corpus": "words", "seed": 1, "bos": "auto", "length": LENGTH}
    files = ["--checkpoint", checkpoint, "--documents", tmp_path / "documents.parquet"]
    stage("tokenize", windows | {"documents": {"geometry": DOCUMENTS}}, *files, "--output", tmp_path / "tokens.parquet")
    files = ["--checkpoint", checkpoint, "--tokens", tmp_path / "tokens.parquet", "--output", tmp_path / "shard.nc"]
    measuring = stage("extract", MEASURING | {"model": name, "dtype": dtype}, *files)
    with xr.open_dataset(tmp_path / "shard.nc", engine="h5netcdf") as shard:
        assert dict(shard.sizes).items() >= {"document": DOCUMENTS, "layer": 2, "head": shape["heads"]}.items()
        assert shard["votes"].sum("regime").values.tolist() == [[[4] * shape["heads"]] * 2] * DOCUMENTS
        assert (shard["sources"].sel(pool="all") == LENGTH).all()
    settings = {
        "extraction": MEASURING,
        "windows": {"length": LENGTH, "documents": {"geometry": DOCUMENTS}},
        "device": "cpu",
    }
    expected = estimates.peak_memory(estimates.from_config(shape), dtype, settings)
    print(f"{name}, MB: extract {measuring / 1e6:.0f}, expected {expected / 1e6:.0f}; convert {converting / 1e6:.0f}")
    assert measuring == pytest.approx(expected, rel=0.2)
    assert converting <= estimates.conversion_memory(source) * 1e6


if __name__ == "__main__":
    save(sys.argv[1], Path(sys.argv[2]))
