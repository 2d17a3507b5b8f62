"""Measurements that contradict their definition stop their stage, with an address; lack of memory does not."""

import argparse
import logging

import numpy as np
import pandas as pd
import pytest
import torch
import xarray as xr
from test_determinism import MICRO, SETTINGS, arguments, measured, moved

from headgeom import attention, evaluation, extraction, models
from headgeom.errors import InvariantError, UserError
from headgeom.stages import extract, taxonomy
from headgeom.statistics import Bootstrap


@pytest.fixture
def options(finished, tmp_path) -> argparse.Namespace:
    """Those of extraction from the micro run, with six documents in a pass."""
    return arguments(finished, "micro", tmp_path / "shard.nc", SETTINGS | MICRO | {"batch_size": 6})


def broken_weights(monkeypatch, value: float) -> None:
    """The weights of query 23 in layer 1, head 2 get another sum in every second document."""
    genuine = attention._view

    def view(session, module, *others):
        seen = genuine(session, module, *others)
        if module.layer_idx == 1:
            seen.weights[1::2, 2, -1] *= value
        return seen

    monkeypatch.setattr(attention, "_view", view)


@pytest.mark.parametrize(("value", "told"), [(1.01, "1.01"), (0.99, "0.99"), (float("nan"), "nan")])
def test_weights_that_do_not_sum_to_one_are_an_error_with_their_address(options, monkeypatch, value, told):
    broken_weights(monkeypatch, value)
    where = rf"tiny, words, batch of .*: document 2 of the batch, layer 1, head 2, query 23: .* sum to {told}, not 1"
    with pytest.raises(InvariantError, match=where):
        extract.run(options)
    assert not options.output.exists()


def test_counts_outside_their_range_are_not_written(options, monkeypatch):
    genuine = extraction.measure_batch

    def wrong(*others):
        found = genuine(*others)
        found["tp"][4, 1, 2, 0, 0, 0, 1] = 3  # of N = 2
        return found

    monkeypatch.setattr(extraction, "measure_batch", wrong)
    with pytest.raises(
        InvariantError, match=r"tiny, words, document .*, layer 1, head 2, .*, N 2: tp is outside 0 .. N"
    ):
        extract.run(options)
    assert not list(options.output.parent.glob("*shard*"))


def test_a_model_that_overflows_is_named(options, monkeypatch):
    genuine = models.load_model

    def large(*others):
        model = genuine(*others)
        with torch.no_grad():
            model.model.layers[0].self_attn.q_proj.weight.fill_(float("inf"))
        return model

    monkeypatch.setattr(models, "load_model", large)
    with pytest.raises(InvariantError, match=r"tiny, words, batch of .*: .*: its hidden states overflow in .*dtype"):
        extract.run(options)


@pytest.mark.parametrize("name", ["loss", "unpruned", "value"])
def test_losses_and_scores_that_are_not_finite_are_named(tmp_path, name):
    frame = pd.DataFrame({"document": ["a", "b"], "layer": [0, 1], name: [1.0, np.nan]})
    options = argparse.Namespace(settings={"model": "tiny", "corpus": "words"}, output=tmp_path / "x.csv")
    with pytest.raises(InvariantError, match=f"tiny, words: not finite: document b, layer 1, {name} nan"):
        evaluation.write(options, frame, {})
    assert not list(tmp_path.iterdir())


def out_of_memory() -> None:
    """torch's own error, from asking for an exabyte."""
    torch.empty(1 << 60, dtype=torch.uint8)


@pytest.mark.parametrize(
    "error", [out_of_memory, lambda: (_ for _ in ()).throw(MemoryError())], ids=["torch", "python"]
)
def test_a_batch_that_memory_does_not_hold_is_halved(options, finished, tmp_path, monkeypatch, caplog, error):
    expected, sizes, genuine = measured(finished, "micro", tmp_path), [], extraction.measure_batch

    def short(model, tokens, *others):
        sizes.append(len(tokens))
        if len(tokens) > 2:
            error()
        return genuine(model, tokens, *others)

    monkeypatch.setattr(extraction, "measure_batch", short)
    with caplog.at_level(logging.WARNING):
        extract.run(options)
    assert sizes == [6, 3, 1, 1, 1, 1, 1, 1]
    assert "out of memory with 6 documents in a pass; going on with 3" in caplog.text
    assert moved(xr.load_dataset(options.output, engine="h5netcdf"), expected) == {}


def test_one_document_that_memory_does_not_hold_is_an_error(options, monkeypatch):
    monkeypatch.setattr(extraction, "measure_batch", lambda *_: out_of_memory())
    with pytest.raises(UserError, match=r"tiny, words: memory does not hold one window of 24 tokens; lower"):
        extract.run(options)


def test_other_errors_are_not_taken_for_lack_of_memory(options, monkeypatch):
    def broken(*_):
        raise RuntimeError("shapes do not match")

    monkeypatch.setattr(extraction, "measure_batch", broken)
    with pytest.raises(RuntimeError, match="shapes do not match"):
        extract.run(options)


def test_a_gpu_that_is_asked_for_and_absent_is_an_error(options):
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    options.settings["device"] = "cuda"
    with pytest.raises(UserError, match="cuda"):
        extract.run(options)


def test_a_head_without_a_regime_is_an_error():
    regimes = np.array([[0, 1], [2, 3]])
    draws = Bootstrap.draw(2, seed=1, replicates=10, confidence=0.95)
    with pytest.raises(InvariantError, match="3 heads in regimes, of 4; their shares do not sum to 1"):
        taxonomy.shares(regimes, regimes > 0, regimes, np.stack([regimes] * 10), draws)
