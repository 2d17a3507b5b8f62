"""SIGKILL, a full disk and a read-only folder: nothing is lost, nothing half-written is taken for a result."""

import random
import subprocess
from pathlib import Path

import pytest
from killing import done_jobs, killed
from test_determinism import MICRO, SETTINGS, arguments

from headgeom.errors import UserError
from headgeom.stages import extract
from projects import Project

pytestmark = pytest.mark.slow

# A job of each kind that the run is killed in, by its message, and the longest wait before the kill.
MOMENTS = [
    ("Fetching model tiny", 0.5),
    ("Converting model tiny", 4),
    ("Measuring the heads of tiny on words, shard 0 of 2", 4),
    ("Removing heads of tiny", 4),
    ("Drawing figure", 3),
]


def test_a_run_killed_five_times_repeats_only_unfinished_jobs_and_ends_the_same(fresh, finished, tmp_path):
    project, draw = fresh.copy(tmp_path / "project"), random.Random(8)
    planned = project.snakemake("--dry-run").jobs
    for sign, longest in MOMENTS:
        text = killed(project, sign, "config/micro.yaml", draw.uniform(0, longest))
        refused = project.snakemake(check=False)
        assert refused.code != 0
        assert "--unlock" in refused.text
        project.snakemake("--unlock")
        planned = planned - done_jobs(text)
        assert project.snakemake("--dry-run").jobs == planned
    assert done_jobs(project.snakemake().text) - done_jobs("Finished jobid: 0 (Rule: all)") == planned
    assert project.artifacts("micro") == finished.artifacts("micro")
    assert "Nothing to be done" in project.snakemake().text


@pytest.mark.real
def test_the_smoke_run_killed_in_extraction_ends_with_identical_files(fresh, real, tmp_path):
    """A second whole run from the sources on, so that it shows determinism too."""
    project = fresh.copy(tmp_path / "project")
    sign = "Measuring the heads of smollm2-135m on wikipedia, shard 1 of 2"
    killed(project, sign, "config/smoke.yaml", random.Random(9).uniform(3, 8))
    project.snakemake("--unlock", config="config/smoke.yaml")
    project.snakemake(config="config/smoke.yaml")
    found, expected = project.artifacts("smoke"), real.artifacts("smoke")
    assert set(found) == set(expected)
    assert [name for name, digest in found.items() if digest != expected[name]] == []


@pytest.fixture
def mount():
    """Mount with the options given; unmounted after the test."""
    mounted = []

    def mounting(*options: str) -> None:
        done = subprocess.run(["mount", *options], capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"mounting needs root and its capability: {done.stderr.strip()}")
        if options[-1] not in mounted:
            mounted.append(options[-1])

    yield mounting
    for target in reversed(mounted):
        subprocess.run(["umount", target], check=True)


def lost_shard(project: Project) -> tuple[Path, str]:
    """The folder of a finished run's shards, of which the second is gone, and its path."""
    folder = project.root / "results/micro/geometry/tiny/words"
    (folder / "shard-1-of-2.nc").unlink()
    return folder, "results/micro/geometry/tiny/words/shard-1-of-2.nc"


def stopped(project: Project, target: str, reason: str) -> None:
    """Making ``target`` fails with one line that says why, and the run's other results stay as they were."""
    before = project.artifacts("micro")
    result = project.snakemake(target, check=False)
    assert result.code != 0
    assert any(line.startswith("ERROR extract:") and reason in line for line in result.text.splitlines()), result.text
    assert "Traceback" not in result.text
    assert project.artifacts("micro") == before


def test_a_full_disk_is_said_so_and_keeps_what_is_there(project, mount):
    folder, shard = lost_shard(project)
    kept = (folder / "shard-0-of-2.nc").read_bytes()
    mount("-t", "tmpfs", "-o", f"size={4096 * (1 + -(-len(kept) // 4096))}", "tmpfs", str(folder))
    (folder / "shard-0-of-2.nc").write_bytes(kept)
    stopped(project, shard, "No space left on device")
    assert [path.name for path in folder.iterdir()] == ["shard-0-of-2.nc"]


def test_a_read_only_folder_is_said_so_and_keeps_what_is_there(finished, tmp_path, mount):
    """The stage alone: Snakemake stops by itself where it may not remove what a job is to make."""
    mount("--bind", str(tmp_path), str(tmp_path))
    mount("-o", "remount,bind,ro", str(tmp_path))
    options = arguments(finished, "micro", tmp_path / "shard.nc", SETTINGS | MICRO)
    with pytest.raises(UserError, match=r"cannot write .*shard.nc: Read-only file system; make room"):
        extract.run(options)


def test_results_that_may_not_be_written_to_stop_the_run_before_its_jobs(project, mount):
    _, shard = lost_shard(project)
    mount("--bind", str(project.root / "results"), str(project.root / "results"))
    mount("-o", "remount,bind,ro", str(project.root / "results"))
    result = project.snakemake(shard, check=False)
    assert result.code != 0
    assert "results: this folder may not be written to" in result.text
    assert "Traceback" not in result.text
    assert not list(project.root.rglob("shard-1-of-2.nc"))
