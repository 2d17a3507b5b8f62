"""Turn a fetched model into a safetensors checkpoint folder that plain transformers loads, and check it."""

import argparse
import json
import logging
import os
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from gguf import GGUFReader
from tokenizers import Tokenizer
from tokenizers.pre_tokenizers import Digits, Sequence
from transformers import AutoModelForCausalLM, PreTrainedModel, PreTrainedTokenizerFast

from headgeom import estimates, models
from headgeom.checkpoints import refuse_without_safetensors
from headgeom.errors import UserError
from headgeom.files import replacing, sha256
from headgeom.provenance import record

logger = logging.getLogger(__name__)
KEPT = ("*.safetensors", "*.json", "*.model", "*.txt", "*.jinja")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The stage's own options."""
    parser.add_argument("--source", type=Path, required=True, help="folder that `fetch` wrote")
    parser.add_argument("--output", type=Path, required=True, help="checkpoint folder to write")


def run(options: argparse.Namespace) -> None:
    """Write the checkpoint and its provenance.json: the source and the facts of the architecture."""
    torch.set_num_threads(options.threads)
    source = json.loads((options.source / "source.json").read_text(encoding="utf-8"))
    with replacing(options.output) as folder:
        folder.mkdir()
        gguf = sorted(options.source.glob("*.gguf"))
        if len(gguf) > 1:
            raise UserError(f"{options.source} holds {len(gguf)} GGUF files; a model is one.")
        if gguf:
            convert_gguf(gguf[0], folder)
        else:
            take_checkpoint(options.source, folder)
        try:
            facts = checked_facts(folder)
        except UserError as error:  # the folder that it names will be gone
            raise UserError(str(error).replace(str(folder), str(options.source))) from error
        refuse_other_shape(options.settings, facts)
        provenance = record("convert_model", options.settings, source=source, **facts)
        (folder / "provenance.json").write_text(json.dumps(provenance, indent=1, ensure_ascii=False) + "\n")
    logger.info("%s", {key: facts[key] for key in ("model_class", "parameters", "layers", "heads", "key_value_heads")})


def convert_gguf(path: Path, folder: Path) -> None:
    """Dequantise a GGUF file to float32 and save it with its tokenizer.

    transformers refuses to save a model that it loaded from GGUF, so a fresh one takes its weights. Raises UserError
    for what transformers cannot read, and if the file holds tensors that the model has no place for.
    """
    try:
        reader = GGUFReader(path)
        # Parsing the header of a large vocabulary takes 15 seconds, and transformers would do it again and again.
        with patch("gguf.GGUFReader", return_value=reader):
            quantised, info = AutoModelForCausalLM.from_pretrained(
                path.parent, gguf_file=path.name, dtype=torch.float32, output_loading_info=True
            )
        # The generic class keeps the tokenizer as it is saved; a model's own class rebuilds it when it is loaded.
        tokenizer = PreTrainedTokenizerFast.from_pretrained(path.parent, gguf_file=path.name)
    except (OSError, ValueError, KeyError, NotImplementedError) as error:
        raise UserError(f"{path} cannot be read as GGUF: {error}") from error
    split_digits(reader.fields, tokenizer.backend_tokenizer)
    models.refuse_incomplete(info, str(path))
    refuse_unread({tensor.name: int(tensor.n_elements) for tensor in reader.tensors}, quantised, path)
    settings = quantised.config.to_dict()
    settings.pop("quantization_config", None)
    with torch.device("meta"):
        fresh = AutoModelForCausalLM.from_config(type(quantised.config).from_dict(settings), dtype=torch.float32)
    fresh.load_state_dict(quantised.state_dict(), strict=True, assign=True)
    fresh.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def split_digits(fields: dict[str, Any], tokenizer: Tokenizer) -> None:
    """Make the pre-tokenizer "smollm" split digits, which transformers leaves out; "\\n\\n15" shows the difference.

    Source: llama.cpp, ``LLAMA_VOCAB_PRE_TYPE_SMOLLM``, which splits at ``\\p{N}`` first.
    """
    name = fields.get("tokenizer.ggml.pre")
    if name is not None and name.contents() == "smollm":
        tokenizer.pre_tokenizer = Sequence([Digits(individual_digits=True), tokenizer.pre_tokenizer])


