"""Shards and invariants: tables do not depend on how documents are split, and no wrong measurement passes."""

import argparse
import json

import numpy as np
import pytest

import synthetic
from headgeom.errors import InvariantError, UserError
from headgeom.measurements import check, read_shards
from headgeom.stages import metrics, taxonomy

SETTINGS = {"model": "m", "corpus": "c", "seed": 3, "replicates": 50, "confidence": 0.95}


@pytest.fixture
def data():
    return synthetic.geometry()


def tables(stage, paths, folder) -> dict[str, bytes]:
    stage.run(argparse.Namespace(settings=SETTINGS, geometry=paths, output=folder))
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.csv"))}


@pytest.mark.parametrize("stage", [metrics, taxonomy])
def test_tables_are_the_same_bytes_for_any_shards_in_any_order(data, tmp_path, stage):
    single = tables(stage, synthetic.write_shards(data, tmp_path / "1", 1), tmp_path / "out-1")
    assert len(single) == {metrics: 9, taxonomy: 6}[stage]
    for number in (2, 5):
        paths = synthetic.write_shards(data, tmp_path / f"{number}", number)
        assert tables(stage, paths[::-1], tmp_path / f"out-{number}") == single
    shuffled = synthetic.write_shards(data.isel(document=[3, 1, 4, 0, 2]), tmp_path / "shuffled", 2)
    assert tables(stage, shuffled, tmp_path / "out-shuffled") == single
    assert tables(stage, shuffled, tmp_path / "out-shuffled") == single


@pytest.mark.parametrize("stage", [metrics, taxonomy])
def test_provenance_stands_beside_each_table(data, tmp_path, stage):
    paths = synthetic.write_shards(data, tmp_path / "shards", 2)
    for name in tables(stage, paths, tmp_path / "out"):
        record = json.loads((tmp_path / "out" / name).with_suffix(".json").read_text())
        assert record["settings"] == SETTINGS
        assert record["sources"] == {"model": {"name": "m"}, "corpus": {"name": "c"}}
        assert sorted(record["inputs"]) == ["shard-0-of-2.nc", "shard-1-of-2.nc"]


def test_documents_come_in_hashed_order(data, tmp_path):
    paths = synthetic.write_shards(data.isel(document=[2, 0, 3, 4, 1]), tmp_path, 2)
    found, _ = read_shards(paths, ["votes", "fp", "sources"], model="m", corpus="c")
    np.testing.assert_array_equal(found["order"], range(5))
    for name in ("votes", "fp", "sources"):
        np.testing.assert_array_equal(found[name].values, data[name].values)
    assert list(found["document"].values) == list(data["document"].values)


def test_a_document_in_two_shards_is_refused(data, tmp_path):
    path = synthetic.write_shards(data, tmp_path / "a", 1)[0]
    again = synthetic.write_shards(data.isel(document=[2]), tmp_path / "b", 1)[0]
    name = str(data["document"].values[2])
    with pytest.raises(UserError, match=f"m, c: document {name} is in more than one shard"):
        read_shards([path, again], ["votes"], model="m", corpus="c")


def test_shards_of_different_configs_are_refused(data, tmp_path):
    paths = synthetic.write_shards(data.isel(document=[0, 1]), tmp_path / "a", 1)
    other = data.isel(document=[2, 3, 4], layer=[0, 1])
    paths += synthetic.write_shards(other, tmp_path / "b", 1)
    with pytest.raises(UserError, match="differ in more than documents"):
        read_shards(paths, ["votes"], model="m", corpus="c")


def test_a_shard_without_a_variable_is_refused(data, tmp_path):
    paths = synthetic.write_shards(data.drop_vars("similarity"), tmp_path, 1)
    with pytest.raises(UserError, match="lacks similarity"):
        read_shards(paths, ["similarity", "votes"], model="m", corpus="c")


def test_synthetic_measurements_meet_the_invariants(data):
    check(data, model="m", corpus="c")


AT = {"document": 2, "layer": 0, "head": 3}
COUNT = AT | {"distance": 0, "ranking": 1, "pool": 0, "size": 2}  # N = 4 of 16 sources
HIDDEN = COUNT | {"layer": 1, "size": 4}  # N = 12 of 10 sources
CERTIFIED = {dim: index for dim, index in COUNT.items() if dim != "distance"} | {"certificate": 3}
PAIRS = CERTIFIED | {"certificate": 2}  # of the first two documents
RANDOM = {dim: index for dim, index in COUNT.items() if dim != "ranking"}


@pytest.mark.parametrize(
    ("name", "at", "value"),
    [
        ("fp", COUNT, -1),
        ("fp", COUNT, 13),
        ("tp", COUNT, -1),
        ("tp", COUNT, 5),
        ("inv", COUNT, -1),
        ("inv", COUNT, 49),
        ("fp", COUNT, np.nan),
        ("tp", COUNT, np.nan),
        ("inv", COUNT, np.nan),
        ("fp", HIDDEN, 0),
        ("certified_fp", CERTIFIED, np.nan),
        ("certified_tp", CERTIFIED, np.nan),
        ("certified_fp", CERTIFIED, 13),
        ("certified_tp", CERTIFIED, 5),
        ("certified_tp", CERTIFIED, -1),
        ("certified_tp", PAIRS, 2),
        ("random_f", RANDOM, 1.1),
        ("random_recall", RANDOM, -0.1),
        ("random_precision", RANDOM, np.nan),
        ("similarity", AT | {"lag": 1}, np.inf),
        ("sink_mass", AT, -np.inf),
        ("sink_mass", AT, np.nan),
        ("sink_rank", AT | {"ranking": 0}, np.nan),
        ("sink_rank", AT | {"ranking": 0}, 16),
        ("sink_rank", AT | {"ranking": 0, "layer": 1}, 0),
        ("votes", AT | {"regime": 1}, 6),
        ("votes", AT | {"regime": 1}, np.nan),
        ("votes", AT | {"regime": 1}, -1),
    ],
)
def test_a_wrong_measurement_is_named(data, name, at, value):
    data[name][at] = value
    with pytest.raises(InvariantError) as caught:
        check(data, model="small-llama", corpus="news")
    message = str(caught.value)
    assert message.startswith("small-llama, news, ")
    assert name in message.replace("the number of votes", "votes")
    labels = {"document": str(data["document"].values[2]), "layer": at["layer"], "head": 3}
    if "size" in at:
        labels["N"] = synthetic.SIZES[at["size"]]
    for label, index in labels.items():
        assert f"{label} {index}" in message


@pytest.mark.parametrize(("name", "value"), [("fp", 12), ("tp", 4), ("inv", 48), ("fp", 0), ("tp", 0), ("inv", 0)])
def test_the_limits_themselves_are_right(data, name, value):
    data[name][COUNT] = value
    check(data, model="m", corpus="c")
