"""Hostile and broken resources: one clear error that leaves nothing, or a skip that the provenance counts."""

import argparse
import bz2
import json
import logging
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import makers
from headgeom import attention, documents, evaluation, extraction, geometry, models, tables
from headgeom.errors import UserError
from headgeom.stages import convert_corpus, convert_model, fetch, tokenize

ROOT = Path(__file__).resolve().parents[2]
GIB = 2**30


def left(folder):
    return sorted(path.name for path in folder.iterdir())


def refused(action, folder, *expected):
    """``action`` must raise a UserError of one line that has the expected texts, and leave the folder alone."""
    before = left(folder)
    with pytest.raises(UserError) as raised:
        action()
    message = str(raised.value)
    assert all(text in message for text in expected), message
    assert "\n" not in message and ".checkpoint" not in message
    assert left(folder) == before


# Wheels


@pytest.fixture
def wheel(tmp_path, monkeypatch):
    """A wheel in a folder that stands for the package index."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    path = folder / "some_data-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("some_data-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: some-data\nVersion: 1.0\n")
        archive.writestr("some_data-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr("some_data-1.0.dist-info/RECORD", "")
        archive.writestr("data/words.txt", "".join(f"word {number}\n" for number in range(9999)))
    return path


def fetch_wheel(tmp_path):
    source = {"kind": "pypi", "files": [{"package": "some-data==1.0", "member": "data/words.txt"}]}
    settings = {"name": "words", "role": "corpus", "source": source}
    fetch.run(argparse.Namespace(settings=settings, output=tmp_path / "source", pin=None))


@pytest.mark.parametrize("share", [0, 0.5, 0.99])
def test_a_truncated_wheel_is_refused(wheel, tmp_path, share):
    fetch_wheel(tmp_path)
    content = wheel.read_bytes()
    wheel.write_bytes(content[: int(len(content) * share)])
    refused(lambda: fetch_wheel(tmp_path), tmp_path, "corpus words: ", "some", "1.0")


def test_a_wheel_with_other_bytes_in_a_member_is_refused(wheel, tmp_path):
    content = bytearray(wheel.read_bytes())
    start = content.index(b"data/words.txt") + 1000
    content[start : start + 50] = bytes(50)
    wheel.write_bytes(content)
    refused(lambda: fetch_wheel(tmp_path), tmp_path, f"corpus words: {wheel.name} is damaged")


# Local folders and checkpoints


def test_a_local_folder_with_a_link_to_nothing_is_refused(tmp_path):
    folder = makers.tiny_checkpoint(tmp_path / "model")
    (folder / "more.json").symlink_to("nowhere")
    settings = {"name": "tiny", "role": "model", "source": {"kind": "local", "path": str(folder)}}
    options = argparse.Namespace(settings=settings, output=tmp_path / "source", pin=None)
    refused(lambda: fetch.run(options), tmp_path, f"model tiny: `source: path:` names {folder}", "more.json cannot be")


@pytest.fixture
def source(tmp_path):
    return makers.fetched_checkpoint(tmp_path / "source")


def convert(source):
    options = argparse.Namespace(
        settings={"name": "tiny"}, source=source, output=source.parent / "checkpoint", threads=1
    )
    convert_model.run(options)
    return options.output


def list_shards(folder, *names):
    """Rename the weights to the first name and list them under all."""
    (folder / "model.safetensors").rename(folder / names[0])
    index = {"metadata": {}, "weight_map": {f"tensor {number}": name for number, name in enumerate(names)}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def fill(name, value):
    return lambda folder: makers.edit_weights(folder, lambda weights: weights[name].fill_(value))


NORM = "model.norm.weight"
CHECKPOINTS = {
    "missing tensor": (
        lambda folder: makers.edit_weights(folder, lambda weights: weights.pop(NORM)),
        f"does not fit its config; missing: {NORM}.",
    ),
    "extra tensor": (
        lambda folder: makers.edit_weights(folder, lambda weights: weights.update(more=torch.zeros(2))),
        "does not fit its config; unexpected: more.",
    ),
    "inf": (fill(NORM, float("inf")), f"the tensor {NORM} holds NaN or infinite values; the checkpoint is damaged."),
    "nan": (fill(NORM, float("nan")), f"the tensor {NORM} holds NaN or infinite values; the checkpoint is damaged."),
    "missing shard": (
        lambda folder: list_shards(folder, "model-1-of-2.safetensors", "model-2-of-2.safetensors"),
        "model.safetensors.index.json lists model-2-of-2.safetensors, which is not beside it",
    ),
    "shard outside": (
        lambda folder: list_shards(folder, "a.safetensors", "../other.safetensors"),
        "model.safetensors.index.json lists ../other.safetensors, which is not beside it",
    ),
    "empty weights": (lambda folder: (folder / "model.safetensors").write_bytes(b""), "cannot be loaded: "),
    "config is cut": (lambda folder: (folder / "config.json").write_text("{"), "config.json is not JSON in UTF-8"),
    "config is a list": (lambda folder: (folder / "config.json").write_text("[]"), "config.json holds a list"),
    "config of a wrong type": (
        lambda folder: makers.edit(folder / "config.json", num_hidden_layers="three"),
        "Field 'num_hidden_layers' expected int, got str",
    ),
    "heads that do not divide": (
        lambda folder: makers.edit(folder / "config.json", num_attention_heads=3),
        "The hidden size (32) is not a multiple of the number of attention heads (3)",
    ),
    "no heads": (lambda folder: makers.edit(folder / "config.json", num_attention_heads=0), "cannot be loaded: "),
    "tokenizer is cut": (
        lambda folder: (folder / "tokenizer.json").write_text('{"version": '),
        "has no tokenizer that can be loaded",
    ),
    "remote code": (
        lambda folder: makers.edit(folder / "config.json", auto_map={"AutoModelForCausalLM": "evil.Model"}),
        "config.json has an `auto_map`: the model needs code of its own, which is never run.",
    ),
    "pickles": (
        lambda folder: (folder / "model.safetensors").rename(folder / "pytorch_model.bin"),
        "holds no safetensors weights, only pytorch_model.bin. Pickled weights can run code",
    ),
}


@pytest.mark.parametrize("fault", CHECKPOINTS)
def test_a_broken_checkpoint_is_refused(source, fault):
    change, message = CHECKPOINTS[fault]
    change(source)
    refused(lambda: convert(source), source.parent, str(source), message)


def test_weights_that_overflow_float16_are_refused(source):
    fill(NORM, 70000.0)(source)
    checkpoint = convert(source)
    assert models.load_model(checkpoint, "bfloat16")
    with pytest.raises(UserError) as raised:
        models.load_model(checkpoint, "float16")
    assert str(raised.value) == (
        f"{checkpoint}: the tensor {NORM} holds NaN or infinite values in float16; set the model's `dtype` to float32 "
        "or bfloat16, if it is whole."
    )


@pytest.fixture
def overflowing(source):
    """A model in float16 whose weights are finite and whose hidden states are not."""
    fill("model.layers.1.mlp.down_proj.weight", 60000.0)(source)
    fill("model.layers.1.mlp.up_proj.weight", 100.0)(source)
    return attention.install(models.load_model(source, "float16"))


def test_hidden_states_that_overflow_are_no_measurement(overflowing):
    settings = geometry.Settings(24, [1, 4], ["euclidean"])
    orders = torch.arange(24).expand(1, 1, 24)
    with pytest.raises(UserError, match=r"hidden states overflow in torch\.float16; set the model's `dtype` to"):
        extraction.measure_batch(overflowing, torch.arange(24)[None] + 4, orders, [23], settings)


def test_losses_that_are_not_finite_are_none(overflowing):
    windows = evaluation.Windows(["d"], torch.arange(24)[None] + 4, {})
    with pytest.raises(UserError, match=r"(logits|losses) are not finite in torch\.float16; set the model's"):
        evaluation.losses(overflowing, windows, [{}], [np.ones((3, 4))], 1)


# Tokenizers


def cut_windows(source, **settings):
    folder = source.parent
    corpus = makers.tiny_corpus(folder / "documents.parquet")
    checkpoint = convert(source)
    settings = {
        "model": "tiny", "corpus": "words", "seed": 1, "bos": "auto", "length": 24,
        "documents": {"geometry": 2, "score": 1, "evaluate": 1}, **settings,
    }  # fmt: skip
    options = argparse.Namespace(
        settings=settings, checkpoint=checkpoint, documents=corpus, output=folder / "tokens.parquet"
    )
    return lambda: tokenize.run(options)


def test_a_model_without_bos_and_eos_needs_a_setting(source):
    makers.edit(source / "tokenizer_config.json", bos_token=None, eos_token=None)
    makers.edit(source / "config.json", bos_token_id=None, eos_token_id=None)
    action = cut_windows(source)
    with pytest.raises(UserError, match=r"names neither BOS nor EOS\. Set the model's `bos:` to a token id\."):
        action()
    assert not (source.parent / "tokens.parquet").exists()
    cut_windows(source, bos=3)()
    frame, provenance = tables.read_parquet(source.parent / "tokens.parquet")
    assert {tokens[0] for tokens in frame["tokens"]} == {3}
    assert provenance["bos"] == {"token": 3, "rule": "setting"}


def test_a_tokenizer_and_a_config_of_different_bos_need_a_setting(source):
    makers.edit(source / "config.json", bos_token_id=5)
    action = cut_windows(source)
    with pytest.raises(UserError, match=r"the tokenizer's BOS is 1, the config's 5\. Set the model's `bos:`"):
        action()
    assert not (source.parent / "tokens.parquet").exists()


def test_the_tokenizer_of_another_model_is_refused(source):
    makers.tiny_tokenizer(120).save_pretrained(source)
    action = cut_windows(source)
    with pytest.raises(UserError, match=r"the tokenizer of model 'tiny' makes token \d+, but the model has a vocab"):
        action()
    assert not (source.parent / "tokens.parquet").exists()


# Corpora


def jsonl(*rows):
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def parquet(path, **columns):
    pq.write_table(pa.table(columns), path)


def take_corpus(folder, name, content, **settings):
    """Convert a corpus of that file; the documents' texts and their counts by ``read``, ``documents`` and reason."""
    (folder / "source").mkdir()
    path = folder / "source" / name
    content(path) if callable(content) else path.write_bytes(content)
    (folder / "source" / "source.json").write_text(json.dumps({"files": [{"name": name}]}))
    output = folder / "documents.parquet"
    convert_corpus.run(
        argparse.Namespace(settings={"name": "odd", **settings}, source=folder / "source", output=output)
    )
    frame, provenance = tables.read_parquet(output)
    counts = {key: provenance[key] for key in ("read", "documents", *documents.SKIPPED)}
    assert counts["read"] == sum(counts.values()) - counts["read"]
    return list(frame["text"]), {key: number for key, number in counts.items() if number}


