"""Removed heads, losses, scores and the scan against transformers itself, for every supported family."""

import logging

import numpy as np
import pytest
import torch
import transformers

from families import CONFIGS, output_projections, tiny_model
from headgeom import attention, export, head_scores, losses, packing, restart, scan
from headgeom.errors import UserError

LENGTH, LAYERS, HEADS = 24, 3, 4
FAMILIES = sorted(CONFIGS)
SHARING = {
    "vocab_size": 96, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 4, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 8, "num_kv_shared_layers": 2, "sliding_window": 7, "pad_token_id": 0,
    "hidden_size_per_layer_input": 8, "vocab_size_per_layer_input": 96,
    "layer_types": ["sliding_attention", "full_attention"] * 2,
}  # fmt: skip


@pytest.fixture
def tokens():
    return torch.randint(3, 96, (3, LENGTH), generator=torch.Generator().manual_seed(1))


def alone():
    """Gates that close each head alone, then none."""
    gates = torch.ones(LAYERS * HEADS + 1, LAYERS * HEADS)
    gates[range(LAYERS * HEADS), range(LAYERS * HEADS)] = 0
    return gates.unflatten(1, (LAYERS, HEADS))


@torch.no_grad()
def logits(model, tokens, gates=None):
    if gates is None:
        return model(input_ids=tokens, use_cache=False).logits
    with attention.gating(gates):
        return model(input_ids=tokens, use_cache=False).logits


@torch.no_grad()
def stated_losses(model, tokens):
    """What transformers itself says, document by document."""
    return [float(model(input_ids=window, labels=window, use_cache=False).loss) for window in tokens.split(1)]


@pytest.mark.parametrize("family", FAMILIES)
def test_removing_a_head_equals_zeroing_its_slice_of_the_output_projection(family, tokens):
    gated, untouched = attention.install(tiny_model(family)), logits(tiny_model(family), tokens)
    for gates in alone()[:-1]:
        weights = tiny_model(family)
        export.remove_heads(weights, gates.numpy())
        expected = logits(weights, tokens)
        torch.testing.assert_close(logits(gated, tokens, gates), expected, atol=1e-5, rtol=1e-5)
        assert (expected - untouched).abs().max() > 1e-3


@pytest.mark.parametrize("family", FAMILIES)
def test_gates_of_one_equal_the_untouched_model_exactly(family, tokens):
    model = attention.install(tiny_model(family))
    expected = logits(tiny_model(family), tokens)
    assert torch.equal(logits(model, tokens, torch.ones(LAYERS, HEADS)), expected)
    assert torch.equal(logits(model, tokens, torch.ones(len(tokens), LAYERS, HEADS)), expected)


@pytest.mark.parametrize("family", FAMILIES)
def test_all_heads_removed_equals_zeroed_projection_weights_and_the_bias_stays(family, tokens):
    weights = tiny_model(family)
    for projection in output_projections(weights):
        projection.weight.data.zero_()
    gated = attention.install(tiny_model(family))
    found = logits(gated, tokens, torch.zeros(LAYERS, HEADS))
    torch.testing.assert_close(found, logits(weights, tokens), atol=1e-5, rtol=1e-5)
    biased = output_projections(weights)[0].bias is not None
    assert biased == (family in ("gpt_neox", "gpt2", "gpt_oss", "opt"))
    if biased:
        output_projections(weights)[0].bias.data.zero_()
        assert not torch.allclose(found, logits(weights, tokens), atol=1e-4)


@pytest.mark.parametrize("family", FAMILIES)
def test_losses_equal_those_of_transformers(family, tokens, monkeypatch):
    monkeypatch.setattr(losses, "LOGITS", 96 * 7)
    model = attention.install(tiny_model(family))
    with torch.no_grad():
        nll = losses.token_nll(model, tokens)
    assert nll.shape == (3, LENGTH - 1) and nll.dtype == torch.float32
    np.testing.assert_allclose(losses.document_losses(nll), stated_losses(tiny_model(family), tokens), rtol=2e-6)


@pytest.mark.parametrize("family", FAMILIES)
def test_losses_of_bfloat16_models_are_computed_in_float32(family, tokens):
    model = attention.install(tiny_model(family, torch.bfloat16))
    found = scan.gated_losses(model, tokens, torch.ones(1, LAYERS, HEADS))[0]
    expected = [
        torch.nn.functional.cross_entropy(logits(model, window)[0, :-1].float(), window[0, 1:])
        for window in tokens.split(1)
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-3)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_fast_scan_equals_the_naive_loop(family, tokens, monkeypatch, caplog):
    monkeypatch.setattr(losses, "LOGITS", 96 * 50)
    model = attention.install(tiny_model(family))
    gates = torch.cat([alone(), torch.zeros(1, LAYERS, HEADS), alone().flip(0)[:3]])
    expected = scan.naive_losses(model, tokens, gates)
    found = scan.gated_losses(model, tokens, gates, batch_size=5)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert not caplog.records, "the fast path was not taken"
    assert found.shape == (len(gates), 3)
    np.testing.assert_allclose(found[LAYERS * HEADS], stated_losses(tiny_model(family), tokens), rtol=2e-6)


def test_the_scan_starts_at_the_first_closed_gate(tokens, monkeypatch):
    """Layers before it must not run again: that is what makes the scan fast."""
    model = attention.install(tiny_model("llama"))
    runs = []
    for number, layer in enumerate(restart.layers(model)):
        layer.mlp.register_forward_pre_hook(lambda module, arguments, number=number: runs.append(number))
    monkeypatch.setattr(restart, "why_not", lambda *arguments: None)
    scan.gated_losses(model, tokens[:1], alone(), batch_size=4)
    assert runs == [0, 1, 2, 0, 1, 2, 1, 2, 2]


