"""The smoke run through sbatch on a real Slurm; jobs that are killed, and jobs that ask for a GPU."""

from pathlib import Path

import plan
import pytest
import torch

from headgeom import estimates
from projects import check_smoke_run

pytestmark = pytest.mark.slow
SHARDS = [f"results/micro/geometry/tiny/words/shard-{shard}-of-2.nc" for shard in range(2)]

# Jobs of the smoke run by rule, and the rules that run where Snakemake does.
SUBMITTED = {
    "convert_model": 1, "convert_corpus": 1, "tokenize": 1, "extract": 2, "metrics": 1, "taxonomy": 1, "bounds": 1,
    "head_scores": 1, "removal": 4, "regime_ablation": 1, "head_scan": 2, "group_figures": 2,
}  # fmt: skip
LOCAL = ["fetch_model", "fetch_corpus", "tables", "removal_tables", "figure", "claims", "paper", "manifest"]


def granted(job, kind):
    """What a job was given: cpu or mem (MB)."""
    return int(dict(part.split("=") for part in job["TRES"].split(","))[kind].removesuffix("M"))


@pytest.mark.real
def test_the_smoke_run_ends_in_paper_and_figures_with_a_job_a_rule_as_the_profile_says(sender, fresh):
    run = sender(fresh, config="config/smoke.yaml")
    assert run.finish() == 0, run.text
    check_smoke_run(fresh)
    assert {rule: len(run.jobs(rule)) for rule in SUBMITTED} == SUBMITTED
    assert not [rule for rule in LOCAL if run.jobs(rule)]
    assert {job["JobState"] for job in run.jobs()} == {"COMPLETED"}
    shape = estimates.from_checkpoint(fresh / "resources/models/smollm2-135m/checkpoint")
    config = plan.load(str(fresh / "config/smoke.yaml"))
    expected = {
        "extract": (4, estimates.host_memory(shape, "float32", config)),
        "removal": (4, estimates.removal_memory(shape, "float32", config)),
        "head_scan": (4, estimates.removal_memory(shape, "float32", config)),
        "tokenize": (1, 4000),
    }
    jobs = {rule: run.jobs(rule)[0] for rule in expected}
    assert {rule: (granted(job, "cpu"), granted(job, "mem")) for rule, job in jobs.items()} == expected
    assert (jobs["extract"]["TimeLimit"], jobs["tokenize"]["TimeLimit"]) == ("00:30:00", "01:00:00")
    assert "TresPerJob" not in jobs["extract"]


def test_a_cancelled_job_is_tried_again(submit, cluster):
    run = submit(SHARDS[0])
    first = run.wait_for("extract")
    cluster.call("scancel", first["JobId"])
    assert run.finish() == 0, run.text
    first, second = run.jobs("extract")
    assert (first["JobState"], second["JobState"]) == ("CANCELLED", "COMPLETED")
    assert granted(second, "mem") == 2 * granted(first, "mem")
    assert f"SLURM-job '{first['JobId']}' failed" in run.text
    assert (submit.folder / SHARDS[0]).is_file()


def test_a_job_over_its_memory_is_reported_and_the_rerun_finishes(submit):
    few = submit(*SHARDS, "--set-resources", "extract:mem_mb=150", "--retries", "0")
    assert few.finish() != 0
    assert [job["JobState"] for job in few.jobs("extract")] == ["FAILED", "FAILED"]
    for job in few.jobs("extract"):
        assert "Error in rule extract" in few.text and job["StdOut"] in few.text
        assert "xceeded job memory limit" in Path(job["StdOut"]).read_text()
    assert not list(submit.folder.glob("results/micro/geometry/**/*.nc"))
    rerun = submit(*SHARDS)
    assert rerun.finish() == 0, rerun.text
    assert [job["JobState"] for job in rerun.jobs("extract")] == ["COMPLETED", "COMPLETED"]
    assert all((submit.folder / shard).is_file() for shard in SHARDS)


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has what the test wants absent")
def test_a_job_that_is_given_a_gpu_without_a_device_says_so(submit):
    (submit.folder / "config/gpu.yaml").write_text((submit.folder / "config/micro.yaml").read_text() + "device: cuda\n")
    run = submit(SHARDS[0], "--retries", "0", config="config/gpu.yaml")
    assert run.finish() != 0
    (job,) = run.jobs("extract")
    assert job["TresPerJob"] == "gres:gpu:1"
    log = (submit.folder / "results/micro/logs/extract/tiny/words/shard-0-of-2.log").read_text()
    assert log.startswith("ERROR extract: `device: cuda` in the config, but torch sees no CUDA device")
    assert "Error in rule extract" in run.text and not (submit.folder / SHARDS[0]).exists()