ENORMOUS = "x" * (documents.LARGEST + 1)
PAGES = "".join(
    f"<page><title>T</title><ns>0</ns><id>{number}</id><revision><text>{text}</text></revision></page>"
    for number, text in enumerate(["one", "{{x}}", "one", ENORMOUS])
)
ARTICLES = ["", "= A =", "", "one", "", "= B =", "", *[ENORMOUS[: 2**23]] * 3, "", "= C =", "", "\0"]
ODD = {
    "a.txt": ("lines", f"one\n\n{ENORMOUS}\none\na\0b\n\x1b[0m\ntwo".encode(), ["one", "two"]),
    "a.jsonl": (
        "rows",
        jsonl(*({"text": text} for text in ("one", " ", ENORMOUS, "one", "a\0b", "\udcff", None, "two"))),
        ["one", "two"],
    ),
    "a.csv": ("rows", b'text,title\none,\n"",\none,x\na\0b,\nb,\x7f\ntwo,\n', ["one", "two"]),
    "a.parquet": (
        "rows",
        lambda path: parquet(path, text=["one", "", ENORMOUS, "one", "a\0b", None, "two"]),
        ["one", "two"],
    ),
    "w.jsonl": ("wikitext", jsonl(*({"text": line} for line in ARTICLES)), ["= A =\n\none"]),
    "a.xml": ("mediawiki", f"<mediawiki>{PAGES}</mediawiki>".encode(), ["one"]),
    "a.xml.bz2": ("mediawiki", bz2.compress(f"<mediawiki>{PAGES}</mediawiki>".encode()), ["one"]),
}
COUNTS = {
    "a.txt": {"read": 7, "documents": 2, "empty": 1, "too_large": 1, "control": 2, "duplicates": 1},
    "a.jsonl": {"read": 8, "documents": 2, "empty": 2, "too_large": 1, "control": 2, "duplicates": 1},
    "a.csv": {"read": 6, "documents": 2, "empty": 1, "control": 2, "duplicates": 1},
    "a.parquet": {"read": 7, "documents": 2, "empty": 2, "too_large": 1, "control": 1, "duplicates": 1},
    "w.jsonl": {"read": 3, "documents": 1, "too_large": 1, "control": 1},
    "a.xml": {"read": 4, "documents": 1, "empty": 1, "too_large": 1, "duplicates": 1},
    "a.xml.bz2": {"read": 4, "documents": 1, "empty": 1, "too_large": 1, "duplicates": 1},
}


