"""The four linters; `make lint` runs this file."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = [
    "ruff check",
    "ruff format --check",
    "snakefmt --check Snakefile workflow/rules",
    "snakemake --lint",
]


@pytest.mark.parametrize("command", COMMANDS)
def test_lint(command):
    done = subprocess.run([sys.executable, "-m", *command.split()], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
