"""The whole workflow on a tiny random model: what runs, what re-runs, and what does not."""

import json
import re
from collections import Counter
from pathlib import Path

import pandas as pd
import pytest
import torch
import transformers
import xarray as xr
import yaml

from headgeom.files import sha256
from projects import ARTIFACTS

ROOT = Path(__file__).resolve().parents[2]
FIGURES = yaml.safe_load((ROOT / "workflow/notebooks/inputs.yaml").read_text())
MEASURING = {"fetch_model", "fetch_corpus", "convert_model", "convert_corpus", "tokenize", "extract"}
REMOVING = {"head_scores", "removal", "regime_ablation", "head_scan"}
TABLES = {"head_scores", "removal", "regime_ablation", "head_scan", "critical_heads"}


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
        (
            "workflow/headgeom/scan.py",
            {"removal", "regime_ablation", "head_scan", "removal_tables", "figure"},
            MEASURING | {"metrics", "taxonomy", "tables"},
        ),
        ("workflow/headgeom/removal_tables.py", {"removal_tables", "figure"}, MEASURING | REMOVING | {"tables"}),
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
    assert project.snakemake("--dry-run").jobs == Counter(figure=1, paper=1, manifest=1)
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
        ({"removal.seeds": 3}, {"removal", "regime_ablation"}, MEASURING | {"head_scores", "head_scan"}),
        ({"removal.scan_documents": None, "windows.documents.evaluate": 4}, {"tokenize", "head_scan"}, {"fetch_model"}),
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


def removal_jobs(result):
    return {rule: count for rule, count in result.jobs.items() if rule in REMOVING | {"removal_tables"}}


def test_a_config_without_removal_runs_none(fresh, tmp_path):
    """Though the default config, which every other is merged into, asks for it."""
    project = fresh.copy(tmp_path / "project")
    result = project.snakemake("--dry-run", config=project.configured({"removal": None}))
    assert removal_jobs(result) == {}
    assert result.jobs["figure"] == len([figure for figure in FIGURES.values() if not figure.get("removal")])
    assert not TABLES & set(re.findall(r"tables/(\w+)\.csv", result.text))


def test_removal_is_of_the_models_and_corpora_that_it_names(fresh):
    whole = fresh.snakemake("--dry-run", config=None)
    assert removal_jobs(whole)["head_scores"] == 1
    assert removal_jobs(whole)["removal"] == 11
    other = fresh.snakemake("--dry-run", "--config", "only={models: [gemma-3-270m]}", config=None)
    assert removal_jobs(other) == {}
    extended = fresh.snakemake("--dry-run", config="config/extended.yaml")
    assert removal_jobs(extended)["head_scores"] == 4


def test_a_pruned_checkpoint_has_the_losses_of_the_table(project):
    """Loaded by plain transformers, without the gates that the table was made with."""
    folder = project.root / "results/micro/pruned/tiny/words/taxonomy-0.5"
    assert project.snakemake(str(folder.relative_to(project.root))).jobs == Counter(export=1)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype="float32")
    transformers.AutoTokenizer.from_pretrained(folder)
    content = json.loads((folder / "mask.json").read_text())
    assert content["heads"] == 12
    assert len(content["removed"]) == 6
    assert sum(map(sum, content["mask"])) == 6
    assert all(content["mask"][layer][head] == 0 for layer, head in content["removed"])
    tokens = pd.read_parquet(project.root / "results/micro/tokens/tiny/words.parquet").query("split == 'evaluate'")
    losses = pd.read_csv(project.root / "results/micro/removal/tiny/words/losses/taxonomy.csv")
    losses = losses.query("retention == 0.5").set_index("document")["loss"]
    assert len(tokens) == len(losses) == 2
    for document, window in zip(tokens["document"], tokens["tokens"], strict=True):
        window = torch.tensor(window, dtype=torch.long)[None]
        with torch.no_grad():
            assert float(model(window, labels=window).loss) == pytest.approx(losses[document], abs=1e-5)


def test_heads_are_scored_and_losses_measured_on_documents_apart(finished):
    tokens = pd.read_parquet(finished.root / "results/micro/tokens/tiny/words.parquet")
    splits = tokens.groupby("split")["document"].agg(set)
    folder = finished.root / "results/micro/removal/tiny/words"
    for path in (folder / "losses/random.csv", folder / "ablation.csv", folder / "scan/shard-0-of-2.csv"):
        assert set(pd.read_csv(path)["document"]) == splits["evaluate"]
    assert not splits["evaluate"] & (splits["geometry"] | splits["score"])


def test_the_unpruned_model_is_the_same_in_every_table(finished):
    folder = finished.root / "results/micro/removal/tiny/words"
    frames = [pd.read_csv(path) for path in folder.rglob("*.csv") if path.name != "head_scores.csv"]
    assert len(frames) == 6
    unpruned = pd.concat(frames).groupby("document")["unpruned"]
    assert len(unpruned) == 2
    assert (unpruned.max() - unpruned.min()).max() < 1e-6


def test_only_restricts_a_run(fresh):
    text = fresh.snakemake("--dry-run", "--config", "only={models: [smollm2-135m], corpora: [news]}", config=None).text
    assert "smollm2-135m" in text
    assert "gemma-3-270m" not in text
    assert "wikipedia" not in text


def test_a_file_that_changes_within_a_local_model_is_seen(project):
    with open(project.root / "resources/micro/model/config.json", "a") as stream:
        stream.write("\n")
    assert {"fetch_model", "convert_model", "extract"} <= set(project.snakemake("--dry-run").jobs)