@pytest.mark.parametrize("name", ODD)
def test_odd_documents_are_skipped_and_counted(tmp_path, name, caplog):
    caplog.set_level(logging.INFO)
    form, content, kept = ODD[name]
    texts, counts = take_corpus(tmp_path, name, content, format=form)
    assert texts == kept
    assert counts == COUNTS[name]
    said = ", ".join(f"{counts.get(reason, 0)} {reason}" for reason in documents.SKIPPED)
    assert caplog.messages[-1] == f"{len(kept)} documents; left out: {said}"


def not_utf8(path):
    """A string column whose bytes are not UTF-8."""
    offsets = pa.array([0, 1, 2], pa.int32()).buffers()[1]
    parquet(path, text=pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(b"a\xe9")]))


def damaged(path):
    parquet(path, text=[f"row {number} " * 50 for number in range(5000)])
    content = bytearray(path.read_bytes())
    content[5000:6000] = bytes(1000)
    path.write_bytes(content)


CORPORA = {
    "empty jsonl": ("a.jsonl", b"", "rows", "a.jsonl holds no documents: 0 were read."),
    "blank jsonl": ("a.jsonl", b"\n \n", "rows", "a.jsonl holds no documents: 0 were read."),
    "empty csv": ("a.csv", b"", "rows", "a.csv cannot be read as csv: it is empty; its first line must name"),
    "csv without rows": ("a.csv", b"text\n", "rows", "a.csv holds no documents: 0 were read."),
    "empty lines": ("a.txt", b"", "lines", "a.txt holds no documents: 0 were read."),
    "empty documents": ("a.txt", b"\n\n \n", "lines", "a.txt holds no documents: 3 were read, 3 empty."),
    "zeros": ("a.txt", bytes(99), "lines", "a.txt holds no documents: 1 were read, 1 control."),
    "same id": (
        "a.jsonl",
        jsonl({"id": 7, "text": "a"}, {"id": "7", "text": "b"}),
        "rows",
        "a.jsonl: two documents have the id '7'; ids must be unique.",
    ),
    "Latin-1": ("a.txt", b"good\ncaf\xe9\n", "lines", "a.txt, line 2, byte 4: not UTF-8."),
    "UTF-16": ("a.csv", "text\na\n".encode("utf-16"), "rows", "a.csv, line 1, byte 1: not UTF-8."),
    "Parquet of Latin-1": ("a.parquet", not_utf8, "rows", "a.parquet cannot be read as parquet: 'utf-8' codec"),
    "damaged Parquet": ("a.parquet", damaged, "rows", "a.parquet cannot be read as parquet: "),
    "deep JSON": ("a.jsonl", b'{"text": ' + b"[" * 200000, "rows", "a.jsonl, line 1: not JSON (maximum recursion"),
    "open quote": ("a.csv", b'text\n"a\nb\n', "rows", "a.csv cannot be read as csv: line 3: unexpected end of data."),
    "enormous csv line": (
        "a.csv",
        f"text\nok\n{ENORMOUS}\n".encode(),
        "rows",
        "a.csv, line 3: longer than 16777216 bytes.",
    ),
    "enormous csv field": (
        "a.csv",
        b'text\n"' + b"words\n" * 2**22 + b'"\n',
        "rows",
        "field larger than field limit (16777216).",
    ),
    "more values than columns": ("a.csv", b"text\nok\na,b\n", "rows", "a.csv, line 3: 2 values for 1 columns."),
    "control character in XML": ("a.xml", b"<mediawiki>\0", "mediawiki", "a.xml, line 1, column 11: not well-formed"),
    "entities that grow": (
        "a.xml",
        b'<!DOCTYPE m [<!ENTITY a "aaaaaaaaaa">'
        + b"".join(b'<!ENTITY %c "%s">' % (98 + n, b"&%c;" % (97 + n) * 10) for n in range(9))
        + b"]><mediawiki><page><title>&j;</title></page></mediawiki>",
        "mediawiki",
        "not well-formed XML in UTF-8 (limit on input amplification factor",
    ),
}


