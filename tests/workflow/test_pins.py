"""Hub sources in a run: pinned at first, checked from then on; licences before anything; the paper's config."""

import json
import os
import re

import pytest
import yaml

import hub_server
import makers
from hub_server import NEW, OLD, TOKEN, Hub

FETCHED = ["resources/models/open/source", "resources/corpora/articles/source", "resources/corpora/web/source"]


def wikitext(documents):
    """Rows of text, as WikiText has them: a line each, with titles and headings."""
    lines = []
    for document in documents:
        half = len(document["text"]) // 2
        lines += ["", f" = {document['title']} = ", "", document["text"][:half], "", " = = Heading = = ", ""]
        lines += [document["text"][half:], ""]
    return "".join(json.dumps({"text": f"{line}\n" if line else ""}) + "\n" for line in lines).encode()


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A hub with a model at two commits, a gated one, articles by the line, and rows on a branch of their own."""
    server = Hub()
    files = [
        {path.name: path.read_bytes() for path in makers.tiny_checkpoint(tmp_path / f"m{seed}", seed=seed).iterdir()}
        for seed in range(2)
    ]
    rows = "".join(json.dumps({"text": document["text"]}) + "\n" for document in makers.tiny_documents()).encode()
    server.repositories = {
        ("models", "tiny/open"): {OLD: files[0], NEW: files[1]},
        ("models", "tiny/gated"): {NEW: files[0]},
        ("datasets", "tiny/articles"): {NEW: {"train.jsonl": wikitext(makers.tiny_documents())}},
        ("datasets", "tiny/web"): {OLD: {"data/train.jsonl": rows}, NEW: {"loader.py": b"raise SystemExit"}},
    }
    server.gated = {"tiny/gated"}
    for key in [key for key in os.environ if key.startswith("HF_")]:
        monkeypatch.delenv(key)
    monkeypatch.setenv("HF_ENDPOINT", server.address)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HF_HUB_DISABLE_TELEMETRY", "1")
    yield server
    server.shutdown()


@pytest.fixture
def project(fresh, tmp_path):
    """A project with a config of hub sources, none with a revision."""
    project = fresh.copy(tmp_path / "project")
    config = yaml.safe_load((project.root / "config/micro.yaml").read_text())
    config["run"] = "hub"
    config["models"] = [
        {"name": "open", "source": {"kind": "hub", "repository": "tiny/open"}},
        {"name": "closed", "source": {"kind": "hub", "repository": "tiny/gated", "gated": True}},
    ]
    web = {"kind": "hub", "repository": "tiny/web", "branch": "refs/convert/parquet", "documents": 12}
    config["corpora"] = [
        {"name": "articles", "format": "wikitext", "source": {"kind": "hub", "repository": "tiny/articles"}},
        {"name": "web", "source": web},
    ]
    (project.root / "config/hub.yaml").write_text(yaml.safe_dump(config))
    return project


def run(project, *arguments, only=True, **options):
    """Snakemake with that config; by default without the gated model."""
    chosen = ["--config", "only={models: [open]}"] if only else []
    return project.snakemake(*arguments, *chosen, config="config/hub.yaml", **options)


def lock(project, name):
    return json.loads((project.root / f"config/pins/{name}.json").read_text())


def test_the_newest_commit_is_pinned_and_kept(hub, project, monkeypatch):
    run(project, "pins")
    assert lock(project, "model-open")["revision"] == lock(project, "corpus-articles")["revision"] == NEW
    assert lock(project, "corpus-web") == {
        "repository": "tiny/web", "branch": "refs/convert/parquet", "revision": OLD,
    }  # fmt: skip
    assert not any("resolve" in path for _, path, _ in hub.seen)
    monkeypatch.setitem(hub_server.BRANCHES, "main", OLD)
    run(project, "pins", "--force")
    assert lock(project, "model-open")["revision"] == NEW
    run(project, *FETCHED)
    source = json.loads((project.root / "resources/models/open/source/source.json").read_text())
    assert source["revision"] == NEW
    assert {file["name"]: file["bytes"] for file in source["files"]} == {
        name: facts["bytes"] for name, facts in lock(project, "model-open")["files"].items()
    }
    run(project, "pins", "--force")
    assert "Nothing to be done" in run(project, *FETCHED).text
    (project.root / "config/pins/model-open.json").unlink()
    run(project, "pins")
    assert lock(project, "model-open")["revision"] == OLD
    assert run(project, "--dry-run", "resources/models/open/source").jobs == {"fetch_model": 1}


def test_all_but_pinning_and_fetching_is_offline_and_a_second_run_does_nothing(hub, project):
    tokens = [f"results/hub/tokens/open/{corpus}.parquet" for corpus in ("articles", "web")]
    run(project, *FETCHED)
    hub.seen.clear()
    assert "tokenize" in run(project, *tokens).jobs
    assert hub.seen == []
    hub.shutdown()
    assert "Nothing to be done" in run(project, *tokens).text


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_other_content_than_the_lock_says_is_refused(hub, project, name):
    run(project, "pins")
    path = project.root / "config/pins/model-open.json"
    content = lock(project, "model-open")
    content["files"][name] = {
        key: value if key == "bytes" else "0" * 40 for key, value in content["files"][name].items()
    }
    path.write_text(json.dumps(content))
    result = run(project, FETCHED[0], check=False)
    assert result.code != 0
    assert f"model open: {name} has the hash" in result.text and "config/pins/model-open.json has" in result.text
    assert not (project.root / FETCHED[0]).exists()


@pytest.mark.parametrize(("token", "why"), [(None, "no token is set"), ("hf_other", "your token may not read")])
def test_licences_and_token_are_asked_for_before_anything(hub, project, monkeypatch, token, why):
    if token:
        monkeypatch.setenv("HF_TOKEN", token)
    result = run(project, only=False, check=False)
    assert result.code != 0
    assert why in result.text and "closed: https://huggingface.co/tiny/gated" in result.text
    assert "HF_TOKEN" in result.text and "only={models: [...]}" in result.text and "Traceback" not in result.text
    assert {path for _, path, _ in hub.seen} == ({"/api/models/tiny/gated/auth-check"} if token else set())
    assert not (project.root / "config/pins").exists() and not (project.root / "resources/models").exists()


def test_with_the_licence_accepted_the_gated_model_is_fetched(hub, project, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    result = run(project, "resources/models/closed/source", only=False)
    assert "by using them you accept their licences:\n  closed: https://huggingface.co/tiny/gated" in result.text
    assert (project.root / "resources/models/closed/source/model.safetensors").is_file()
    assert TOKEN not in result.text
    monkeypatch.delenv("HF_TOKEN")
    run(project, "resources/models/closed/source", only=False)


def test_the_papers_config_names_its_four_models_on_any_machine(fresh):
    result = fresh.snakemake("--dry-run", config="config/paper.yaml")
    models = set(re.findall(r"resources/models/([^/\s,]+)/checkpoint", result.text))
    assert models == {"llama-2-7b", "llama-3-8b", "gemma-7b", "mistral-7b"}
    assert result.jobs["fetch_model"] == result.jobs["convert_model"] == 4
    corpora = set(re.findall(r"resources/corpora/([^/\s,]+)/documents", result.text))
    assert corpora == {"wikitext-103", "openwebtext"}
    assert not list((fresh.root / "config").glob("pins/*"))
