"""Checkpoints in and out: taken over and loaded whole or not at all; and BOS."""

import argparse
import json

import pytest
import torch
from safetensors.torch import load_file

import makers
from families import CONFIGS, tiny_model
from headgeom import models
from headgeom.errors import UserError
from headgeom.stages import convert_model

TOKENS = torch.tensor([[1, 5, 9, 20, 33, 4, 8, 61, 95, 7]])


@pytest.fixture
def checkpoint(tmp_path):
    return makers.fetched_checkpoint(tmp_path / "source")


def convert(source):
    """The checkpoint folder and the provenance that the stage makes of ``source``."""
    output = source.parent / "checkpoint"
    convert_model.run(argparse.Namespace(settings={"name": "tiny"}, source=source, output=output, threads=1))
    return output, json.loads((output / "provenance.json").read_text())


@torch.no_grad()
def logits(model):
    return model(TOKENS).logits


@pytest.mark.parametrize("family", CONFIGS)
def test_a_checkpoint_loads_as_it_was_saved(tmp_path, family):
    model = models.load_model(makers.tiny_checkpoint(tmp_path, family))
    assert not model.training and model.dtype == torch.float32
    assert torch.equal(logits(model), logits(tiny_model(family)))


def test_dtype_and_attention_are_as_asked_for(checkpoint):
    model = models.load_model(checkpoint, "bfloat16", attn_implementation="eager")
    assert model.dtype == torch.bfloat16 and model.config._attn_implementation == "eager"


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has what the test wants absent")
def test_an_absent_device_is_an_error(checkpoint):
    with pytest.raises(UserError, match=r"`device: cuda`.*no CUDA device"):
        models.load_model(checkpoint, device="cuda")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda weights: weights.pop("model.layers.1.mlp.up_proj.weight"),
            r"missing: model\.layers\.1\.mlp\.up_proj\.weight",
        ),
        (lambda weights: weights.update(more=torch.zeros(2)), "unexpected: more"),
        (lambda weights: weights.update({"lm_head.weight": torch.zeros(96, 16)}), r"misshapen: lm_head\.weight"),
    ],
)
def test_weights_that_do_not_fit_the_config_are_refused(checkpoint, change, message):
    makers.edit_weights(checkpoint, change)
    with pytest.raises(UserError, match=message):
        models.load_model(checkpoint)


def test_a_damaged_file_and_an_unknown_architecture_are_refused(checkpoint):
    weights = checkpoint / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(UserError, match="cannot be loaded"):
        models.load_model(checkpoint)
    makers.edit(checkpoint / "config.json", model_type="mystery")
    with pytest.raises(UserError, match=r"cannot be loaded.*mystery"):
        models.load_model(checkpoint)


def test_a_model_of_more_than_text_is_refused(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "gemma3", "text_config": {"num_hidden_layers": 1}}))
    with pytest.raises(UserError, match="a gemma3 model of more than text"):
        models.load_model(tmp_path)


def test_a_safetensors_checkpoint_is_taken_over_with_its_facts(checkpoint):
    output, provenance = convert(checkpoint)
    assert torch.equal(logits(models.load_model(output)), logits(tiny_model("llama")))
    assert models.load_tokenizer(output).get_vocab() == makers.tiny_tokenizer().get_vocab()
    assert provenance["source"] == json.loads((checkpoint / "source.json").read_text())
    expected = {
        "model_class": "LlamaForCausalLM",
        "layers": 3,
        "heads": 4,
        "key_value_heads": 2,
        "head_dim": 8,
        "parameters": sum(tensor.numel() for tensor in load_file(output / "model.safetensors").values()),
        "stored_dtype": "float32",
        "sliding_window": None,
        "sliding_layers": [],
        "max_positions": 128,
        "bos_token_id": {"tokenizer": 1, "config": 1},
        "eos_token_id": {"tokenizer": 2, "config": 2},
    }
    assert {key: provenance[key] for key in expected} == expected
    assert not (output / "source.json").exists()


