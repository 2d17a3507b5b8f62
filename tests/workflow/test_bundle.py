"""A fresh clone with nothing but the bundle of a run: figures are drawn anew, without models, corpora or torch."""

import dataclasses
import json
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
from collections import Counter
from pathlib import Path

import pytest

MEASURING = {
    "fetch_model", "fetch_corpus", "convert_model", "convert_corpus", "tokenize", "extract", "head_scores", "removal",
    "regime_ablation", "head_scan",
}  # fmt: skip
ABSENT = ("torch", "transformers", "datasets", "huggingface_hub")


def git(folder, *arguments):
    identity = ["-c", "user.name=test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *identity, "-C", str(folder), *arguments], check=True, capture_output=True)


def pack(project, config="config/micro.yaml"):
    """Call the tool as `make bundle` does."""
    command = [sys.executable, "tools/bundle.py", config]
    return subprocess.run(command, cwd=project.root, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def unpacked(finished, tmp_path_factory):
    """A clone of the project as it is committed, and the bundle of the micro run unpacked over it."""
    folder = tmp_path_factory.mktemp("bundle")
    origin = finished.copy(folder / "origin")
    done = pack(origin)
    assert done.returncode == 0, done.stderr
    git(origin.root, "init", "--quiet")
    git(origin.root, "add", "--all")
    git(origin.root, "commit", "--quiet", "--message", "All")
    git(folder, "clone", "--quiet", "origin", "clone")
    assert not (folder / "clone/resources").exists()
    with tarfile.open(origin.root / "results/micro/bundle.tar.gz") as archive:
        archive.extractall(folder / "clone", filter="data")
    shutil.rmtree(origin.root)
    return dataclasses.replace(finished, root=folder / "clone")


@pytest.fixture
def clone(unpacked, tmp_path):
    return unpacked.copy(tmp_path / "clone")


@pytest.fixture(scope="module")
def lean(tmp_path_factory):
    """A Python that has all packages but those that only measuring needs; asking for one leaves a trace."""
    folder = tmp_path_factory.mktemp("lean")
    venv.create(folder, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    (folder / "share").mkdir(exist_ok=True)
    (folder / "share/jupyter").symlink_to(Path(sysconfig.get_path("data")) / "share/jupyter")
    (packages / "all.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    for name in ABSENT:
        (packages / name).mkdir()
        trace = f"open({str(folder / 'asked')!r}, 'a').write({name!r})\n"
        (packages / name / "__init__.py").write_text(f"{trace}raise ImportError('{name} was asked for')\n")
    return folder


def run_lean(lean, project, *arguments):
    """Snakemake's output, run by that Python."""
    command = [str(lean / "bin/python"), "-m", "snakemake", "--cores", "1", *arguments]
    command += ["--configfile", "config/micro.yaml"]
    done = subprocess.run(command, cwd=project.root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_a_bundle_holds_no_model_and_no_corpus(unpacked):
    assert [path.name for path in unpacked.root.glob("resources/**/*.*") if path.name[0] != "."] == ["provenance.json"]
    assert not list(unpacked.root.rglob("*.safetensors"))


def test_nothing_is_to_be_done_after_unpacking(unpacked):
    assert "Nothing to be done" in unpacked.snakemake("--dry-run").text


def test_an_edited_notebook_redraws_its_figure_and_the_paper_without_torch(clone, lean):
    probe = subprocess.run(
        [str(lean / "bin/python"), "-c", "import torch"], capture_output=True, text=True, check=False
    )
    assert "torch was asked for" in probe.stderr
    (lean / "asked").unlink()
    notebook = clone.root / "workflow/notebooks/sink_effect.py"
    notebook.write_text(notebook.read_text() + "\nfigure.suptitle('Edited')\nplotting.save(figure, output)\n")
    before = (clone.root / "figures/micro/sink_effect.png").read_bytes()
    text = run_lean(lean, clone, "figures/micro/sink_effect.pdf")
    assert "rule figure:" in text or "Drawing figure sink_effect" in text
    assert (clone.root / "figures/micro/sink_effect.png").read_bytes() != before
    paper = clone.root / "paper/micro/replication.pdf"
    before = paper.read_bytes()
    assert "Writing the paper of run micro" in run_lean(lean, clone, "paper/micro/replication.pdf")
    assert paper.read_bytes() != before
    assert not (lean / "asked").exists(), (lean / "asked").read_text()
    assert not list(clone.root.rglob("*.safetensors"))


def test_an_edited_statistic_is_computed_anew_without_torch(clone, lean):
    with open(clone.root / "workflow/headgeom/statistics.py", "a") as stream:
        stream.write("\n# An edit.\n")
    target = "results/micro/tables/separability.csv"
    jobs = clone.snakemake("--dry-run", target).jobs
    assert jobs == Counter(metrics=1, taxonomy=1, bounds=1, tables=1)
    before = (clone.root / target).read_bytes()
    (clone.root / target).write_text("")
    run_lean(lean, clone, target)
    assert (clone.root / target).read_bytes() == before
    assert not (lean / "asked").exists(), (lean / "asked").read_text()


@pytest.mark.parametrize("edited", ["windows.py", "geometry.py", "models.py"])
def test_an_edit_of_what_measures_asks_for_no_measurement(clone, edited):
    with open(clone.root / f"workflow/headgeom/{edited}", "a") as stream:
        stream.write("\n# An edit.\n")
    assert not MEASURING & set(clone.snakemake("--dry-run").jobs)


def test_a_bundle_is_made_of_what_the_manifest_lists(project):
    table = project.root / "results/micro/tables/heads.csv"
    table.write_text(table.read_text() + "\n")
    done = pack(project)
    assert done.returncode == 1
    assert "results/micro/tables/heads.csv is not what results/micro/manifest.json lists" in done.stderr
    assert not (project.root / "results/micro/bundle.tar.gz").exists()
    (project.root / "results/micro/manifest.json").unlink()
    assert "results/micro/manifest.json is missing; make the run first" in pack(project).stderr


def test_bundles_name_no_owner_and_tell_the_code(finished, tmp_path):
    project = finished.copy(tmp_path / "project")
    pack(project)
    with tarfile.open(project.root / "results/micro/bundle.tar.gz") as archive:
        assert {(entry.uid, entry.uname) for entry in archive} == {(0, "")}
        marker = json.loads(archive.extractfile("results/micro/bundle.json").read())
    assert marker["config"] == "config/micro.yaml"
    assert set(marker["code"]) == {"commit", "modified"}


def test_a_config_outside_of_the_project_is_refused(project, tmp_path):
    config = shutil.copy(project.root / "config/micro.yaml", tmp_path / "mine.yaml")
    assert "mine.yaml: lies outside of the project" in pack(project, str(Path(config))).stderr
