"""Fetching from the hub with its real clients, against a server on this machine that speaks the hub's API."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

import makers
from hub_server import NEW, OLD, TOKEN, Hub

ROOT = Path(__file__).resolve().parents[2]
ABSENT = "c" * 40


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    """A hub with a model and a data set, each at two revisions, the same gated, and a model of pickles."""
    checkpoint = makers.tiny_checkpoint(tmp_path_factory.mktemp("model"))
    files = {path.name: path.read_bytes() for path in sorted(checkpoint.iterdir())}
    new = files | {"config.json": b'{"newer": true}'}
    more = {
        "consolidated.safetensors": b"again",
        "onnx/model.safetensors": b"other",
        "model.py": b"code",
        "a.bin": b"p",
    }
    rows = "".join(json.dumps({"body": f"old {number}"}) + "\n" for number in range(50)).encode()
    server = Hub()
    server.repositories = {
        ("models", "tiny/model"): {OLD: files | more, NEW: new},
        ("models", "tiny/gated"): {OLD: files},
        ("models", "tiny/pickled"): {OLD: {"config.json": b"{}", "pytorch_model.bin": b"pickle"}},
        ("datasets", "tiny/texts"): {
            OLD: {"data/train.jsonl": rows, "README.md": b"# Old"},
            NEW: {"data/train.jsonl": b'{"body": "new"}\n', "README.md": b"# New"},
        },
        ("datasets", "tiny/gated-texts"): {OLD: {"data/train.jsonl": rows, "README.md": b"# Gated"}},
    }
    server.gated = {"tiny/gated", "tiny/gated-texts"}
    yield server
    server.shutdown()


@pytest.fixture
def fetch(hub, tmp_path):
    """Run the stage on a hub source; the finished process, whose output folder is tmp_path/source."""

    def run(repository, role="model", revision=OLD, environment=None, **source):
        source = {"kind": "hub", "repository": repository, "revision": revision, **source}
        settings = {"name": "tiny", "role": role, "source": source}
        address = hub.address
        clean = {key: value for key, value in os.environ.items() if not key.startswith("HF_")}
        clean |= {"HF_ENDPOINT": address, "HF_HOME": str(tmp_path / "home"), "HF_HUB_DISABLE_TELEMETRY": "1"}
        hub.seen.clear()
        command = [sys.executable, "workflow/run.py", "fetch", "--settings", json.dumps(settings)]
        command += ["--output", str(tmp_path / "source"), "--log", str(tmp_path / "log")]
        return subprocess.run(
            command, cwd=ROOT, env=clean | (environment or {}), capture_output=True, text=True, timeout=300, check=False
        )

    return run


def read_record(tmp_path):
    return json.loads((tmp_path / "source" / "source.json").read_text())


def test_a_model_comes_at_the_pinned_revision_and_without_other_formats(hub, fetch, tmp_path):
    done = fetch("tiny/model")
    assert done.returncode == 0, done.stderr
    pinned = hub.repositories["models", "tiny/model"][OLD]
    names = {"config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"}
    fetched = {path.name: path.read_bytes() for path in (tmp_path / "source").rglob("*") if path.is_file()}
    del fetched["source.json"]
    assert fetched == {name: pinned[name] for name in names}
    record = read_record(tmp_path)
    assert (record["kind"], record["repository"], record["revision"]) == ("hub", "tiny/model", OLD)
    assert {file["name"]: file["sha256"] for file in record["files"]} == {
        name: hashlib.sha256(pinned[name]).hexdigest() for name in names
    }
    again = fetch("tiny/model", sha256=record["sha256"])
    assert again.returncode == 0, again.stderr
    other = fetch("tiny/model", revision=NEW, sha256=record["sha256"])
    assert other.returncode == 1 and f"model tiny: `source: sha256:` expects {record['sha256']}" in other.stderr
    assert read_record(tmp_path) == record


@pytest.mark.parametrize("documents", [None, 3])
def test_a_data_set_comes_at_the_pinned_revision(fetch, tmp_path, documents):
    limit = {} if documents is None else {"documents": documents}
    done = fetch("tiny/texts", role="corpus", split="train", **limit)
    assert done.returncode == 0, done.stderr
    rows = pd.read_parquet(tmp_path / "source" / "rows.parquet")
    assert list(rows["body"]) == [f"old {number}" for number in range(documents or 50)]
    assert [file["name"] for file in read_record(tmp_path)["files"]] == ["rows.parquet"]


@pytest.mark.parametrize(
    ("repository", "role", "page"),
    [
        ("tiny/gated", "model", "tiny/gated"),
        ("tiny/gated-texts", "corpus", "datasets/tiny/gated-texts"),
    ],
)
def test_a_gated_repository_needs_its_licence_and_a_token(fetch, tmp_path, repository, role, page):
    for environment in ({}, {"HF_TOKEN": "hf_other"}):
        done = fetch(repository, role=role, environment=environment)
        assert done.returncode == 1
        assert f"{role} tiny: no access to {repository}. Accept its licence" in done.stderr
        assert f"https://huggingface.co/{page} " in done.stderr and "HF_TOKEN" in done.stderr
        assert (tmp_path / "log").read_text().count("\n") == 1
    done = fetch(repository, role=role, environment={"HF_TOKEN": TOKEN})
    assert done.returncode == 0, done.stderr
    for path in [tmp_path / "log", *(tmp_path / "source").iterdir()]:
        assert TOKEN.encode() not in path.read_bytes()
    assert TOKEN not in done.stdout + done.stderr


def test_the_token_of_a_login_is_not_used(hub, fetch, tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "token").write_text(TOKEN)
    assert fetch("tiny/gated").returncode == 1
    assert {authorization for _, _, authorization in hub.seen} == {None}


@pytest.mark.parametrize(("repository", "role"), [("tiny/model", "model"), ("tiny/texts", "corpus")])
def test_an_absent_revision_is_named(fetch, tmp_path, repository, role):
    done = fetch(repository, role=role, revision=ABSENT)
    assert done.returncode == 1
    assert f"{role} tiny: {repository} has no revision {ABSENT}." in done.stderr
    assert not (tmp_path / "source").exists()


def test_an_absent_repository_is_named(fetch):
    done = fetch("tiny/absent")
    assert done.returncode == 1 and "no access to tiny/absent" in done.stderr and "the name is wrong" in done.stderr


def test_pickles_are_refused_before_they_are_fetched(hub, fetch):
    done = fetch("tiny/pickled")
    assert done.returncode == 1
    assert "holds no safetensors weights, only pytorch_model.bin." in done.stderr and "save_pretrained" in done.stderr
    assert not any("resolve" in path for _, path, _ in hub.seen)


@pytest.mark.parametrize(("repository", "role"), [("tiny/model", "model"), ("tiny/texts", "corpus")])
def test_no_network_is_said_so(fetch, tmp_path, repository, role):
    for environment in ({"HF_ENDPOINT": "http://127.0.0.1:9"}, {"HF_HUB_OFFLINE": "1"}):
        done = fetch(repository, role=role, environment=environment)
        assert done.returncode == 1
        assert f"{role} tiny: the hub cannot be reached" in done.stderr
    assert not (tmp_path / "source").exists()
