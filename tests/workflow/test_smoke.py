"""The smoke run on the real SmolLM2, and the loss of both real models; about four minutes with the downloads."""

import numpy as np
import pandas as pd
import pytest
import torch

from headgeom import models, tables, windows

pytestmark = [pytest.mark.real, pytest.mark.slow]

# Mean loss in nats a token, BOS first, at L = 512 on the first 16 documents of the hashed order.
LOSSES = {"smollm2-135m": 2.970, "gemma-3-270m": 3.032}


def table(project, name):
    return pd.read_csv(project.root / f"results/smoke/tables/{name}.csv")


def test_attention_sets_are_more_separable_than_random_ones(real):
    frame = table(real, "separability").query("metric == 'f' and size >= 2")
    means = frame.pivot_table(index=["pool", "size"], columns="ranking", values="mean")
    assert len(means) == 12
    assert (means["attention"] > means["random"]).all()
    assert (means["contribution"] > means["random"]).all()
    high = frame[frame["ranking"] == "random"].set_index(["pool", "size"])["high"]
    low = frame[frame["ranking"] == "attention"].set_index(["pool", "size"])["low"]
    assert (low > high).all()


def test_one_token_is_always_separable(real):
    frame = table(real, "separability").query("metric == 'f' and size == 1")
    assert frame["mean"].tolist() == pytest.approx([1] * len(frame))


def test_the_sinks_norm_is_small_and_leaving_it_out_helps(real):
    ratio = table(real, "sink_geometry").set_index("quantity").loc["norm_ratio", "mean"]
    assert 3 < ratio < 10
    effect = table(real, "sink_effect").query("ranking == 'attention' and operations == 'all'").set_index("size")
    assert (effect.loc[[8, 16, 32], "low"] > 1.1).all()


def test_no_operation_is_lost(real):
    frame = table(real, "separability")
    assert (frame["documents"] == 8).all()
    assert len(table(real, "heads")) == 30 * 9
    assert frame[["mean", "low", "high"]].notna().all(axis=None)


def test_removing_heads_costs_more_the_more_are_removed(real):
    frame = table(real, "removal")
    unpruned = frame.query("score == 'unpruned'")["loss"].item()
    assert 3 < unpruned < 4.5
    losses = frame.query("score != 'unpruned'").pivot(index="score", columns="retention", values="loss")
    assert len(losses) == 4
    assert (losses[0.5] > losses[0.9] + 1).all()
    assert (losses[0.9] > unpruned).all()


def test_the_scan_finds_single_heads_that_matter(real):
    frame = table(real, "head_scan")
    assert len(frame) == 30 * 9
    worst = frame.set_index("rank").loc[1]
    assert worst["outlier"]
    assert worst["increase"] > 10 * frame["increase"].median()


@pytest.mark.parametrize("name", LOSSES)
def test_the_dequantized_models_are_right(real, name):
    """A wrong transposition, scale, rotary base or norm would show as a loss many nats higher."""
    checkpoint = f"resources/models/{name}/checkpoint"
    real.snakemake(checkpoint, "resources/corpora/wikipedia/documents.parquet", config=None)
    frame, _ = tables.read_parquet(real.root / "resources/corpora/wikipedia/documents.parquet")
    tokenizer = models.load_tokenizer(real.root / checkpoint)
    bos, _ = models.bos_token(real.root / checkpoint, "auto")
    found = windows.windows(
        dict(zip(frame["id"], frame["text"], strict=True)),
        lambda text: tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"],
        seed=1, model=name, corpus="wikipedia", bos=bos, length=512, documents={"geometry": 16},
    )  # fmt: skip
    model = models.load_model(real.root / checkpoint, "float32", "cpu")
    losses = []
    for window in found:
        tokens = torch.tensor(window.tokens)[None]
        with torch.inference_mode():
            losses.append(model(tokens, labels=tokens).loss.item())
    assert len(losses) == 16
    assert np.mean(losses) == pytest.approx(LOSSES[name], abs=0.02)
