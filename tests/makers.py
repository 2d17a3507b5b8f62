"""Tiny models with tokenizers and tiny corpora for tests; `python tests/makers.py FOLDER` makes one of each."""

import json
import random
import sys
from collections.abc import Callable
from pathlib import Path

import tokenizers
import transformers
from safetensors.torch import load_file, save_file
from torch import Tensor

from families import CONFIGS, tiny_model

SPECIAL = ["<pad>", "<s>", "</s>", "<unk>"]  # ids 0 to 3, as in the configs of the families
SENTENCE = """
a at be but do few for gold good hat here house in it light long moon more night not of old on one or path quiet river
road said sea see small so stone sun that the then there they tree under water when wind word
"""
WORDS = SENTENCE.split()


def tiny_documents(count: int = 16, words: int = 60, seed: int = 0) -> list[dict[str, str]]:
    """Documents of random sentences, each of ``words`` words, with id, title and text."""
    generator = random.Random(seed)
    return [
        {"id": f"d{number}", "title": f"Title {number}", "text": " ".join(generator.choices(WORDS, k=words))}
        for number in range(count)
    ]


def tiny_tokenizer(size: int = 96) -> transformers.PreTrainedTokenizerFast:
    """A byte-pair tokenizer of ``size`` tokens, trained on the words; decoding gives the text back."""
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace(prepend_scheme="never")
    tokenizer.decoder = tokenizers.decoders.Metaspace(prepend_scheme="never")
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=size, special_tokens=SPECIAL, show_progress=False)
    tokenizer.train_from_iterator([document["text"] for document in tiny_documents()], trainer)
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    )


def tiny_checkpoint(folder: Path, family: str = "llama", seed: int = 0) -> Path:
    """A random model of a family (see families.py) with a tokenizer, as transformers saves them; about 200 kB."""
    tiny_model(family, seed=seed).save_pretrained(folder)
    tiny_tokenizer(CONFIGS[family]().vocab_size).save_pretrained(folder)
    return folder


def fetched_checkpoint(folder: Path) -> Path:
    """The tiny llama as a fetched source, for conversion."""
    tiny_checkpoint(folder)
    (folder / "source.json").write_text('{"kind": "local", "path": "tiny", "files": [], "sha256": "0"}')
    return folder


def edit(path: Path, **changes) -> None:
    """Change keys of a JSON file; None removes one."""
    content = {**json.loads(path.read_text()), **changes}
    path.write_text(json.dumps({key: value for key, value in content.items() if value is not None}))


def edit_weights(folder: Path, change: Callable[[dict[str, Tensor]], object]) -> None:
    """Let ``change`` edit a checkpoint's tensors by name."""
    weights = load_file(folder / "model.safetensors")
    change(weights)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def tiny_rows(path: Path, **options: int) -> Path:
    """The tiny documents as a .jsonl file, a source of format "rows"."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(document) + "\n" for document in tiny_documents(**options)))
    return path


def tiny_corpus(path: Path, **options: int) -> Path:
    """The tiny documents as a documents.parquet, a converted corpus."""
    from headgeom import documents

    tiny = (documents.Document(**document) for document in tiny_documents(**options))
    documents.write(tiny, path, "tiny documents", {"source": {"kind": "local"}})
    return path


def make_micro(folder: Path) -> None:
    """The sources of config/micro.yaml, which looks for them in resources/micro."""
    tiny_checkpoint(folder / "model")
    tiny_rows(folder / "words.jsonl")


if __name__ == "__main__":
    make_micro(Path(sys.argv[1]))
