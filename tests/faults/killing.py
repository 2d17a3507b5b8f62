"""Runs that are killed."""

import os
import re
import signal
import subprocess
import time
from collections import Counter

from projects import Project


def killed(project: Project, sign: str, config: str, delay: float) -> str:
    """Run Snakemake until it prints ``sign`` and ``delay`` seconds more, and SIGKILL it with its jobs; its output."""
    log = project.root / f"killed-{len(list(project.root.glob('killed-*')))}.log"
    with log.open("w") as stream:
        process = subprocess.Popen(
            project.command(config=config), cwd=project.root, stdout=stream, stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip
        try:
            for _ in range(6000):
                assert process.poll() is None, f"ended before {sign!r}: {log.read_text()}"
                if sign in log.read_text():
                    break
                time.sleep(0.05)
            else:
                raise AssertionError(f"{sign!r} was never printed: {log.read_text()}")
            time.sleep(delay)
            assert process.poll() is None, f"ended within {delay:.2f} s of {sign!r}"
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return log.read_text()


def done_jobs(text: str) -> Counter:
    """Finished jobs by rule."""
    return Counter(re.findall(r"^Finished jobid: \d+ \(Rule: (\w+)\)", text, re.MULTILINE))
