"""Counts depend on neither shards, batches, threads, the order of the corpus nor the processor's instructions."""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from headgeom import tables
from headgeom.stages import extract, tokenize
from projects import ROOT, Project

SETTINGS = {
    "seed": 20260201, "dtype": "float32", "device": "cpu", "repeats": 4, "distances": ["euclidean", "cosine"],
    "queries": 4, "pair_documents": 2, "batch_size": 1, "shard": 0, "shards": 1,
}  # fmt: skip
COUNTS = ("fp", "tp", "inv", "certified_fp", "certified_tp", "competing_fp", "competing_tp", "votes", "sink_rank")
SMOKE = {"model": "smollm2-135m", "corpus": "wikipedia", "length": 96, "sizes": [1, 2, 4, 8, 16, 32, 64]}
MICRO = {"model": "tiny", "corpus": "words", "length": 24, "sizes": [1, 2, 4, 8]}


def arguments(project: Project, run: str, output: Path, settings: dict, threads: int = 1) -> argparse.Namespace:
    return argparse.Namespace(
        settings=settings,
        threads=threads,
        checkpoint=project.root / f"resources/models/{settings['model']}/checkpoint",
        tokens=project.root / f"results/{run}/tokens/{settings['model']}/{settings['corpus']}.parquet",
        output=output,
    )


def measured(project: Project, run: str, folder: Path, threads: int = 1, **changes) -> xr.Dataset:
    """Extraction of all shards, in this process."""
    settings = SETTINGS | {"smoke": SMOKE, "micro": MICRO}[run] | changes
    shards = []
    for shard in range(settings["shards"]):
        path = folder / f"{len(list(folder.iterdir()))}.nc"
        extract.run(arguments(project, run, path, settings | {"shard": shard}, threads))
        shards.append(xr.load_dataset(path, engine="h5netcdf"))
    return xr.concat(shards, "document", data_vars="minimal")


def moved(found: xr.Dataset, expected: xr.Dataset) -> dict[str, int]:
    """How many counts differ, by name; those that do not are left out."""
    different = {name: found[name].fillna(-1) != expected[name].fillna(-1) for name in COUNTS}
    return {name: int(where.sum()) for name, where in different.items() if where.any()}


@pytest.mark.parametrize("changes", [{"shards": 3}, {"batch_size": 4}, {"shards": 2, "batch_size": 6}, {"threads": 2}])
def test_shards_batches_and_threads_change_no_count(finished, tmp_path, changes):
    assert moved(measured(finished, "micro", tmp_path, **changes), measured(finished, "micro", tmp_path)) == {}


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.parametrize("changes", [{"shards": 3}, {"batch_size": 3}, {"threads": 2}])
def test_shards_batches_and_threads_change_no_count_of_a_real_model(real, tmp_path, changes):
    assert moved(measured(real, "smoke", tmp_path, **changes), measured(real, "smoke", tmp_path)) == {}


def test_the_order_of_documents_in_the_corpus_changes_no_window(finished, tmp_path):
    folder = finished.root / "resources/corpora/words"
    frame, record = tables.read_parquet(folder / "documents.parquet")
    tables.write_parquet(frame.sample(frac=1, random_state=1), tmp_path / "documents.parquet", record)
    options = argparse.Namespace(
        settings={
            "model": "tiny", "corpus": "words", "seed": 20260201, "length": 24, "bos": "auto",
            "documents": {"geometry": 6, "score": 2, "evaluate": 2},
        },
        checkpoint=finished.root / "resources/models/tiny/checkpoint",
        documents=tmp_path / "documents.parquet",
        output=tmp_path / "windows.parquet",
    )  # fmt: skip
    tokenize.run(options)
    found, _ = tables.read_parquet(tmp_path / "windows.parquet")
    expected, _ = tables.read_parquet(finished.root / "results/micro/tokens/tiny/words.parquet")
    pd.testing.assert_frame_equal(found, expected)


@pytest.mark.real
@pytest.mark.slow
def test_another_processor_gives_the_same_counts_but_for_ties(real, tmp_path):
    """Older instructions, emulated: other float32 kernels, so that the last digits differ."""
    settings = SETTINGS | SMOKE
    options = arguments(real, "smoke", tmp_path / "other.nc", settings)
    command = [sys.executable, ROOT / "workflow/run.py", "extract", "--settings", json.dumps(settings)]
    for name in ("checkpoint", "tokens", "output"):
        command += [f"--{name}", getattr(options, name)]
    older = {"ATEN_CPU_CAPABILITY": "default", "ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"}
    subprocess.run(command, env=os.environ | older, check=True)
    found, expected = xr.load_dataset(options.output, engine="h5netcdf"), measured(real, "smoke", tmp_path)
    assert not np.array_equal(found["norm_mean"], expected["norm_mean"]), "the instructions made no difference"
    different = moved(found, expected)
    print(different)
    assert sum(different.values()) <= 1e-4 * sum(expected[name].count().item() for name in COUNTS)
    for name in different:
        assert abs(found[name] - expected[name]).max() <= 2, name
