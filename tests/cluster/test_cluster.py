"""The micro run through sbatch on a real Slurm; jobs that are killed, and jobs that ask for a GPU."""

from pathlib import Path

import pytest
import torch
import yaml

from headgeom import estimates

pytestmark = pytest.mark.slow
SHARDS = [f"results/micro/geometry/tiny/words/shard-{shard}-of-2.nc" for shard in range(2)]


def granted(job, kind):
    """What a job was given: cpu or mem (MB)."""
    return int(dict(part.split("=") for part in job["TRES"].split(","))[kind].removesuffix("M"))


@pytest.mark.parametrize("submit", ["fresh"], indirect=True)
def test_the_micro_run_ends_in_figures_with_a_job_a_rule_as_the_profile_says(submit):
    run = submit()
    assert run.finish() == 0, run.text
    assert len(list((submit.folder / "figures/micro").glob("*.pdf"))) >= 7
    numbers = {rule: len(run.jobs(rule)) for rule in ("convert_model", "convert_corpus", "tokenize", "extract")}
    assert numbers == {"convert_model": 1, "convert_corpus": 1, "tokenize": 1, "extract": 2}
    assert len(run.jobs("group_figures")) == 1
    assert not [rule for rule in ("fetch_model", "fetch_corpus", "tables", "figure") if run.jobs(rule)]
    shard, tokens = run.jobs("extract")[0], run.jobs("tokenize")[0]
    assert (granted(shard, "cpu"), granted(tokens, "cpu")) == (4, 1)
    shape = estimates.from_checkpoint(submit.folder / "resources/models/tiny/checkpoint")
    config = yaml.safe_load((submit.folder / "config/micro.yaml").read_text()) | {"device": "cpu"}
    config["extraction"]["batch_size"] = 1
    expected = estimates.host_memory(shape, "float32", config)
    assert (granted(shard, "mem"), granted(tokens, "mem")) == (expected, 4000)
    assert (shard["TimeLimit"], tokens["TimeLimit"]) == ("00:30:00", "01:00:00")
    assert "TresPerJob" not in shard


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
