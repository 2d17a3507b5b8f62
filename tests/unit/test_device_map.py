"""Models with layers on different devices, here main memory and disk, measure the same."""

import numpy as np
import pytest
import torch

import makers
from headgeom import attention, extraction, geometry, head_scores, models, packing, rankings, restart, scan

LENGTH = 20
MEASURED = geometry.Settings(LENGTH, [1, 2, 4, 8], ["euclidean"])
SPREAD = {
    "model.embed_tokens": "disk",
    "model.layers.0": "cpu",
    "model.layers.1": "disk",
    "model.layers.2": "cpu",
    "model.norm": "disk",
    "model.rotary_emb": "cpu",
    "lm_head": "disk",
}


def measured(model):
    attention.install(model)
    orders = torch.stack([rankings.random_orders(1, "c", str(document), 3, LENGTH) for document in range(2)])
    tokens = torch.randint(4, 96, (2, LENGTH), generator=torch.Generator().manual_seed(0))
    return extraction.measure_batch(model, tokens, orders, [11, LENGTH - 1], MEASURED, pairs=1)


@pytest.mark.parametrize("family", ["llama", "mistral", "gemma", "qwen2"])
def test_layers_on_disk_measure_the_same(tmp_path, family):
    folder = makers.tiny_checkpoint(tmp_path / "checkpoint", family)
    spread = models.load_model(folder, device_map=SPREAD)
    assert spread.model.layers[1].self_attn.q_proj.weight.device.type == "meta"
    assert spread.model.layers[2].self_attn.q_proj.weight.device.type == "cpu"
    expected, found = measured(models.load_model(folder)), measured(spread)
    assert expected.keys() == found.keys()
    for name in expected:
        np.testing.assert_array_equal(found[name], expected[name], err_msg=name)


def test_gates_reach_layers_on_disk(tmp_path):
    folder = makers.tiny_checkpoint(tmp_path / "checkpoint")
    tokens, gates = torch.arange(4, 24)[None], torch.ones(3, 4)
    gates[1, 2] = 0
    logits = []
    for device_map in (None, SPREAD):
        model = attention.install(models.load_model(folder, device_map=device_map))
        with torch.inference_mode(), attention.gating(gates):
            logits.append(model(tokens).logits)
    assert torch.equal(*logits)


def spread_and_whole(tmp_path, family="llama"):
    folder = makers.tiny_checkpoint(tmp_path / "checkpoint", family)
    return [attention.install(models.load_model(folder, device_map=device_map)) for device_map in (SPREAD, None)]


def test_a_restarted_layer_gets_its_own_forward_back(tmp_path):
    """Accelerate's stands in the module itself, so deleting the stand-in would lose it and leave weights on disk."""
    for model in spread_and_whole(tmp_path):
        before = [vars(layer).get("forward") for layer in model.model.layers]
        with restart.starting(model, 2, torch.zeros(1, 4, 32)):
            assert vars(model.model.layers[1])["forward"] is not before[1]
        assert [vars(layer).get("forward") for layer in model.model.layers] == before
        assert all(before) == models.is_spread(model)


@pytest.mark.parametrize("family", ["llama", "gemma", "qwen2"])
def test_heads_of_layers_on_disk_are_scored_and_removed_the_same(tmp_path, family, caplog):
    tokens = torch.randint(4, 96, (2, LENGTH), generator=torch.Generator().manual_seed(0))
    gates = torch.ones(13, 12).fill_diagonal_(0).unflatten(1, (3, 4))
    found, expected = (
        {
            "entropies": head_scores.entropies(model, tokens, [11, LENGTH - 1]),
            "gradients": head_scores.gradients(model, tokens, (3, 4)),
            **head_scores.magnitudes(model),
            "losses": scan.gated_losses(packing.pack(model) if models.is_spread(model) else model, tokens, gates, 4),
        }
        for model in spread_and_whole(tmp_path, family)
    )
    assert "whole" not in caplog.text  # layers on disk can be started from
    for name in expected:
        np.testing.assert_array_equal(found[name], expected[name], err_msg=name)


def test_a_model_is_spread_only_if_it_does_not_fit():
    size = 16 * 10**9
    assert models.device_map_for(size, size + models.WORKING_BYTES) == {"": 0}
    assert models.device_map_for(size, size + models.WORKING_BYTES - 1) == "auto"


@pytest.mark.parametrize(("dtype", "factor"), [("float32", 1), ("bfloat16", 0.5), ("auto", 1)])
def test_weight_bytes_follow_the_dtype(tmp_path, dtype, factor):
    folder = makers.tiny_checkpoint(tmp_path / "checkpoint")
    config = models.AutoConfig.from_pretrained(folder)
    size = sum(p.numel() * 4 for p in models.load_model(folder).parameters())
    assert models.weight_bytes(folder, config, dtype) == pytest.approx(factor * size, rel=0.1)
