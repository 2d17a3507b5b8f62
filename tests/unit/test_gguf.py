"""GGUF files against the models that they were made from."""

import argparse
import json
import shutil

import gguf
import numpy as np
import pytest
import torch

from families import CONFIGS
from headgeom import models
from headgeom.errors import UserError
from headgeom.stages import convert_model

TOKENS = torch.tensor([[1, 5, 9, 20, 33, 4, 8, 61, 95, 7]])
ARCHITECTURES = {"llama": gguf.MODEL_ARCH.LLAMA, "gemma3": gguf.MODEL_ARCH.GEMMA3}


def convert(source):
    """The checkpoint folder and the provenance that the stage makes of ``source``."""
    output = source.parent / "checkpoint"
    convert_model.run(argparse.Namespace(settings={"name": "tiny"}, source=source, output=output, threads=1))
    return output, json.loads((output / "provenance.json").read_text())


@torch.no_grad()
def logits(model):
    return model(TOKENS).logits


def write_gguf(path, model, extra=(), pre="smollm"):
    """The model as llama.cpp's converter writes it: its own names, llama's rotary halves interleaved, gemma's norms
    plus one."""
    config, family = model.config, model.config.model_type.removesuffix("_text")
    writer = gguf.GGUFWriter(path, family)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(config.head_dim)
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(config.vocab_size)
    if family == "gemma3":
        writer.add_sliding_window(config.sliding_window)
    _add_tokenizer(writer, config.vocab_size, pre)
    names = gguf.get_tensor_name_map(ARCHITECTURES[family], config.num_hidden_layers)
    for name, tensor in model.state_dict().items():
        stem, _, kind = name.rpartition(".")
        if not (name == "lm_head.weight" and config.tie_word_embeddings):
            writer.add_tensor(f"{names.get_name(stem)}.{kind}", _stored(name, tensor.numpy(), config, family))
    for name in extra:
        writer.add_tensor(name, np.ones(4, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_tokenizer(writer, size, pre):
    """A byte-level vocabulary of letters, digits and line ends, and one merge, of two line ends."""
    letters = [*"abcdefghijklmnopqrstuvwxyz0123456789.", "Ġ", "Ċ"]
    tokens = ["<pad>", "<s>", "</s>", *letters, "ĊĊ"]
    tokens += [f"x{number}" for number in range(size - len(tokens))]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    writer.add_token_types([gguf.TokenType.CONTROL] * 3 + [gguf.TokenType.NORMAL] * (size - 3))
    writer.add_token_merges(["Ċ Ċ"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)


def _stored(name, tensor, config, family):
    if family == "llama" and name.endswith(("q_proj.weight", "k_proj.weight")):
        heads = config.num_attention_heads if "q_proj" in name else config.num_key_value_heads
        return tensor.reshape(heads, 2, -1, tensor.shape[1]).swapaxes(1, 2).reshape(tensor.shape)
    return tensor + 1 if family == "gemma3" and name.endswith("norm.weight") else tensor


def gguf_source(tmp_path, family, **options):
    """A fetched GGUF file of a tiny model, and the model."""
    config = CONFIGS[family]()
    changes = {"tie_word_embeddings": True} if family == "gemma3" else {}
    if family == "gemma3":  # what a GGUF file does not say, transformers fills in
        changes |= {"layer_types": ["sliding_attention"] * 3, "query_pre_attn_scalar": 256, "pad_token_id": None}
    config.update(changes)
    torch.manual_seed(0)
    model = convert_model.AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "source.json").write_text('{"kind": "local", "path": "tiny.gguf", "files": [], "sha256": "0"}')
    write_gguf(folder / "tiny.gguf", model, **options)
    return folder, model


@pytest.mark.parametrize("family", ARCHITECTURES)
def test_a_gguf_file_becomes_the_model_it_was_made_from(tmp_path, family):
    source, model = gguf_source(tmp_path, family)
    output, provenance = convert(source)
    converted = models.load_model(output)
    assert torch.allclose(logits(converted), logits(model), atol=1e-5)
    assert provenance["model_class"] == type(model).__name__
    assert provenance["parameters"] == sum(parameter.numel() for parameter in model.parameters())
    assert provenance["bos_token_id"] == {"tokenizer": 1, "config": 1}
    assert "quantization_config" not in json.loads((output / "config.json").read_text())


@pytest.mark.parametrize(("pre", "tokens"), [("smollm", ["a", "ĊĊ", "1", "5"]), ("gpt-2", ["a", "Ċ", "Ċ", "1", "5"])])
def test_the_tokenizer_of_a_gguf_file_splits_as_its_kind_says(tmp_path, pre, tokens):
    source, _ = gguf_source(tmp_path, "llama", pre=pre)
    output, _ = convert(source)
    tokenizer = models.load_tokenizer(output)
    assert tokenizer.tokenize("a\n\n15") == tokens
    assert tokenizer.decode(tokenizer("a\n\n15 ab.", add_special_tokens=False)["input_ids"]) == "a\n\n15 ab."


def test_tensors_that_transformers_would_skip_are_an_error(tmp_path):
    source, _ = gguf_source(tmp_path, "llama", extra=["rope_freqs.weight"])
    with pytest.raises(UserError, match=r"no place for some tensors.*rope_freqs\.weight"):
        convert(source)


def test_a_file_that_is_no_gguf_and_two_of_them_are_refused(tmp_path):
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "source.json").write_text("{}")
    (tmp_path / "source" / "a.gguf").write_bytes(b"no GGUF file at all")
    with pytest.raises(UserError, match=r"a\.gguf cannot be read as GGUF"):
        convert(tmp_path / "source")
    shutil.copy(tmp_path / "source" / "a.gguf", tmp_path / "source" / "b.gguf")
    with pytest.raises(UserError, match="holds 2 GGUF files"):
        convert(tmp_path / "source")