@pytest.mark.parametrize(
    ("family", "layers"), [("mistral", [0, 1, 2]), ("gemma3", [0, 2]), ("qwen2", []), ("gpt2", [])]
)
def test_sliding_layers_by_family(family, layers):
    facts = models.architecture(CONFIGS[family]())
    assert facts["sliding_layers"] == layers and facts["sliding_window"] == (7 if layers else None)
    assert (facts["layers"], facts["heads"], facts["head_dim"]) == (3, 4, 8)


def test_weights_that_are_not_finite_are_refused_by_name(checkpoint):
    makers.edit_weights(
        checkpoint, lambda weights: weights["model.layers.2.self_attn.q_proj.weight"][3, 4].fill_(float("nan"))
    )
    with pytest.raises(UserError, match=r"model\.layers\.2\.self_attn\.q_proj\.weight holds NaN or infinite"):
        convert(checkpoint)
    assert sorted(path.name for path in checkpoint.parent.iterdir()) == ["source"]


@pytest.mark.parametrize("name", ["config.json", "tokenizer_config.json"])
def test_code_of_the_model_is_never_run(checkpoint, name):
    (checkpoint / "evil.py").write_text("raise SystemExit('ran')")
    makers.edit(
        checkpoint / name, auto_map={"AutoModelForCausalLM": "evil.Model", "AutoTokenizer": ["evil.Tokenizer", None]}
    )
    with pytest.raises(UserError, match=rf"{name} has an `auto_map`"):
        convert(checkpoint)


def test_pickles_are_refused_with_a_way_out(checkpoint):
    (checkpoint / "model.safetensors").rename(checkpoint / "pytorch_model.bin")
    with pytest.raises(UserError, match=r"only pytorch_model\.bin\..*save_pretrained\(FOLDER\).*kind `local`"):
        convert(checkpoint)


@pytest.mark.parametrize(
    ("name", "message"), [("config.json", "has no config.json"), ("tokenizer.json", "no tokenizer")]
)
def test_a_checkpoint_without_its_files_is_refused(checkpoint, name, message):
    (checkpoint / name).unlink()
    with pytest.raises(UserError, match=message):
        convert(checkpoint)


@pytest.mark.parametrize(
    ("tokenizer", "config", "setting", "found"),
    [
        ({}, {}, "auto", (1, "bos of tokenizer and config")),
        ({"bos_token": None}, {}, "auto", (1, "bos of config")),
        ({}, {"bos_token_id": None}, "auto", (1, "bos of tokenizer")),
        ({"bos_token": None}, {"bos_token_id": None}, "auto", (2, "eos of tokenizer, for there is no bos")),
        (
            {"bos_token": None, "eos_token": None},
            {"bos_token_id": None, "eos_token_id": [7, 8]},
            "auto",
            (7, "eos of config, for there is no bos"),
        ),
        ({}, {"bos_token_id": 5}, 9, (9, "setting")),
        ({}, {}, 0, (0, "setting")),
    ],
)
def test_bos(checkpoint, tokenizer, config, setting, found):
    makers.edit(checkpoint / "tokenizer_config.json", **tokenizer)
    makers.edit(checkpoint / "config.json", **config)
    assert models.bos_token(checkpoint, setting) == found
    assert models.bos_token(checkpoint, setting, models.load_tokenizer(checkpoint)) == found


@pytest.mark.parametrize(
    ("tokenizer", "config", "setting", "message"),
    [
        ({}, {"bos_token_id": 5}, "auto", r"tokenizer's BOS is 1, the config's 5\. Set the model's `bos:`"),
        (
            {"bos_token": None, "eos_token": None},
            {"bos_token_id": None, "eos_token_id": None},
            "auto",
            "neither BOS nor EOS. Set the model's `bos:`",
        ),
        ({}, {}, 96, "`bos: 96` is no token of the vocabulary of 96"),
    ],
)
def test_bos_that_cannot_be_settled(checkpoint, tokenizer, config, setting, message):
    makers.edit(checkpoint / "tokenizer_config.json", **tokenizer)
    makers.edit(checkpoint / "config.json", **config)
    with pytest.raises(UserError, match=message):
        models.bos_token(checkpoint, setting)
