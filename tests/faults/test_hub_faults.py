"""A hub that is busy, cuts connections or changes what it holds; and the token, which must not be left anywhere."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from huggingface_hub.errors import HfHubHTTPError

import makers
from headgeom import hub as hub_module
from headgeom.errors import UserError
from hub_server import OLD, TOKEN, Hub

ROOT = Path(__file__).resolve().parents[2]
MIB = 2**20
WEIGHTS = bytes(range(256)) * (100 * MIB // 1024)  # 25 MiB: the client writes what it receives in pieces of 10
ROWS = "".join(json.dumps({"text": f"row {number}"}) + "\n" for number in range(50)).encode()
SOURCES = {"model": "tiny/large", "corpus": "tiny/rows"}


@pytest.fixture
def hub():
    """A hub with a model whose weights are large enough to be cut, and a data set."""
    server = Hub()
    server.repositories = {
        ("models", "tiny/large"): {OLD: {"config.json": b"{}", "model.safetensors": WEIGHTS}},
        ("datasets", "tiny/rows"): {OLD: {"data/train.jsonl": ROWS, "README.md": b"# Rows"}},
    }
    yield server
    server.shutdown()


@pytest.fixture
def run(hub, tmp_path):
    """Run ``pin`` or ``fetch`` on a source of that hub; the finished process."""

    def run_stage(stage, role, *arguments, **source):
        source = {"kind": "hub", "repository": SOURCES[role], "revision": OLD, **source}
        settings = {"name": "tiny", "role": role, "source": source}
        clean = {key: value for key, value in os.environ.items() if not key.startswith("HF_")}
        clean |= {"HF_ENDPOINT": hub.address, "HF_HOME": str(tmp_path / "home"), "HF_HUB_DISABLE_TELEMETRY": "1"}
        command = [sys.executable, "workflow/run.py", stage, "--settings", json.dumps(settings), *arguments]
        command += ["--log", str(tmp_path / "log")]
        return subprocess.run(command, cwd=ROOT, env=clean, capture_output=True, text=True, timeout=300, check=False)

    return run_stage


@pytest.fixture
def fetch(run, tmp_path):
    return lambda role, *arguments, **source: run(
        "fetch", role, "--output", str(tmp_path / "source"), *arguments, **source
    )


def refusing(status):
    """A request that the hub answers with that status, in two lines."""

    def request():
        response = SimpleNamespace(status_code=status, headers={}, request=None)
        raise HfHubHTTPError("no\nFor more information check", response=response)

    return request


def errors(done):
    return [line for line in done.stderr.splitlines() if line.startswith("ERROR")]


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("role", SOURCES)
def test_a_busy_hub_is_asked_again(hub, fetch, tmp_path, status, role):
    """For each kind of request once: what is there, which files, what they are, and their content."""
    requests = [("info", "GET"), ("tree", "GET"), ("file", "HEAD"), ("file", "GET")]
    hub.faults = {request: [status] for request in requests}
    done = fetch(role)
    assert done.returncode == 0, done.stderr
    assert not any(hub.faults.values())
    assert f"the hub answered {status}; the next try is in 1 s" in (tmp_path / "log").read_text()
    assert (tmp_path / "source" / "source.json").is_file()


def test_pinning_asks_a_busy_hub_again(hub, run, tmp_path):
    hub.faults = {("info", "GET"): [503, 429]}
    done = run("pin", "model", "--output", str(tmp_path / "pin.json"))
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "pin.json").read_text())["revision"] == OLD
    assert "the hub answered 503; the next try is in 1 s" in (tmp_path / "log").read_text()


@pytest.mark.parametrize("status", [429, 503])
def test_a_hub_that_stays_busy_is_said_so(monkeypatch, status):
    waits = []
    monkeypatch.setattr(hub_module.time, "sleep", waits.append)

    with pytest.raises(UserError) as raised, hub_module.errors({"repository": "a/b", "revision": OLD}, "model"):
        hub_module.patiently(refusing(status))
    assert waits == list(hub_module.WAITS)
    assert str(raised.value) == (
        f"a/b at {OLD} could not be fetched: the hub answered {status} at every try, so it is busy or down. "
        "Run again later."
    )


def test_what_the_hub_refuses_is_not_asked_again(monkeypatch):
    monkeypatch.setattr(hub_module.time, "sleep", pytest.fail)

    with pytest.raises(HfHubHTTPError):
        hub_module.patiently(refusing(404))


def test_a_download_that_is_cut_goes_on_where_it_was(hub, fetch, tmp_path):
    hub.cuts = {"model.safetensors": [21 * MIB, 3 * MIB]}
    done = fetch("model")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "source" / "model.safetensors").read_bytes() == WEIGHTS
    assert [path for path, _ in hub.ranges] == ["model.safetensors"] * 2
    assert all(10 * MIB <= first <= 21 * MIB for _, first in hub.ranges)


def test_a_cut_and_then_a_busy_hub_cost_no_second_download(hub, fetch, tmp_path):
    hub.cuts = {"model.safetensors": [21 * MIB]}
    hub.faults = {("file", "GET"): [503]}
    done = fetch("model")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "source" / "model.safetensors").read_bytes() == WEIGHTS
    asked = [path for method, path, _ in hub.seen if method == "GET" and path.endswith(".safetensors")]
    assert len(asked) <= 3 and len(hub.ranges) == 1


@pytest.mark.parametrize("limit", [{}, {"documents": 7}], ids=["whole", "streamed"])
def test_a_data_set_that_is_cut_comes_whole(hub, fetch, tmp_path, limit):
    import pandas as pd

    hub.cuts = {"data/train.jsonl": [100]}
    done = fetch("corpus", **limit)
    assert done.returncode == 0, done.stderr
    assert hub.cuts == {"data/train.jsonl": []}
    rows = pd.read_parquet(tmp_path / "source" / "rows.parquet")["text"]
    assert list(rows) == [f"row {number}" for number in range(limit.get("documents", 50))]


def test_a_connection_that_is_always_cut_leaves_nothing(hub, fetch, tmp_path):
    hub.cuts = {"model.safetensors": [0] * 99}
    done = fetch("model")
    assert done.returncode == 1 and len(errors(done)) == 1
    assert "model tiny: the hub cannot be reached" in errors(done)[0]
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != "home") == ["log"]


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_other_content_at_the_pinned_revision_is_refused(hub, run, fetch, tmp_path, name):
    pin = tmp_path / "pin.json"
    assert run("pin", "model", "--output", str(pin)).returncode == 0
    assert fetch("model", f"--pin={pin}").returncode == 0
    before = (tmp_path / "source" / name).read_bytes()
    hub.repositories["models", "tiny/large"][OLD][name] = before[:-1] + b"!"
    done = fetch("model", f"--pin={pin}")
    assert done.returncode == 1 and len(errors(done)) == 1
    assert re.search(rf"model tiny: {name} has the hash \w+, but {pin} has .*Delete that file", errors(done)[0])
    assert (tmp_path / "source" / name).read_bytes() == before


def test_a_file_less_than_the_lock_lists_is_refused(hub, run, fetch, tmp_path):
    pin = tmp_path / "pin.json"
    run("pin", "model", "--output", str(pin))
    del hub.repositories["models", "tiny/large"][OLD]["config.json"]
    done = fetch("model", f"--pin={pin}")
    assert done.returncode == 1
    assert f"model tiny: config.json, which {pin} lists, was not fetched." in errors(done)[0]


@pytest.mark.slow
def test_the_token_is_nowhere_after_a_run_and_its_report(hub, fresh, tmp_path, monkeypatch):
    """Nor after a run that the hub refuses: every file that either leaves is searched for it."""
    model = {path.name: path.read_bytes() for path in makers.tiny_checkpoint(tmp_path / "model").iterdir()}
    rows = "".join(json.dumps(document) + "\n" for document in makers.tiny_documents()).encode()
    hub.repositories["models", "tiny/gated"] = {OLD: model}
    hub.repositories["datasets", "tiny/gated-rows"] = {OLD: {"train.jsonl": rows}}
    hub.gated = {"tiny/gated", "tiny/gated-rows"}
    for key in [key for key in os.environ if key.startswith("HF_")]:
        monkeypatch.delenv(key)
    home = tmp_path / "home"
    for key, value in {"ENDPOINT": hub.address, "HOME": str(home), "HUB_DISABLE_TELEMETRY": "1"}.items():
        monkeypatch.setenv(f"HF_{key}", value)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    project = fresh.copy(tmp_path / "project")
    source = {"kind": "hub", "gated": True, "revision": OLD}
    config = yaml.safe_load((project.root / "config/micro.yaml").read_text())
    del config["removal"]
    config["models"][0]["source"] = {**source, "repository": "tiny/gated"}
    config["corpora"][0]["source"] = {**source, "repository": "tiny/gated-rows"}
    (project.root / "config/hub.yaml").write_text(yaml.safe_dump(config))

    hub.faults = {("file", "GET"): [503] * 2, ("info", "GET"): [429]}
    claims = "results/micro/claims.json"
    printed = project.snakemake("--verbose", "--printshellcmds", claims, config="config/hub.yaml").text
    printed += project.snakemake(claims, "--report", "results/micro/report.html", config="config/hub.yaml").text
    assert (project.root / "results/micro/report.html").is_file()

    monkeypatch.setenv("HF_TOKEN", f"{TOKEN}_that_is_refused")
    (project.root / "resources/models/tiny/source/source.json").unlink()
    refused = project.snakemake("--verbose", claims, "--forcerun", "fetch_model", config="config/hub.yaml", check=False)
    assert refused.code != 0 and "no access to tiny/gated" in refused.text

    assert any(authorization == f"Bearer {TOKEN}" for _, _, authorization in hub.seen)
    assert TOKEN not in printed + refused.text
    searched = [path for folder in (project.root, home) for path in folder.rglob("*") if path.is_file()]
    places = {path.relative_to(project.root).parts[0] for path in searched if path.is_relative_to(project.root)}
    assert {".snakemake", "resources", "results", "config"} <= places
    code = {"tests", "workflow", "tools", "benchmarks", "docs"}  # the canary stands in tests/hub_server.py
    found = [
        path
        for path in searched
        if not (path.is_relative_to(project.root) and path.relative_to(project.root).parts[0] in code)
        and TOKEN.encode() in path.read_bytes()
    ]
    assert found == []