@pytest.mark.parametrize("family", FAMILIES)
def test_packed_weights_give_the_same_losses(family, tokens):
    gates = alone()[::4]
    expected = scan.gated_losses(attention.install(tiny_model(family)), tokens, gates)
    model = packing.pack(attention.install(tiny_model(family)))
    packed = [module for module in model.modules() if "forward" in vars(module)]
    linear = [module for module in model.modules() if type(module) is torch.nn.Linear]
    assert packed == linear
    np.testing.assert_allclose(scan.gated_losses(model, tokens, gates), expected, rtol=1e-5)


def test_half_precision_is_not_packed():
    model = packing.pack(tiny_model("llama", torch.bfloat16))
    assert not [module for module in model.modules() if "forward" in vars(module)]


@pytest.mark.parametrize("config", ["Gemma4TextConfig", "Gemma3nTextConfig"])
def test_layers_that_share_keys_fall_back_to_whole_passes(config, tokens, caplog):
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(getattr(transformers, config)(**SHARING)).eval()
    attention.install(model)
    gates = torch.ones(2, 4, 4)
    gates[1, 1, 2] = 0
    with caplog.at_level(logging.WARNING):
        found = scan.gated_losses(model, tokens, gates)
    assert "does not run from a later layer" in caplog.text
    np.testing.assert_allclose(found[0], stated_losses(model, tokens), rtol=1e-5)
    assert abs(found[0] - found[1]).max() > 1e-6
    assert head_scores.gradients(model, tokens, (4, 4)).shape == (3, 4, 4)


@pytest.mark.parametrize("family", FAMILIES)
def test_gradients_equal_finite_differences(family, tokens, monkeypatch):
    monkeypatch.setattr(losses, "LOGITS", 96 * 7)
    model = attention.install(tiny_model(family))
    found = head_scores.gradients(model, tokens, (LAYERS, HEADS))
    step = 1e-3  # short, for a ReLU has kinks and a router of experts has jumps
    for layer, head in ((0, 0), (1, 2), (2, 3)):
        gates = torch.ones(2, LAYERS, HEADS)
        gates[0, layer, head] += step
        gates[1, layer, head] -= step
        up, down = scan.gated_losses(model, tokens, gates)
        np.testing.assert_allclose(found[:, layer, head], abs(up - down) / (2 * step), rtol=0.02, atol=1e-3)


@pytest.mark.parametrize("family", FAMILIES)
def test_entropies_equal_those_of_the_weights_that_the_untouched_model_outputs(family, tokens):
    with torch.no_grad():
        weights = tiny_model(family, attention="eager")(tokens, output_attentions=True, use_cache=False).attentions
    rows = [5, LENGTH - 1]
    found = head_scores.entropies(attention.install(tiny_model(family)), tokens, rows)
    expected = torch.stack([torch.special.entr(layer[:, :, rows]).sum(-1).mean(-1) for layer in weights], 1)
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("family", FAMILIES)
def test_magnitudes_are_of_the_weights_that_a_head_uses(family):
    """Each head's slices are found by which weights the gradient of its own output reaches."""
    model = tiny_model(family)
    for name, module in model.named_modules():
        if name.endswith(("q_norm", "k_norm")):  # OLMo-2's mix heads
            module.forward = lambda states: states
    found = head_scores.magnitudes(model)
    for layer, projection in enumerate(output_projections(model)):
        weight = projection.weight if type(projection).__name__ == "Conv1D" else projection.weight.T
        parts = weight.detach().unflatten(0, (HEADS, -1))
        np.testing.assert_allclose(found["magnitude"][layer], parts.pow(2).sum((1, 2)).sqrt(), rtol=1e-5)
        for head in range(HEADS):
            used = _used_weights(model, projection, head)
            norm = np.sqrt(float(parts[head].pow(2).sum()) + used)
            np.testing.assert_allclose(found["magnitude_qkvo"][layer, head], norm, rtol=1e-5)


def _used_weights(model, projection, head):
    """Sum of squares of the query, key and value weights that change the input of ``projection`` of ``head``."""
    entered = []
    hook = projection.register_forward_pre_hook(lambda module, arguments: entered.append(arguments[0]))
    tokens = torch.randint(3, 96, (1, LENGTH), generator=torch.Generator().manual_seed(2))
    model(input_ids=tokens, use_cache=False)
    hook.remove()
    attended = next(module for module in model.modules() if any(child is projection for child in module.children()))
    names = ("q_proj", "k_proj", "v_proj", "qkv_proj", "query_key_value", "c_attn")
    inputs = [child for name, child in attended.named_children() if name in names]
    output = entered[0].unflatten(-1, (HEADS, -1))[..., head, :]
    random = torch.randn(output.shape, generator=torch.Generator().manual_seed(3))
    gradients = torch.autograd.grad((output * random).sum(), [child.weight for child in inputs])
    used = zip(inputs, gradients, strict=True)
    return sum(float(child.weight.detach()[gradient != 0].pow(2).sum()) for child, gradient in used)


def test_a_mask_of_another_shape_is_refused():
    with pytest.raises(UserError, match=r"\(3, 5\) layers and heads for a model of \(3, 4\)"):
        export.remove_heads(tiny_model("llama"), np.ones((3, 5)))