def refuse_unread(sizes: dict[str, int], model: PreTrainedModel, path: Path) -> None:
    """Raise UserError if the file's tensors (name to number of elements) hold more or fewer numbers than the model.

    transformers skips tensors that it has no place for, such as the frequencies of a scaled RoPE, and says nothing.
    """
    held, taken = sum(sizes.values()), sum(parameter.numel() for parameter in model.parameters())
    if held != taken:
        others = ", ".join(name for name in sizes if not name.startswith("blk."))
        raise UserError(
            f"{path} holds {held} numbers, the model made from it {taken}: transformers has no place for some tensors. "
            f"Those outside the layers: {others}. Name a safetensors checkpoint of the model instead."
        )


def take_checkpoint(source: Path, folder: Path) -> None:
    """Hard-link (or copy) the files of a safetensors checkpoint.

    Raises UserError for pickled weights, for a checkpoint that needs code of its own, for one without config.json, and
    for weights that are listed, but not in the folder.
    """
    names = sorted(path.name for path in source.iterdir())
    refuse_without_safetensors(names, str(source))
    if "config.json" not in names:
        raise UserError(f"{source} has no config.json; a model's source must be a checkpoint folder or a GGUF file.")
    for name in ("config.json", "tokenizer_config.json"):
        if name in names and "auto_map" in read_json(source / name):
            raise UserError(f"{source / name} has an `auto_map`: the model needs code of its own, which is never run.")
    for name in (name for name in names if name.endswith(".safetensors.index.json")):
        absent = sorted(set(read_json(source / name).get("weight_map", {}).values()) - set(names))
        if absent:
            raise UserError(f"{source / name} lists {absent[0]}, which is not beside it; fetch the whole checkpoint.")
    for path in sorted({path for pattern in KEPT for path in source.glob(pattern)} - {source / "source.json"}):
        try:
            os.link(path, folder / path.name)
        except OSError:  # another file system, or one without hard links
            shutil.copy2(path, folder / path.name)


def read_json(path: Path) -> dict[str, Any]:
    """A JSON file's object. Raises UserError, naming the file, if it holds something else."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UserError(f"{path} is not JSON in UTF-8 ({error}); the checkpoint is damaged.") from error
    if not isinstance(content, dict):
        raise UserError(f"{path} holds a {type(content).__name__}, not an object; the checkpoint is damaged.")
    return content


def refuse_other_shape(settings: dict[str, Any], facts: dict[str, Any]) -> None:
    """Raise UserError if the settings state a ``shape``, and the facts say another.

    Of ``parameters``, which a shape gives without biases and the norms of some families, 2 % may be missing.
    """
    if "shape" not in settings:
        return
    for key, stated in asdict(estimates.from_config(settings["shape"])).items():
        if abs(stated - facts[key]) > (0.02 * facts[key] if key == "parameters" else 0):
            raise UserError(
                f"model {settings['name']}: its `shape` in the config makes for {key} {stated}, but the checkpoint has "
                f"{facts[key]}. Correct `shape`, or leave it out."
            )


def checked_facts(folder: Path) -> dict[str, Any]:
    """Facts of the checkpoint for its provenance, after loading it as every later stage does.

    Raises UserError, naming the tensor, for weights that are not finite.
    """
    model, tokenizer = models.load_model(folder, dtype="auto"), models.load_tokenizer(folder)
    return {
        "model_class": type(model).__name__,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "stored_dtype": str(model.dtype).removeprefix("torch."),
        **models.architecture(model.config),
        **{f"{name}_token_id": models.stated_tokens(folder, name, tokenizer) for name in ("bos", "eos")},
        "weights_sha256": {path.name: sha256(path) for path in sorted(folder.glob("*.safetensors"))},
    }
