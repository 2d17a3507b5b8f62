"""Copies of the project to run Snakemake in, and what a finished run must have."""

import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pytest
import yaml

import makers
from headgeom.files import sha256

ARTIFACTS = {".nc", ".parquet", ".csv", ".md", ".json", ".pdf", ".png"}
ROOT = Path(__file__).resolve().parents[1]


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

    @staticmethod
    def command(*arguments: str, config: str | None = "config/micro.yaml") -> list[str]:
        """What a user would type."""
        configfile = ["--configfile", config] if config else []
        return [sys.executable, "-m", "snakemake", "--cores", "2", *arguments, *configfile]

    def snakemake(self, *arguments: str, config: str | None = "config/micro.yaml", check: bool = True) -> Result:
        """Run Snakemake as a user would; a check fails the test with the output."""
        command = self.command(*arguments, config=config)
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

    def artifacts(self, run: str) -> dict[str, str]:
        """Hash of every array, table, figure and paper of a run, by path."""
        folders = [self.root / name / run for name in ("results", "figures", "paper")]
        files = (path for folder in folders for path in folder.rglob("*") if path.suffix in ARTIFACTS)
        return {str(path.relative_to(self.root)): sha256(path) for path in files}

    def copy(self, target: Path) -> "Project":
        """An independent copy, modification times and Snakemake's records included."""
        shutil.copytree(self.root, target, symlinks=True)
        return Project(target)


def copy_project(target: Path) -> Path:
    """The files that git tracks or would track, as they are."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
    return target


def check_smoke_run(root: Path) -> None:
    """The smoke run in ``root`` has come to its end: every figure, the paper, and measurements of the real model."""
    names = yaml.safe_load((root / "workflow/notebooks/inputs.yaml").read_text())
    assert {path.stem for path in root.glob("figures/smoke/*.pdf")} == set(names)
    assert (root / "paper/smoke/replication.pdf").read_bytes().startswith(b"%PDF")
    listed = {file["path"] for file in json.loads((root / "results/smoke/manifest.json").read_text())["files"]}
    assert listed >= {f"figures/smoke/{name}.pdf" for name in names}
    tables = root / "results/smoke/tables"
    frame = pd.read_csv(tables / "separability.csv").query("metric == 'f' and pool == 'all'")
    f = frame.set_index(["ranking", "size"])["mean"]
    assert f["attention", 8] > 2 * f["random", 8]
    losses = pd.read_csv(tables / "removal.csv")
    assert 3 < losses.query("score == 'unpruned'")["loss"].item() < 4.5
    assert len(pd.read_csv(tables / "head_scan.csv")) == 30 * 9


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


@pytest.fixture(scope="session")
def real(fresh, tmp_path_factory) -> Project:
    """The smoke run on a real model, done; results are not to be changed."""
    project = fresh.copy(tmp_path_factory.mktemp("real") / "project")
    project.snakemake(config="config/smoke.yaml")
    return project


@pytest.fixture
def project(finished, tmp_path) -> Project:
    """A copy of the finished micro run, to change."""
    return finished.copy(tmp_path / "project")
