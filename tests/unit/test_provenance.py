"""The code version on record."""

import shutil
import subprocess

import pytest

from headgeom import provenance

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="no git on this machine")


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A repository with one committed module, taken for the project."""
    root = tmp_path / "project"
    (root / "workflow").mkdir(parents=True)
    (root / "workflow/a.py").write_text("a = 1\n")
    for command in (["init", "-q"], ["add", "."], ["-c", "user.name=n", "-c", "user.email=e", "commit", "-qm", "m"]):
        subprocess.run(["git", *command], cwd=root, check=True)
    monkeypatch.setattr(provenance, "ROOT", root.resolve())
    return root


def version():
    return provenance.code_version.__wrapped__()


def test_a_clean_checkout_has_its_commit(checkout):
    assert len(version()["commit"]) == 40
    assert version()["modified"] is False


@pytest.mark.parametrize("name", ["a.py", "new.py"])
def test_a_changed_or_a_new_module_is_a_modification(checkout, name):
    (checkout / "workflow" / name).write_text("a = 2\n")
    assert version()["modified"] is True


def test_what_git_cannot_tell_is_unknown_not_clean(checkout, monkeypatch):
    inner = checkout / "workflow"
    monkeypatch.setattr(provenance, "ROOT", inner.resolve())
    assert version() == {"commit": None, "modified": None}
    shutil.rmtree(checkout / ".git")
    assert version() == {"commit": None, "modified": None}
