"""A running cluster, and copies of the project whose runs are sent there."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from one_node import PROGRAMS, OneNode

import makers
from projects import copy_project

# What this cluster needs said besides the profile: no accounting database, jobs of seconds.
OPTIONS = ["--slurm-no-account", "--slurm-status-command", "squeue", "--slurm-init-seconds-before-status-checks", "6"]
TOKENS = "results/micro/tokens/tiny/words.parquet"


@pytest.fixture(scope="session")
def cluster() -> Iterator[OneNode]:
    missing = [name for name in PROGRAMS if not shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin")]
    if missing or os.geteuid():
        pytest.fail(f"not root, or no {', '.join(missing) or 'root'}: use `make test-cluster`")
    folder = Path(tempfile.mkdtemp(prefix="slurm-"))  # pytest's own folders are closed to others, which munge refuses
    node = OneNode(folder)
    try:
        node.start()
        yield node
    finally:
        node.stop()
        shutil.rmtree(folder)


class Run:
    """A Snakemake on the login node, at work."""

    def __init__(self, folder: Path, cluster: OneNode, options: tuple[str, ...]):
        self.cluster, self.log = cluster, folder / "output"
        profile = ["--workflow-profile", "profiles/slurm", "--latency-wait", "10"]
        command = [sys.executable, "-m", "snakemake", *options, *profile, *OPTIONS]
        self.before = len(cluster.jobs())
        with self.log.open("w") as stream:
            self.process = subprocess.Popen(
                command, cwd=folder, env=cluster.environment, stdout=stream, stderr=subprocess.STDOUT
            )

    def finish(self) -> int:
        """Wait; the exit code."""
        return self.process.wait(timeout=2400)

    @property
    def text(self) -> str:
        return self.log.read_text()

    def jobs(self, rule: str = "") -> list[dict[str, str]]:
        """Slurm's facts of the run's jobs, or of those of a rule (or ``group_NAME``), in the order of submission."""
        folder = f"/{rule}_" if rule.startswith("group_") else f"/rule_{rule}/" if rule else ""
        return [job for job in self.cluster.jobs()[self.before :] if folder in job["StdOut"]]

    def wait_for(self, rule: str, state: str = "RUNNING", number: int = 1) -> dict[str, str]:
        """The ``number``-th job of a rule, once it is in a state."""
        deadline = time.monotonic() + 240
        while time.monotonic() < deadline and self.process.poll() is None:
            jobs = self.jobs(rule)
            if len(jobs) >= number and jobs[number - 1]["JobState"] == state:
                return jobs[number - 1]
            time.sleep(0.2)
        raise AssertionError(f"no job {number} of {rule} became {state}:\n{self.text}")


@pytest.fixture
def fresh(tmp_path) -> Path:
    """A copy of the project, with nothing made."""
    return copy_project(tmp_path / "project")


@pytest.fixture(scope="session")
def prepared(tmp_path_factory) -> Path:
    """The micro run with checkpoint and tokens made, without the cluster: extraction is next. Not to be changed."""
    folder = copy_project(tmp_path_factory.mktemp("prepared") / "project")
    makers.make_micro(folder / "resources" / "micro")
    command = [sys.executable, "-m", "snakemake", "--cores", "2", TOKENS, "--configfile", "config/micro.yaml"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def sender(cluster) -> Iterator[Callable[..., Run]]:
    """Starts runs, or some of their files: the folder of a project, options, and the config."""
    runs: list[Run] = []

    def start(folder: Path, *options: str, config: str) -> Run:
        runs.append(Run(folder, cluster, (*options, "--configfile", config)))
        return runs[-1]

    yield start
    for run in runs:
        if run.process.poll() is None:
            run.process.terminate()
            try:
                run.process.wait(timeout=120)
            except subprocess.TimeoutExpired:
                run.process.kill()


@pytest.fixture
def submit(sender, prepared, tmp_path) -> Callable[..., Run]:
    """Starts the micro run, or some of its files, in this test's own copy of ``prepared``."""
    folder = shutil.copytree(prepared, tmp_path / "project")

    def start(*options: str, config: str = "config/micro.yaml") -> Run:
        return sender(folder, *options, config=config)

    start.folder = folder
    return start
