"""Copies of the project to run Snakemake in."""

import re
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

import makers
from projects import copy_project


@dataclass(frozen=True)
class Result:
    """Exit code and everything printed by a Snakemake call."""

    code: int
    text: str

    @property
    def jobs(self) -> Counter:
        """Jobs by rule, from the table of job counts; empty if nothing was to be done."""
        table = re.search(r"^job +count\n-+ +-+\n(.*?)^total", self.text, re.MULTILINE | re.DOTALL)
        rows = [line.split() for line in table[1].splitlines()] if table else []
        return Counter({rule: int(count) for rule, count in rows if rule != "all"})


@dataclass(frozen=True)
class Project:
    """A copy of the project's files."""

    root: Path

    def snakemake(self, *arguments: str, config: str | None = "config/micro.yaml", check: bool = True) -> Result:
        """Run Snakemake as a user would; a check fails the test with the output."""
        command = [sys.executable, "-m", "snakemake", "--cores", "2", *arguments]
        if config:
            command += ["--configfile", config]
        done = subprocess.run(
            command, cwd=self.root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
            timeout=900,
        )  # fmt: skip
        if check:
            assert done.returncode == 0, done.stdout
        return Result(done.returncode, done.stdout)

    def configured(self, changes: dict, base: str = "config/micro.yaml") -> str:
        """Write a config that differs from ``base`` in some keys, given by their path a.b.0.c."""
        config = yaml.safe_load((self.root / base).read_text())
        for path, value in changes.items():
            *parents, last = [int(part) if part.isdigit() else part for part in path.split(".")]
            place = config
            for part in parents:
                place = place.setdefault(part, {}) if isinstance(place, dict) else place[part]
            if value is None:
                del place[last]
            else:
                place[last] = value
        (self.root / "config/changed.yaml").write_text(yaml.safe_dump(config))
        return "config/changed.yaml"

    def copy(self, target: Path) -> "Project":
        """An independent copy, modification times and Snakemake's records included."""
        shutil.copytree(self.root, target, symlinks=True)
        return Project(target)


@pytest.fixture(scope="session")
def fresh(tmp_path_factory) -> Project:
    """A project without results, and with the tiny model and corpus; not to be changed."""
    project = Project(copy_project(tmp_path_factory.mktemp("fresh")))
    makers.make_micro(project.root / "resources/micro")
    return project


@pytest.fixture(scope="session")
def finished(fresh, tmp_path_factory) -> Project:
    """The micro run, done; not to be changed."""
    project = fresh.copy(tmp_path_factory.mktemp("finished") / "project")
    project.snakemake()
    return project


@pytest.fixture
def project(finished, tmp_path) -> Project:
    """A copy of the finished micro run, to change."""
    return finished.copy(tmp_path / "project")
