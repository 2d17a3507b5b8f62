"""Models: loading a checkpoint whole, the facts of its architecture, and the token that opens each window."""

import atexit
import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
import transformers
from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from .errors import UserError

WORKING_BYTES = 7 * 10**9
"""What a forward pass with measurements (see `estimates`) and the GPU's libraries take besides the weights."""
OTHER_DTYPE = "set the model's `dtype` to float32 or bfloat16"


def load_model(
    checkpoint: str | Path,
    dtype: str = "float32",
    device: str = "cpu",
    attn_implementation: str | None = None,
    device_map: dict[str, Any] | str | None = None,
) -> PreTrainedModel:
    """The causal language model of a safetensors checkpoint, in eval mode on ``device``.

    ``dtype`` is a torch name ("float32", ...) or "auto"; attention is SDPA, or eager where the architecture cannot do
    with SDPA, unless ``attn_implementation`` names one. With device "cuda", a model that does not fit the first GPU is
    spread over all of them and, for the rest, main memory and disk (accelerate); ``device_map``, modules to devices,
    says where instead. Raises UserError if the checkpoint cannot be loaded whole (unknown architecture, missing,
    unexpected or misshapen tensors), if weights are not finite, or if ``device`` is absent.
    """
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise UserError("`device: cuda` in the config, but torch sees no CUDA device; use a GPU node or `device: cpu`.")
    if not sys.stderr.isatty():
        transformers.utils.logging.disable_progress_bar()
    local = {"trust_remote_code": False, "local_files_only": True}
    try:
        config = AutoConfig.from_pretrained(checkpoint, **local)
        if config.get_text_config() is not config:
            raise UserError(
                f"{checkpoint} is a {config.model_type} model of more than text; only text models are read."
            )
        if device.startswith("cuda") and device_map is None:
            device_map = device_map_for(weight_bytes(checkpoint, config, dtype), torch.cuda.mem_get_info()[0])
        model, info = AutoModelForCausalLM.from_pretrained(
            checkpoint,
            device_map=device_map,
            offload_folder=offload_folder() if device_map else None,
            config=config,
            dtype=dtype,
            attn_implementation=attn_implementation,
            use_safetensors=True,
            ignore_mismatched_sizes=True,  # they are reported, and refused below with their names
            output_loading_info=True,
            **local,
        )
    except (OSError, ValueError, KeyError, ArithmeticError, SafetensorError, StrictDataclassError) as error:
        raise UserError(f"{checkpoint} cannot be loaded: {' '.join(str(error).split())}") from error
    refuse_incomplete(info, str(checkpoint))
    refuse_not_finite(model, dtype, str(checkpoint))
    return model.eval() if device_map else model.to(device).eval()


def weight_bytes(checkpoint: str | Path, config: PreTrainedConfig, dtype: str) -> int:
    """Bytes of the weights in ``dtype``, from the sizes of the checkpoint's files."""
    stored = sum(path.stat().st_size for path in Path(checkpoint).glob("*.safetensors"))
    have = config.dtype or torch.float32
    want = have if dtype == "auto" else getattr(torch, dtype)
    return stored * want.itemsize // have.itemsize


def device_map_for(needed: int, free: int) -> dict[str, int] | str:
    """Where ``needed`` bytes of weights go: to the first GPU, if its ``free`` bytes leave room to work, or spread."""
    return {"": 0} if needed + WORKING_BYTES <= free else "auto"


