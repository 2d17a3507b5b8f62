"""Pin what pyproject.toml's dependency groups need: requirements.lock, requirements-test.lock and envs/*.yaml.

One resolution by pip for all groups, so that a package has one version in the run's environment, in the tests' and
in every conda environment. A group's pins are its closure over the packages' own metadata.
"""

import json
import platform
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterable
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[1]
ROLES = ("resources", "torch", "analysis", "notebook", "paper")
RUN = ("workflow", *ROLES)
OLDEST = "3.11.0"  # some packages refuse the first releases of Python 3.11, which Debian 12 has
WITHOUT_WHEEL = ("connection_pool",)
# What torch's CUDA builds bring: pinned by torch itself, absent from its CPU builds.
ACCELERATOR = ("nvidia-", "cuda-", "triton")
HEADER = """\
# Written by `make lock` from pyproject.toml's dependency groups: edit those, then run it again.
# Resolved with Python 3.11 on Linux x86_64. No pin is for one platform only: what another platform or a later
# Python needs besides, pip chooses there, as it does the CUDA libraries of torch.
"""


class Package(NamedTuple):
    """One resolved package: its public version and its own requirements."""

    version: str
    requires: list[Requirement]


def package(version: str, requires: Iterable[str] | None) -> Package:
    """A package from its metadata; a local version such as ``+cpu`` is dropped."""
    return Package(Version(version).public, [Requirement(text) for text in requires or ()])


def on_reference_platform() -> bool:
    """Whether this is the platform that the pins are made for."""
    return sys.version_info[:2] == (3, 11) and (platform.system(), platform.machine()) == ("Linux", "x86_64")


def groups() -> dict[str, list[Requirement]]:
    """pyproject.toml's dependency groups."""
    with open(ROOT / "pyproject.toml", "rb") as stream:
        table = tomllib.load(stream)["dependency-groups"]
    return {name: [Requirement(text) for text in texts] for name, texts in table.items()}


def resolve(requirements: Iterable[Requirement]) -> dict[str, Package]:
    """Resolve with pip for the oldest supported Python, ignoring what is installed; canonical name to package."""
    pip = [sys.executable, "-m", "pip", "--quiet"]
    with TemporaryDirectory() as wheels:  # pip resolves for another Python among wheels alone
        subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", wheels, *WITHOUT_WHEEL], check=True)
        options = ["--dry-run", "--ignore-installed", "--report=-", "--only-binary=:all:", f"--python-version={OLDEST}"]
        folders = [f"--find-links={wheels}", f"--target={wheels}"]
        command = [*pip, "install", *options, *folders, *sorted(set(map(str, requirements)))]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    found = [item["metadata"] for item in json.loads(done.stdout)["install"]]
    return {canonicalize_name(m["name"]): package(m["version"], m.get("requires_dist")) for m in found}


def installed(name: str) -> Package:
    """The same of a package that is installed in this environment."""
    distribution = metadata.distribution(name)
    return package(distribution.version, distribution.requires)


def closure(requirements: Iterable[Requirement], lookup: Callable[[str], Package]) -> dict[str, str]:
    """Canonical name to version of all that ``requirements`` need, directly or not, on this platform."""
    pins: dict[str, str] = {}
    queue, seen = list(requirements), set()
    while queue:
        requirement = queue.pop()
        name = canonicalize_name(requirement.name)
        key = (name, frozenset(requirement.extras))
        if key in seen or name.startswith(ACCELERATOR):
            continue
        seen.add(key)
        pins[name], requires = lookup(name)
        extras = [{"extra": extra} for extra in ("", *requirement.extras)]
        queue += [r for r in requires if r.marker is None or any(r.marker.evaluate(extra) for extra in extras)]
    return dict(sorted(pins.items()))


def lock_text(pins: dict[str, str], head: str = "") -> str:
    """A requirements file."""
    return HEADER + head + "".join(f"{name}=={version}\n" for name, version in pins.items())


def environment_text(pins: dict[str, str]) -> str:
    """A conda environment file: Python and pip from conda-forge, the pins through pip."""
    lines = ["channels:", "  - conda-forge", "dependencies:", "  - python=3.11", "  - pip", "  - pip:"]
    return HEADER + "\n".join([*lines, *(f"      - {name}=={version}" for name, version in pins.items())]) + "\n"


def files(groups: dict[str, list[Requirement]], lookup: Callable[[str], Package]) -> dict[str, str]:
    """Path, relative to the project, to content of every file that holds pins."""
    run = closure([r for name in RUN for r in groups[name]], lookup)
    extra = {name: version for name, version in closure(groups["test"], lookup).items() if name not in run}
    texts = {"requirements.lock": lock_text(run), "requirements-test.lock": lock_text(extra, "-r requirements.lock\n")}
    for role in ROLES:
        texts[f"envs/{role}.yaml"] = environment_text(closure(groups[role], lookup))
    return texts


def main() -> None:
    """Resolve and write; needs the network."""
    if not on_reference_platform():
        sys.exit("make lock: needs Python 3.11 on Linux x86_64, which the pins are made for")
    table = groups()
    packages = resolve(r for requirements in table.values() for r in requirements)
    for path, text in files(table, packages.__getitem__).items():
        (ROOT / path).write_text(text, encoding="utf-8")
        print(f"{path}: {text.count('==')} packages")


if __name__ == "__main__":
    main()
