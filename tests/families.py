"""Tiny random models, one a supported family, with grouped queries where the family has them."""

import torch
import transformers

_BASE = {
    "vocab_size": 96,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "max_position_embeddings": 128,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "tie_word_embeddings": False,
}
_GROUPED = {**_BASE, "num_key_value_heads": 2, "head_dim": 8}
_SLIDING = {**_GROUPED, "sliding_window": 7}
_TYPES = ["sliding_attention", "full_attention", "sliding_attention"]

CONFIGS = {
    "llama": lambda: transformers.LlamaConfig(**_GROUPED),
    "mistral": lambda: transformers.MistralConfig(**_SLIDING),
    "gemma": lambda: transformers.GemmaConfig(**_GROUPED),
    "gemma2": lambda: transformers.Gemma2Config(**_SLIDING, layer_types=_TYPES, attn_logit_softcapping=2.0),
    "gemma3": lambda: transformers.Gemma3TextConfig(**_SLIDING, layer_types=_TYPES),
    "qwen2": lambda: transformers.Qwen2Config(**_GROUPED),
    "qwen3": lambda: transformers.Qwen3Config(**_GROUPED),
    "phi3": lambda: transformers.Phi3Config(**_GROUPED),
    "olmo2": lambda: transformers.Olmo2Config(**_GROUPED),
    "gpt_neox": lambda: transformers.GPTNeoXConfig(**_BASE),
    "gpt2": lambda: transformers.GPT2Config(
        vocab_size=96,
        n_embd=32,
        n_layer=3,
        n_head=4,
        n_positions=128,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        scale_attn_by_inverse_layer_idx=True,
    ),
    "opt": lambda: transformers.OPTConfig(
        **{**_BASE, "ffn_dim": 48, "word_embed_proj_dim": 32}  # OPT has no intermediate_size
    ),
    "granite": lambda: transformers.GraniteConfig(**_GROUPED, attention_multiplier=0.3),
    "gpt_oss": lambda: transformers.GptOssConfig(
        **_SLIDING, layer_types=_TYPES, num_local_experts=2, num_experts_per_tok=1
    ),
}

# Outputs that SDPA cannot compute: soft-capping and attention sinks.
EAGER = ("gemma2", "gpt_oss")
SLIDING = {"mistral": {0, 1, 2}, "gemma2": {0, 2}, "gemma3": {0, 2}, "gpt_oss": {0, 2}}


def tiny_model(family: str, dtype: torch.dtype = torch.float32, attention: str | None = None, seed: int = 0):
    """A random model of the family, in eval mode; weights are large enough that attention is far from uniform."""
    torch.manual_seed(seed)
    attention = attention or ("eager" if family in EAGER else "sdpa")
    model = transformers.AutoModelForCausalLM.from_config(CONFIGS[family](), attn_implementation=attention)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1 or name.endswith(("sinks", "bias")):
                parameter.normal_(std=0.3)
    return model.to(dtype).eval()


def output_projections(model) -> list[torch.nn.Module]:
    """The layers' attention output projections, in order."""
    names = ("self_attn.o_proj", "attention.dense", "attn.c_proj", "self_attn.out_proj")
    return [module for name, module in model.named_modules() if name.endswith(names)]
