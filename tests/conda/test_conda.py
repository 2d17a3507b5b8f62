"""Snakemake makes the shipped conda environments, and each holds its role's pins and nothing else.

conda and conda-forge are played by a stand-in and a local channel; pip and its index are real.
"""

import json
import os
import subprocess
import sys

import conda_standin
import local_channel
import lock
import pytest
from packaging.utils import canonicalize_name
from packaging.version import Version

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
def environments(tmp_path_factory) -> dict[str, dict]:
    """What a job finds in the environment of each role; all made by one call of Snakemake."""
    folder = tmp_path_factory.mktemp("conda")
    local_channel.write(folder / "channels" / "conda-forge")
    path = conda_standin.install(folder / "root", folder / "channels")
    (folder / "probe.py").write_text(PROBE)
    (folder / "Snakefile").write_text(SNAKEFILE.format(root=lock.ROOT, roles=lock.ROLES))
    done = subprocess.run(
        [sys.executable, "-m", "snakemake", "--cores", "2", "--use-conda", "--conda-prefix", folder / "made"],
        cwd=folder,
        env={**os.environ, "PATH": f"{path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-4000:]
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
