"""pyproject.toml, the lock files and the conda environments say the same."""

from importlib import metadata

import lock
import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

FILES = ["requirements.lock", "requirements-test.lock", *(f"envs/{role}.yaml" for role in lock.ROLES)]


def text(path: str) -> str:
    return (lock.ROOT / path).read_text(encoding="utf-8")


def locked(path: str) -> dict[str, str]:
    """Pins of a requirements file."""
    lines = [line for line in text(path).splitlines() if not line.startswith(("#", "-r "))]
    return dict(line.split("==") for line in lines)


def environment(role: str) -> dict[str, str]:
    """Pins of a conda environment."""
    (pip,) = [d["pip"] for d in yaml.safe_load(text(f"envs/{role}.yaml"))["dependencies"] if isinstance(d, dict)]
    return dict(line.split("==") for line in pip)


def pins(group: str) -> dict[str, str]:
    if group in lock.ROLES:
        return environment(group)
    return locked("requirements.lock") | (locked("requirements-test.lock") if group == "test" else {})


@pytest.mark.parametrize("group", [*lock.RUN, "test"])
def test_direct_dependencies_are_pinned(group):
    for requirement in lock.groups()[group]:
        version = pins(group).get(canonicalize_name(requirement.name))
        assert version and version in requirement.specifier, f"{group} needs {requirement}: run `make lock`"


def test_every_group_is_locked():
    assert set(lock.groups()) == {*lock.RUN, "test"}


@pytest.mark.parametrize("role", lock.ROLES)
def test_environment_agrees_with_the_lock(role):
    assert environment(role).items() <= locked("requirements.lock").items()


def test_test_lock_only_adds():
    assert not locked("requirements.lock").keys() & locked("requirements-test.lock").keys()
    assert "-r requirements.lock\n" in text("requirements-test.lock")


@pytest.mark.parametrize("role", lock.ROLES)
def test_environment_form(role):
    content = yaml.safe_load(text(f"envs/{role}.yaml"))
    assert content["channels"] == ["conda-forge"]
    assert content["dependencies"][:2] == ["python=3.11", "pip"]
    assert list(content) == ["channels", "dependencies"]


def test_one_environment_a_role():
    assert {path.name for path in (lock.ROOT / "envs").iterdir()} == {f"{role}.yaml" for role in lock.ROLES}


def test_only_torch_has_torch():
    assert [role for role in lock.ROLES if "torch" in environment(role)] == ["torch"]


@pytest.mark.parametrize("path", FILES)
def test_no_platform_only_pin(path):
    content = "\n".join(line for line in text(path).splitlines() if not line.startswith("#"))
    for word in ("nvidia", "cuda", "triton", "+cpu", "--hash", "://", " @ "):
        assert word not in content


@pytest.mark.skipif(not lock.on_reference_platform(), reason="the pins are made for Python 3.11 on Linux x86_64")
def test_pins_are_exactly_what_the_groups_need():
    for path, expected in lock.files(lock.groups(), lock.installed).items():
        assert text(path) == expected, f"{path} is not what pyproject.toml and this environment give: run `make lock`"


def test_pins_admit_the_oldest_python():
    for name in locked("requirements.lock") | locked("requirements-test.lock"):
        requires = metadata.metadata(name).get("Requires-Python") or ""
        assert lock.OLDEST in SpecifierSet(requires), f"{name} needs Python {requires}"


def test_closure_follows_markers_and_extras():
    packages = {
        "a": lock.package("1.0+cpu", ["B[x]>=1", "windows-only; sys_platform == 'win32'", "nvidia-a==1", "triton==3"]),
        "b": lock.package("2", ["c; extra == 'x'", "d; extra == 'y'", "a"]),
        "c": lock.package("3.post1", None),
    }
    assert lock.closure([Requirement("A")], packages.__getitem__) == {"a": "1.0", "b": "2", "c": "3.post1"}
