"""Fetching from the hub with its real clients, against a server on this machine that speaks the hub's API."""

import hashlib
import json
import os
import re
import subprocess
import sys
import threading
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pandas as pd
import pytest

import makers

ROOT = Path(__file__).resolve().parents[2]
OLD, NEW, ABSENT = "a" * 40, "b" * 40, "c" * 40
TOKEN = "hf_secret_of_the_test"

_ROUTES = {
    "info": re.compile(r"/api/(models|datasets)/([^/]+/[^/]+)(?:/revision/([^/]+))?"),
    "tree": re.compile(r"/api/(models|datasets)/([^/]+/[^/]+)/tree/([^/]+)(?:/(.*))?"),
    "paths": re.compile(r"/api/(models|datasets)/([^/]+/[^/]+)/paths-info/([^/]+)"),
    "file": re.compile(r"/(datasets/)?([^/]+/[^/]+)/resolve/([^/]+)/(.*)"),
}


class Hub(ThreadingHTTPServer):
    """``repositories``: (type, name) -> revision -> path -> bytes; ``gated``: names whose files need the token."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.repositories, self.gated, self.seen = {}, set(), []


class Handler(BaseHTTPRequestHandler):
    """The few requests that huggingface_hub and datasets make to read a repository."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        pass

    def do_HEAD(self):
        self.answer()

    def do_GET(self):
        self.answer()

    def do_POST(self):
        self.answer()

    def answer(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = urllib.parse.unquote(urllib.parse.urlsplit(self.path).path)
        self.server.seen.append((self.command, path, self.headers.get("Authorization")))
        for kind in ("tree", "paths", "file", "info"):
            match = _ROUTES[kind].fullmatch(path)
            if match:
                return self.repository(kind, *match.groups(), body=body)
        return self.send(404, b"{}")

    def repository(self, kind, repo_type, name, revision, path="", body=b""):
        repo_type = (repo_type or "models").strip("/")
        revisions = self.server.repositories.get((repo_type, name))
        if revisions is None:
            return self.fail(401, "RepoNotFound")
        revision = NEW if revision in (None, "main") else revision
        if revision not in revisions:
            return self.fail(404, "RevisionNotFound")
        files = revisions[revision]
        if kind == "file":
            if name in self.server.gated and self.headers.get("Authorization") != f"Bearer {TOKEN}":
                return self.fail(403 if self.headers.get("Authorization") else 401, "GatedRepo")
            if path not in files:
                return self.fail(404, "EntryNotFound")
            return self.send(200, files[path], {"ETag": f'"{_oid(files[path])}"', "X-Repo-Commit": revision})
        return self.send_json(getattr(self, kind)(name, revision, files, path, body))

    def info(self, name, revision, files, path, body):
        return {"id": name, "sha": revision, "siblings": [{"rfilename": file} for file in files], "private": False}

    def tree(self, name, revision, files, path, body):
        entries = _entries(files)
        return [entry for entry in entries if not path or entry["path"].startswith(f"{path}/")]

    def paths(self, name, revision, files, path, body):
        wanted = urllib.parse.parse_qs(body.decode())["paths"]
        return [entry for entry in _entries(files) if entry["path"] in wanted]

    def send_json(self, content):
        self.send(200, json.dumps(content).encode(), {"Content-Type": "application/json"})

    def fail(self, status, code):
        self.send(status, b"{}", {"X-Error-Code": code, "X-Error-Message": code})

    def send(self, status, content, headers=None):
        self.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)


def _oid(content):
    return hashlib.sha1(content).hexdigest()


def _entries(files):
    folders = sorted({parent.as_posix() for file in files for parent in Path(file).parents} - {"."})
    entries = [{"type": "directory", "path": folder, "oid": _oid(folder.encode()), "size": 0} for folder in folders]
    return entries + [
        {"type": "file", "path": file, "oid": _oid(content), "size": len(content)} for file, content in files.items()
    ]


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
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()


@pytest.fixture
def fetch(hub, tmp_path):
    """Run the stage on a hub source; the finished process, whose output folder is tmp_path/source."""

    def run(repository, role="model", revision=OLD, environment=None, **source):
        source = {"kind": "hub", "repository": repository, "revision": revision, **source}
        settings = {"name": "tiny", "role": role, "source": source}
        address = f"http://127.0.0.1:{hub.server_port}"
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
