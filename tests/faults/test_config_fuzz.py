"""Any config is either taken, or refused in one line that names the file and the key."""

import copy
import json
import os

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from headgeom.config import validated
from headgeom.errors import UserError
from projects import ROOT

ORIGIN = "config/odd.yaml"
TEXTS = ["", "..", "a b", "é", "{model}", "a;touch pwned", "$(touch pwned)", "\0", "\n", "x" * 300, "-n", "nan"]
LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20), st.sampled_from(TEXTS), st.dates()
)
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner))


def valid() -> dict:
    config = yaml.safe_load((ROOT / "config/micro.yaml").read_text())
    hub = {"kind": "hub", "repository": "owner/name", "revision": "0" * 40, "split": "train", "documents": 9}
    wheel = {"kind": "pypi", "files": [{"package": "a==1", "member": "b/c"}], "sha256": "0" * 64}
    config["models"].append({"name": "other", "dtype": "bfloat16", "bos": 1, "source": wheel})
    config["corpora"].append({"name": "more", "format": "lines", "source": hub, "columns": {"text": "body"}})
    return config | {"seed": 1, "device": "cpu", "only": {"models": ["tiny"]}}


def places(value, path=()) -> list[tuple]:
    """Paths of everything in a config."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(found for key, x in inner for found in places(x, (*path, key)))]


def changed(config: dict, path: tuple, action: str, value) -> dict:
    config = copy.deepcopy(config)
    if not path:
        return config | {"unheard-of": value}
    *parents, last = path
    place = config
    for part in parents:
        place = place[part]
    if action == "remove":
        del place[last]
    elif action == "add" and isinstance(place[last], dict):
        place[last]["unheard-of"] = value
    else:
        place[last] = value
    return config


@pytest.fixture
def there(fresh, monkeypatch):
    monkeypatch.chdir(fresh.root)


@given(path=st.sampled_from(places(valid())), action=st.sampled_from(["set", "add", "remove"]), value=VALUES)
@example(path=("models", 0, "source", "path"), action="set", value="a\0b")
@example(path=("models", 0, "source", "path"), action="set", value="x" * 300)
@settings(max_examples=500, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_changed_config_is_taken_or_refused_by_its_key(there, path, action, value):
    config = changed(valid(), path, action, value)
    before = copy.deepcopy(config)
    try:
        taken = validated(config, ORIGIN)
    except UserError as error:
        message = str(error)
        assert message.startswith(f"{ORIGIN}: ")
        assert "\n" not in message
        keys = {part for part in path if isinstance(part, str)} or {"unheard-of"}
        assert any(key in message for key in keys) or "unheard-of" in message
    else:
        json.dumps(taken)  # what the stages get
    assert repr(config) == repr(before)


def test_the_unchanged_config_is_taken(there):
    assert validated(valid(), ORIGIN)["models"][0]["title"] == "tiny"


ODD = ["a b", "é ü", "a;touch pwned", "$(touch pwned)", "'quoted\"", "-n"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ODD)
def test_a_path_of_odd_characters_is_one_path(fresh, tmp_path, name):
    """Never words or commands of a shell, nor a wildcard of Snakemake."""
    project = fresh.copy(tmp_path / "project")
    path = project.root / name / "words.jsonl"
    path.parent.mkdir()
    (project.root / "resources/micro/words.jsonl").rename(path)
    config = project.configured({"corpora.0.source.path": os.path.relpath(path, project.root)})
    project.snakemake("resources/corpora/words/documents.parquet", config=config)
    assert (project.root / "resources/corpora/words/documents.parquet").is_file()
    assert not list(project.root.rglob("pwned"))


def test_a_path_with_braces_is_refused(there):
    """Snakemake would look for wildcards in it."""
    config = changed(valid(), ("corpora", 0, "source", "path"), "set", "a{model}b")
    with pytest.raises(UserError, match=r"corpora\[0\]\.source\.path: 'a\{model\}b' does not match .* without braces"):
        validated(config, ORIGIN)


@pytest.mark.slow
@pytest.mark.parametrize("key", ["run", "models.0.name", "corpora.0.name"])
def test_a_name_of_odd_characters_is_refused(fresh, tmp_path, key):
    project = fresh.copy(tmp_path / "project")
    for name in ("..", "a/b", "a b", "{x}", "a;b", "é"):
        place = project.configured({key: name})
        with pytest.raises(UserError, match=key.replace(".0.", r"\[0\]\.")):
            validated(yaml.safe_load((project.root / place).read_text()), place)
    result = project.snakemake("--dry-run", config=place, check=False)
    assert result.code != 0
    assert "does not match" in result.text
    assert "Traceback" not in result.text
