"""What a long run shows: no progress bars in files, a log file a job, a failed job's message and where to look."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow
# A terminal with a size; one without shows no bar.
PTY = "import pty, sys; pty.spawn(['sh', '-c', 'stty cols 100 rows 40; exec \"$@\"', 'sh', *sys.argv[1:]])"


def test_each_job_has_a_log_and_no_progress_bar_is_printed_to_a_file(finished):
    logs = finished.root / "results/micro/logs"
    jobs = finished.snakemake("--forceall", "--dry-run").jobs
    for rule in ("tokenize", "extract", "removal", "head_scan", "figure"):
        assert len(list((logs / rule).rglob("*.log"))) == jobs[rule]
    assert not [path for path in logs.rglob("*.log") if "%|" in path.read_text()]


def test_progress_is_shown_on_a_terminal_alone(project):
    shard = "results/micro/geometry/tiny/words/shard-0-of-2.nc"
    command = project.command("--forcerun", shard, "--printshellcmds", shard)
    seen = {}
    for name, wrapped in (
        ("file", command),
        ("terminal", [sys.executable, "-c", PTY, *command]),
    ):
        done = subprocess.run(wrapped, cwd=project.root, capture_output=True, text=True, check=True)
        seen[name] = "tiny words: 100%" in done.stdout + done.stderr
    assert seen == {"file": False, "terminal": True}


def test_a_failed_job_is_told_with_its_message_and_its_log(project):
    checkpoint = project.root / "resources/models/tiny/checkpoint/model.safetensors"
    checkpoint.write_bytes(checkpoint.read_bytes()[:1000])
    (project.root / "results/micro/geometry/tiny/words/shard-0-of-2.nc").unlink()
    result = project.snakemake("results/micro/geometry/tiny/words/shard-0-of-2.nc", check=False)
    assert result.code != 0
    lines = result.text.splitlines()
    told = next(number for number, line in enumerate(lines) if line.startswith("ERROR extract:"))
    log = next(number for number, line in enumerate(lines) if line.strip().startswith("log:"))
    assert told < log
    path = lines[log].split()[1]
    assert path == "results/micro/logs/extract/tiny/words/shard-0-of-2.log"
    assert "checkpoint cannot be loaded" in (project.root / path).read_text()
    assert "Traceback" not in result.text