@pytest.mark.parametrize("fault", CORPORA)
def test_a_broken_corpus_is_refused(tmp_path, fault):
    name, content, form, message = CORPORA[fault]
    with pytest.raises(UserError) as raised:
        take_corpus(tmp_path, name, content, format=form)
    assert message in str(raised.value) and "\n" not in str(raised.value)
    assert left(tmp_path) == ["source"]


# A process that is started may count its parent's memory as its own; the high-water mark of its address space does not.
MEASURED = """\
import re, resource, sys
resource.setrlimit(resource.RLIMIT_AS, (2**32, 2**32))
sys.path.insert(0, "workflow")
import run
code = run.main(sys.argv[1:])
print(int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1]) // 1024)
sys.exit(code)
"""


def in_little_memory(folder, **settings):
    """Convert what is in the folder ``source`` with 4 GiB of address space; the provenance and the most MiB in use."""
    command = [sys.executable, "-c", MEASURED, "convert_corpus", "--source", str(folder / "source")]
    command += ["--output", str(folder / "documents.parquet"), "--settings", json.dumps({"name": "large", **settings})]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return tables.read_provenance(folder / "documents.parquet"), int(done.stdout)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "form", "gibibytes", "first", "last"),
    [
        ("a.txt", "lines", 10, b"first\n", b"\nlast\n"),
        ("a.jsonl", "rows", 1, jsonl({"text": "first"}), b'\n{"text": "last"}\n'),
    ],
)
def test_a_file_of_holes_is_read_in_little_memory(tmp_path, name, form, gibibytes, first, last):
    (tmp_path / "source").mkdir()
    path = tmp_path / "source" / name
    with path.open("wb") as stream:
        stream.write(first)
        stream.seek(gibibytes * GIB, os.SEEK_CUR)
        stream.write(last)
    (tmp_path / "source" / "source.json").write_text(json.dumps({"files": [{"name": name}]}))
    provenance, mebibytes = in_little_memory(tmp_path, format=form)
    assert (provenance["read"], provenance["too_large"], provenance["documents"]) == (3, 1, 2)
    assert list(documents.Texts(tmp_path / "documents.parquet").values()) == ["first", "last"]
    assert mebibytes < 250


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a.jsonl", "a.csv", "a.parquet"])
def test_memory_does_not_grow_with_the_corpus(tmp_path, name):
    """320 MB of text; without a stream, the text alone takes more than the limit."""
    (tmp_path / "source").mkdir()
    words = "many words " * 727
    if name == "a.parquet":
        with pq.ParquetWriter(tmp_path / "source" / name, pa.schema([("text", pa.string())])) as writer:
            for start in range(0, 40_000, 1000):
                writer.write_table(pa.table({"text": [f"{number} {words}" for number in range(start, start + 1000)]}))
    else:
        with (tmp_path / "source" / name).open("w") as stream:
            row = '{{"text": "{} {}"}}\n' if name == "a.jsonl" else "{} {}\n"
            stream.write("" if name == "a.jsonl" else "text\n")
            stream.writelines(row.format(number, words) for number in range(40_000))
    (tmp_path / "source" / "source.json").write_text(json.dumps({"files": [{"name": name}]}))
    provenance, mebibytes = in_little_memory(tmp_path)
    assert provenance["documents"] == 40_000
    assert mebibytes < 250


def test_texts_are_read_one_by_one(tmp_path):
    """From whichever row group they are in."""
    numbers = range(2 * documents.GROUP + 3)
    path = tmp_path / "documents.parquet"
    documents.write((documents.Document(f"d{n}", "", f"text {n}") for n in numbers), path, "here", {})
    texts = documents.Texts(path)
    assert pq.ParquetFile(path).num_row_groups == 3
    assert dict(texts) == {f"d{n}": f"text {n}" for n in numbers}
    with pytest.raises(KeyError):
        texts["absent"]


def test_row_groups_of_long_texts_are_small(tmp_path):
    path = tmp_path / "documents.parquet"
    half = documents.LARGEST // 2
    documents.write((documents.Document(f"d{n}", "", f"{n} {'x' * half}") for n in range(4)), path, "here", {})
    assert pq.ParquetFile(path).num_row_groups == 2
