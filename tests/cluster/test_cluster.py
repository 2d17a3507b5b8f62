"""The micro run through sbatch on a real Slurm; jobs that are killed, and jobs that ask for a GPU."""

import pytest

pytestmark = pytest.mark.slow


def test_micro_run(submit):
    run = submit()
    assert run.finish() == 0, run.text
    assert len(list((submit.folder / "figures/micro").glob("*.pdf"))) >= 7
    assert not run.jobs("fetch_model") and not run.jobs("tables")
