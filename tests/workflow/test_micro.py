"""The whole workflow on a tiny random model: what runs, what re-runs, and what does not."""

import json
from collections import Counter
from pathlib import Path

import pandas as pd
import pytest
import xarray as xr
import yaml

from headgeom.files import sha256

ROOT = Path(__file__).resolve().parents[2]
FIGURES = yaml.safe_load((ROOT / "workflow/notebooks/inputs.yaml").read_text())
ARTIFACTS = {".nc", ".parquet", ".csv", ".md", ".json", ".pdf", ".png"}
MEASURING = {"fetch_model", "fetch_corpus", "convert_model", "convert_corpus", "tokenize", "extract"}


def test_the_run_leaves_every_table_and_figure(finished):
    for name in FIGURES:
        for suffix in ("pdf", "png", "ipynb", "html", "json"):
            assert (finished.root / f"figures/micro/{name}.{suffix}").stat().st_size > 0
    tables = finished.root / "results/micro/tables"
    for table in {table for figure in FIGURES.values() for table in figure["tables"]}:
        assert len(pd.read_csv(tables / f"{table}.csv")) > 0


def test_artifacts_tell_what_made_them(finished):
    results = finished.root / "results/micro"
    shard = xr.open_dataset(results / "geometry/tiny/words/shard-0-of-2.nc", engine="h5netcdf")
    record = json.loads(shard.attrs["provenance"])
    checkpoint = json.loads((finished.root / "resources/models/tiny/checkpoint/provenance.json").read_text())
    assert record["settings"]["seed"] == 20260201
    assert record["sources"]["model"]["source"]["sha256"] == checkpoint["source"]["sha256"]
    assert record["bos"]["token"] == 1
    assert {"torch", "transformers", "numpy"} <= set(record["packages"])
    for name in ("separability", "models"):
        table = json.loads((results / f"tables/{name}.json").read_text())
        assert {"code", "settings", "settings_sha256", "packages", "inputs", "sources"} <= set(table)
    figure = json.loads((finished.root / "figures/micro/sink_effect.json").read_text())
    assert "sink_effect.csv" in figure["inputs"]


def test_shards_hold_each_geometry_document_once_in_order(finished):
    tokens = pd.read_parquet(finished.root / "results/micro/tokens/tiny/words.parquet")
    expected = list(tokens[tokens["split"] == "geometry"].sort_values("order")["document"])
    found = []
    for shard in range(2):
        path = finished.root / f"results/micro/geometry/tiny/words/shard-{shard}-of-2.nc"
        found += list(xr.open_dataset(path, engine="h5netcdf")["document"].values)
    assert found == expected
    assert len(found) == 6


def test_a_second_run_does_nothing(finished):
    assert "Nothing to be done" in finished.snakemake().text


def test_one_figure_is_rebuilt_alone(project):
    (project.root / "figures/micro/sink_effect.pdf").unlink()
    result = project.snakemake("figures/micro/sink_effect.pdf")
    assert result.jobs == Counter(figure=1)
    assert (project.root / "figures/micro/sink_effect.pdf").is_file()


@pytest.mark.parametrize(
    ("edited", "runs", "rests"),
    [
        ("workflow/headgeom/statistics.py", {"metrics", "taxonomy", "tables", "figure"}, MEASURING),
        ("workflow/headgeom/first_version.py", {"metrics", "tables", "figure"}, MEASURING | {"taxonomy"}),
        ("workflow/headgeom/separability.py", {"extract", "metrics", "figure"}, MEASURING - {"extract"}),
        ("workflow/headgeom/plotting.py", {"figure"}, MEASURING | {"metrics", "taxonomy", "tables"}),
        ("workflow/headgeom/windows.py", {"tokenize", "extract", "figure"}, MEASURING - {"tokenize", "extract"}),
    ],
)
def test_an_edit_reruns_what_imports_it(project, edited, runs, rests):
    with open(project.root / edited, "a") as stream:
        stream.write("\n# An edit.\n")
    jobs = project.snakemake("--dry-run").jobs
    assert runs <= set(jobs)
    assert not rests & set(jobs)


def test_an_edit_of_a_notebook_redraws_its_figure_alone(project):
    with open(project.root / "workflow/notebooks/depth.py", "a") as stream:
        stream.write("\n# An edit.\n")
    assert project.snakemake("--dry-run").jobs == Counter(figure=1, manifest=1)
    assert project.snakemake("--dry-run", "figures/micro/depth.pdf").jobs == Counter(figure=1)


def test_the_manifest_lists_each_array_table_and_figure_with_its_hash(finished):
    manifest = json.loads((finished.root / "results/micro/manifest.json").read_text())
    files = {file["path"]: file for file in manifest["files"]}
    folders = [finished.root / "figures/micro", finished.root / "results/micro"]
    made = {path for folder in folders for path in folder.rglob("*") if path.suffix in ARTIFACTS}
    assert len(made) > 2 * len(FIGURES)
    for path in made - {finished.root / "results/micro/manifest.json"}:
        file = files[str(path.relative_to(finished.root))]
        assert file["sha256"] == sha256(path)
        assert {"commit", "modified"} == set(file["code"])
    unhashed = {file["kind"] for file in files.values() if "sha256" not in file}
    assert unhashed == {"notebook", "html", "logs", "benchmarks"}


@pytest.mark.parametrize(
    ("changes", "runs", "rests"),
    [
        ({"statistics.replicates": 60}, {"metrics", "taxonomy", "tables"}, MEASURING),
        ({"extraction.repeats": 3}, {"extract", "metrics"}, MEASURING - {"extract"}),
        ({"windows.length": 20}, {"tokenize", "extract"}, MEASURING - {"tokenize", "extract"}),
        ({"models.0.title": "Tiny"}, {"tables"}, MEASURING | {"metrics", "taxonomy"}),
    ],
)
def test_a_change_of_the_config_reruns_what_depends_on_it(project, changes, runs, rests):
    jobs = project.snakemake("--dry-run", config=project.configured(changes)).jobs
    assert runs <= set(jobs)
    assert not rests & set(jobs)


def test_a_changed_source_is_fetched_anew(project):
    with open(project.root / "resources/micro/words.jsonl", "a") as stream:
        stream.write('{"id": "new", "title": "", "text": "sun moon"}\n')
    jobs = project.snakemake("--dry-run").jobs
    assert {"fetch_corpus", "convert_corpus", "tokenize", "extract"} <= set(jobs)
    assert not {"fetch_model", "convert_model"} & set(jobs)


def test_a_configfile_replaces_the_models_and_corpora(fresh):
    default = fresh.snakemake("--dry-run", config=None).text
    assert "smollm2-135m" in default
    assert "gemma-3-270m" in default
    micro = fresh.snakemake("--dry-run").text
    for name in ("smollm2-135m", "gemma-3-270m", "wikipedia", "news"):
        assert name not in micro
    assert "resources/models/tiny" in micro


def test_only_restricts_a_run(fresh):
    text = fresh.snakemake("--dry-run", "--config", "only={models: [smollm2-135m], corpora: [news]}", config=None).text
    assert "smollm2-135m" in text
    assert "gemma-3-270m" not in text
    assert "wikipedia" not in text


def test_a_file_that_changes_within_a_local_model_is_seen(project):
    with open(project.root / "resources/micro/model/config.json", "a") as stream:
        stream.write("\n")
    assert {"fetch_model", "convert_model", "extract"} <= set(project.snakemake("--dry-run").jobs)
