"""Copies of the project to run Snakemake in, and what a finished run must have."""

import json
import shutil
import subprocess
from pathlib import Path

import pandas as pd
import yaml

ROOT = Path(__file__).resolve().parents[1]


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
