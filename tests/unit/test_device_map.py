"""Models with layers on different devices, here main memory and disk, measure the same."""

import numpy as np
import pytest
import torch

import makers
from headgeom import attention, extraction, geometry, models, rankings

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