def offload_folder() -> str:
    """A folder of this process's own for weights that fit neither GPU nor main memory, removed when it ends."""
    folder = tempfile.mkdtemp(prefix="headgeom-offload-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def input_device(model: PreTrainedModel) -> torch.device:
    """Where the model takes its tokens: of one that is spread, the hooks fetch them from main memory."""
    return torch.device("cpu") if is_spread(model) else model.device


def is_spread(model: PreTrainedModel) -> bool:
    """Whether accelerate has put the model's layers on several devices."""
    return len(set(getattr(model, "hf_device_map", {}).values())) > 1


def refuse_incomplete(info: dict[str, Any], origin: str) -> None:
    """Raise UserError if transformers' loading info says that weights and model differ (tied weights aside)."""
    problems = {key.removesuffix("_keys"): info.get(key) for key in ("missing_keys", "unexpected_keys")}
    problems["misshapen"] = {name for name, *_ in info.get("mismatched_keys", ())}
    said = [f"{kind}: {_some(names)}" for kind, names in problems.items() if names]
    if said or info.get("error_msgs"):
        raise UserError(f"{origin} does not fit its config; {'; '.join(said + list(info.get('error_msgs', ())))}.")


def refuse_not_finite(model: PreTrainedModel, dtype: str, origin: str) -> None:
    """Raise UserError, naming the tensor, for weights that are not finite; those offloaded to disk are not looked at.

    Numbers beyond 65,504 become infinite in float16.
    """
    for name, parameter in model.named_parameters():
        # A finite sum has finite terms alone, and needs no memory; in float16 it may overflow where no term does.
        if not (parameter.is_meta or parameter.sum().isfinite() or parameter.isfinite().all()):
            mend = f"{OTHER_DTYPE}, if it is whole" if dtype == "float16" else "the checkpoint is damaged"
            where = "" if dtype == "auto" else f" in {dtype}"
            raise UserError(f"{origin}: the tensor {name} holds NaN or infinite values{where}; {mend}.")


def _some(names: Any, most: int = 5) -> str:
    ordered = sorted(names)
    more = f" and {len(ordered) - most} more" if len(ordered) > most else ""
    return ", ".join(ordered[:most]) + more


def load_tokenizer(checkpoint: str | Path) -> PreTrainedTokenizerBase:
    """The checkpoint's tokenizer. Raises UserError if it has none that loads without its own code."""
    try:
        return AutoTokenizer.from_pretrained(checkpoint, trust_remote_code=False, local_files_only=True)
    except (OSError, ValueError, KeyError) as error:
        raise UserError(f"{checkpoint} has no tokenizer that can be loaded: {error}") from error


def stated_tokens(checkpoint: str | Path, name: str, tokenizer: PreTrainedTokenizerBase) -> dict[str, int]:
    """Ids of the special token ``name`` ("bos", "eos") by who states one: "tokenizer", "config" (its first of several).

    config.json is read as it is: the config classes of transformers fill in a BOS that a model may not have.
    """
    key = f"{name}_token_id"
    config = json.loads((Path(checkpoint) / "config.json").read_text(encoding="utf-8"))
    value = config.get(key, config.get("text_config", {}).get(key))
    stated = {"tokenizer": getattr(tokenizer, key), "config": value[0] if isinstance(value, list) else value}
    return {where: token for where, token in stated.items() if token is not None}


def bos_token(
    checkpoint: str | Path, setting: str | int = "auto", tokenizer: PreTrainedTokenizerBase | None = None
) -> tuple[int, str]:
    """The token that opens each window, and where it comes from.

    ``setting`` is the config's ``bos``: a token id, or "auto": the BOS that tokenizer and config.json state; one
    alone may state it; EOS if neither does. Loads no weights. Raises UserError, naming the key, where the two differ,
    where there is neither BOS nor EOS, and for an id outside the vocabulary.
    """
    tokenizer = tokenizer or load_tokenizer(checkpoint)
    if setting != "auto":
        if not 0 <= int(setting) < len(tokenizer):
            raise UserError(f"{checkpoint}: `bos: {setting}` is no token of the vocabulary of {len(tokenizer)}.")
        return int(setting), "setting"
    bos = stated_tokens(checkpoint, "bos", tokenizer)
    if len(set(bos.values())) > 1:
        raise UserError(
            f"{checkpoint}: the tokenizer's BOS is {bos['tokenizer']}, the config's {bos['config']}. "
            "Set the model's `bos:` to the right token id."
        )
    if bos:
        return next(iter(bos.values())), f"bos of {' and '.join(bos)}"
    for where, token in stated_tokens(checkpoint, "eos", tokenizer).items():
        return token, f"eos of {where}, for there is no bos"
    raise UserError(f"{checkpoint} names neither BOS nor EOS. Set the model's `bos:` to a token id.")


def architecture(config: PreTrainedConfig) -> dict[str, Any]:
    """Counts and sizes of the attention, from a transformers config; ``sliding_layers`` lists layer indices."""
    config = config.get_text_config()
    layers, heads = config.num_hidden_layers, config.num_attention_heads
    window = getattr(config, "sliding_window", None)
    types = getattr(config, "layer_types", None) or ["sliding_attention"] * layers
    sliding = [layer for layer, kind in enumerate(types) if kind == "sliding_attention"] if window else []
    return {
        "model_type": config.model_type,
        "layers": layers,
        "heads": heads,
        "key_value_heads": getattr(config, "num_key_value_heads", None) or heads,
        "head_dim": getattr(config, "head_dim", None) or config.hidden_size // heads,
        "hidden_size": config.hidden_size,
        "sliding_window": window if sliding else None,
        "sliding_layers": sliding,
        "max_positions": config.max_position_embeddings,
        "vocabulary": config.vocab_size,
        "tied_embeddings": bool(config.tie_word_embeddings),
    }
