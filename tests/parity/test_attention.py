"""The attention function against transformers itself, for every supported family."""

import pytest
import torch
import transformers

from families import CONFIGS, SLIDING, output_projections, tiny_model
from headgeom import attention, extraction, geometry, rankings
from headgeom.errors import UserError

LENGTH = 24
ROWS = [0, 5, 11, 18, LENGTH - 1]
FAMILIES = sorted(CONFIGS)


@pytest.fixture
def tokens():
    return torch.randint(3, 96, (2, LENGTH), generator=torch.Generator().manual_seed(1))


def capture(model, tokens, rows=ROWS):
    """Layer views of one forward pass, and the logits."""
    views = []
    with torch.no_grad(), attention.observing(torch.tensor(rows), views.append):
        logits = model(input_ids=tokens, use_cache=False).logits
    return views, logits


@pytest.mark.parametrize("family", FAMILIES)
def test_weights_equal_those_that_the_untouched_model_outputs(family, tokens):
    with torch.no_grad():
        expected = tiny_model(family, attention="eager")(tokens, output_attentions=True, use_cache=False).attentions
    views, _ = capture(attention.install(tiny_model(family)), tokens)
    assert [view.layer for view in views] == [0, 1, 2]
    for view, weights in zip(views, expected, strict=True):
        assert view.weights.dtype == torch.float32
        torch.testing.assert_close(view.weights, weights[:, :, ROWS], atol=2e-6, rtol=1e-5)
        assert (view.weights.std(-1) > 0.01).any(), "uniform weights would hide a wrong scale"


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_weights_and_values_make_the_untouched_models_head_outputs(family, dtype, tokens):
    """Checks weights, values and their grouping at once: z = sum a_j v_j enters the output projection."""
    untouched = tiny_model(family, dtype)
    entered = []
    for projection in output_projections(untouched):
        projection.register_forward_pre_hook(lambda module, arguments: entered.append(arguments[0]))
    with torch.no_grad():
        untouched(tokens, use_cache=False)
    views, _ = capture(attention.install(tiny_model(family, dtype)), tokens)
    assert len(entered) == len(views) == 3
    tolerance = {"atol": 1e-5, "rtol": 1e-4} if dtype == torch.float32 else {"atol": 0.1, "rtol": 0.03}
    for view, z in zip(views, entered, strict=True):
        groups = view.weights.shape[1] // view.values.shape[1]
        ours = view.weights @ view.values.repeat_interleave(groups, dim=1)
        heads = z.float().unflatten(-1, (view.weights.shape[1], -1)).transpose(1, 2)
        torch.testing.assert_close(ours, heads[:, :, ROWS], **tolerance)
        assert not torch.allclose(heads[:, 0], heads[:, 1], **tolerance), "equal heads would hide wrong grouping"


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_logits_equal_the_untouched_models(family, dtype, tokens):
    with torch.no_grad():
        expected = tiny_model(family, dtype)(tokens, use_cache=False).logits
    _, logits = capture(attention.install(tiny_model(family, dtype)), tokens)
    assert torch.equal(logits, expected)


@pytest.mark.parametrize("family", FAMILIES)
def test_bfloat16_models_give_float32_weights(family, tokens):
    views, _ = capture(attention.install(tiny_model(family, torch.bfloat16)), tokens)
    for view in views:
        assert view.weights.dtype == view.values.dtype == torch.float32
        assert not torch.equal(view.weights, view.weights.bfloat16().float()), "weights were rounded to bfloat16"
        if family != "gpt_oss":
            torch.testing.assert_close(view.weights.sum(-1), torch.ones_like(view.weights[..., 0]), atol=1e-6, rtol=0)


@pytest.mark.parametrize("family", FAMILIES)
def test_visible_sources_follow_causality_and_sliding_windows(family, tokens):
    views, _ = capture(attention.install(tiny_model(family)), tokens)
    window = getattr(CONFIGS[family](), "sliding_window", None)
    for view in views:
        for k, row in enumerate(ROWS):
            first = max(0, row - window + 1) if view.layer in SLIDING.get(family, ()) else 0
            assert view.visible[k].nonzero().squeeze(-1).tolist() == list(range(first, row + 1))
            assert (view.weights[:, :, k, ~view.visible[k]] == 0).all()


@pytest.mark.parametrize("family", FAMILIES)
def test_gates_of_one_change_nothing_and_a_gate_of_zero_removes_the_heads_output(family, tokens):
    model = attention.install(tiny_model(family))
    _, expected = capture(model, tokens)
    with torch.no_grad(), attention.gating(torch.ones(3, 4)):
        assert torch.equal(model(input_ids=tokens, use_cache=False).logits, expected)
    entered = []
    output_projections(model)[1].register_forward_pre_hook(lambda module, arguments: entered.append(arguments[0]))
    gates = torch.ones(3, 4)
    gates[1, 2] = 0
    with torch.no_grad(), attention.gating(gates):
        model(input_ids=tokens, use_cache=False)
    silent = (entered[0].unflatten(-1, (4, -1)) == 0).all(-1).all(0).all(0)
    assert silent.tolist() == [False, False, True, False]


def test_what_was_observed_does_not_depend_on_batching(tokens):
    model = attention.install(tiny_model("llama"))
    together, _ = capture(model, tokens)
    alone, _ = capture(model, tokens[1:])
    for a, b in zip(together, alone, strict=True):
        torch.testing.assert_close(a.weights[1:], b.weights, atol=1e-6, rtol=1e-5)
        torch.testing.assert_close(a.values[1:], b.values, atol=1e-6, rtol=1e-5)


def test_nothing_is_observed_or_gated_outside_of_the_context(tokens):
    model = attention.install(tiny_model("llama"))
    views, expected = capture(model, tokens)
    with torch.no_grad():
        assert torch.equal(model(input_ids=tokens, use_cache=False).logits, expected)
    assert len(views) == 3


def test_an_unsupported_architecture_is_refused_by_name():
    model = transformers.BloomForCausalLM(transformers.BloomConfig(vocab_size=32, hidden_size=16, n_layer=1, n_head=2))
    with pytest.raises(UserError, match="BloomForCausalLM does not go through"):
        attention.install(model)


def test_a_model_with_layers_that_have_no_attention_is_refused_by_name():
    torch.manual_seed(0)
    config = transformers.Lfm2Config(
        vocab_size=96, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, layer_types=["conv", "full_attention"], block_multiple_of=16,
    )  # fmt: skip
    model = attention.install(transformers.AutoModelForCausalLM.from_config(config).eval())
    orders = torch.stack([rankings.random_orders(0, "c", "d", 2, LENGTH)])
    with pytest.raises(UserError, match="Lfm2ForCausalLM: only 1 of 2 layers"):
        extraction.measure_batch(
            model,
            torch.ones(1, LENGTH, dtype=torch.long),
            orders,
            [LENGTH - 1],
            geometry.Settings(LENGTH, [1], ["euclidean"]),
        )
