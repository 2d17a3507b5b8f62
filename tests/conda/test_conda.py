"""Snakemake makes the shipped conda environments, and each holds its role's pins and nothing else.

conda and conda-forge are played by a stand-in and a local channel; pip and its index are real.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import conda_standin
import local_channel
import lock
import pytest
from packaging.utils import canonicalize_name
from packaging.version import Version

from projects import check_smoke_run, copy_project

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not lock.on_reference_platform(), reason="the local channel has Python 3.11 for Linux x86_64"),
]
PROBE = """\
import json, sys
from importlib.metadata import distributions
found = {d.name: d.version for d in distributions()}
json.dump({"found": found, "prefix": sys.prefix, "path": sys.path}, open(sys.argv[1], "w"))
"""
SNAKEFILE = """\
rule all:
    input: expand("{{role}}.json", role={roles})

for role in {roles}:
    rule:
        name: role
        output: f"{{role}}.json"
        conda: f"{root}/envs/{{role}}.yaml"
        shell: "python -m pip check && python probe.py {{output}}"
"""


@pytest.fixture(scope="module")
def outer(tmp_path_factory) -> Path:
    """The Python of an environment that holds Snakemake and what that needs, and nothing else."""
    folder = tmp_path_factory.mktemp("outer")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    pip = [folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "--constraint", lock.ROOT / "requirements.lock", "snakemake"], check=True)
    return folder / "bin" / "python"


@pytest.fixture(scope="module")
def snakemake(outer, tmp_path_factory) -> Iterator[Callable[..., None]]:
    """Runs Snakemake in a folder, with the stand-in as conda; environments are kept until the last call."""
    base = tmp_path_factory.mktemp("conda")
    local_channel.write(base / "channels" / "conda-forge")
    path = conda_standin.install(base / "root", base / "channels")

    def run(folder: Path, *options: str) -> None:
        command = [outer, "-m", "snakemake", "--cores", "2", "--use-conda", "--conda-prefix", base / "made"]
        environment = {**os.environ, "PATH": f"{path}:{os.environ['PATH']}"}
        done = subprocess.run([*command, *options], cwd=folder, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-4000:]

    yield run
    shutil.rmtree(base)  # gigabytes, and pytest keeps temporary folders


@pytest.fixture(scope="module")
def environments(snakemake, tmp_path_factory) -> dict[str, dict]:
    """What a job finds in the environment of each role."""
    folder = tmp_path_factory.mktemp("probe")
    (folder / "probe.py").write_text(PROBE)
    (folder / "Snakefile").write_text(SNAKEFILE.format(root=lock.ROOT, roles=lock.ROLES))
    snakemake(folder)
    return {role: json.loads((folder / f"{role}.json").read_text()) for role in lock.ROLES}


@pytest.mark.parametrize("role", lock.ROLES)
def test_environment_holds_its_pins_and_nothing_else(environments, role):
    found = {canonicalize_name(name): Version(version).public for name, version in environments[role]["found"].items()}
    assert found.pop("pip")
    found = {name: version for name, version in found.items() if not name.startswith(lock.ACCELERATOR)}
    assert found == lock.closure(lock.groups()[role], lock.installed)


@pytest.mark.parametrize("role", lock.ROLES)
def test_nothing_leaks_in(environments, role):
    prefix = environments[role]["prefix"]
    assert [path for path in environments[role]["path"] if path.endswith("-packages")] == [
        f"{prefix}/lib/python3.11/site-packages"
    ]


def test_environments_are_different(environments):
    assert len({environment["prefix"] for environment in environments.values()}) == len(lock.ROLES)


@pytest.mark.real
def test_smoke_run(snakemake, tmp_path):
    """The real model, from download to paper, with every rule in its own environment."""
    project = copy_project(tmp_path / "project")
    snakemake(project, "--configfile", "config/smoke.yaml")
    check_smoke_run(project)
    shutil.rmtree(project)  # a gigabyte
