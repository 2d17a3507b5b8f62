"""Tables of head removal from losses whose means and differences are worked out by hand."""

import itertools
import json
from argparse import Namespace

import numpy as np
import pandas as pd
import pytest

from headgeom import removal_tables
from headgeom.stages import removal_tables as stage
from headgeom.statistics import Bootstrap
from headgeom.table_files import labelled, write_table

UNPRUNED = {"a": 1.0, "b": 3.0}
BOOTSTRAP = Bootstrap.draw(2, seed=1, replicates=200, confidence=0.95)


def losses(**increases):
    """Rows of documents a and b at one retention; each score's increase is one number, or a list of draws."""
    rows = []
    for score, draws in increases.items():
        for (draw, more), document in itertools.product(enumerate(np.atleast_1d(draws)), UNPRUNED):
            loss = UNPRUNED[document] + more
            labels = {"score": score, "draw": draw, "retention": 0.5, "heads": 6, "document": document}
            rows.append(labels | {"unpruned": UNPRUNED[document], "loss": loss})
    return pd.DataFrame(rows)


def removal(frame):
    return removal_tables.removal(frame.sample(frac=1, random_state=1), BOOTSTRAP).set_index("score")


def test_losses_are_means_and_the_unpruned_model_comes_first():
    table = removal(losses(random=[2, 4], taxonomy=1, magnitude=2))
    assert table.index[0] == "unpruned"
    assert table.loc["unpruned", "loss"] == 2
    assert table.loc["unpruned", "retention"] == 1
    assert dict(table["loss"].iloc[1:]) == {"random": 5, "taxonomy": 3, "magnitude": 4}
    assert dict(table["heads"].iloc[1:]) == {"random": 6, "taxonomy": 6, "magnitude": 6}
    assert (table["documents"] == 2).all()


def test_the_interval_of_a_loss_is_over_documents():
    """Two documents: a replicate's mean is of a alone, of b alone or of both."""
    row = removal(losses(random=[2, 4], taxonomy=1)).loc["taxonomy"]
    assert (row["loss_low"], row["loss_high"]) == (2, 4)


def test_differences_are_paired():
    """The documents differ by 2 nats, the strategies by the same in each: so the interval has no width."""
    table = removal(losses(random=[2, 4], taxonomy=1, magnitude=2))
    for name, expected in {"increase": 1, "from_random": -2, "from_baseline": -1}.items():
        assert list(table.loc["taxonomy", [name, f"{name}_low", f"{name}_high"]]) == [expected] * 3


def test_random_is_the_mean_of_its_draws_and_their_spread_is_told():
    row = removal(losses(random=[2, 4, 9], taxonomy=1)).loc["random"]
    assert row["loss"] == 7
    assert (row["seeds_low"], row["seeds_high"]) == (4, 11)
    assert pd.isna(row["from_random"])
    assert pd.isna(removal(losses(random=[2, 4], taxonomy=1)).loc["taxonomy", "seeds_low"])


def test_the_baseline_is_the_best_single_metric_other_than_the_score():
    table = removal(losses(random=0, taxonomy=3, taxonomy_drop_reset=0.1, magnitude=1, entropy_low=2))
    expected = {"random": "magnitude", "taxonomy": "magnitude", "taxonomy_drop_reset": "magnitude"}
    expected |= {"magnitude": "entropy_low", "entropy_low": "magnitude"}
    assert dict(table["baseline"].iloc[1:]) == expected
    assert table.loc["magnitude", "from_baseline"] == -1
    assert table.loc["entropy_low", "from_baseline"] == 1


def test_without_baselines_there_is_no_difference():
    row = removal(losses(random=0, taxonomy=3)).loc["taxonomy"]
    assert pd.isna(row["baseline"]) and pd.isna(row["from_baseline"])


def test_retentions_do_not_mix():
    low = losses(random=5, taxonomy=4, magnitude=9).assign(retention=0.3)
    high = losses(random=1, taxonomy=2, magnitude=3).assign(retention=0.9)
    table = removal_tables.removal(pd.concat([low, high]), BOOTSTRAP)
    taxonomy = table[table["score"] == "taxonomy"].set_index("retention")
    assert list(taxonomy.index) == [0.9, 0.3]
    assert list(taxonomy["from_random"]) == [1, -1]
    assert list(taxonomy["from_baseline"]) == [-1, -5]


def ablation(treated, control, overlap=(0.5, 1.0)):
    """Increases [draws][documents] of both arms, of one regime."""
    rows = []
    for (draw, share), (arm, values) in itertools.product(
        enumerate(overlap), {"treated": treated, "control": control}.items()
    ):
        for document, more in zip(UNPRUNED, values[draw], strict=True):
            labels = {"regime": "mixer", "heads": 9, "removed": 3, "overlap": share, "draw": draw, "arm": arm}
            unpruned = UNPRUNED[document]
            rows.append(labels | {"document": document, "unpruned": unpruned, "loss": unpruned + more})
    return removal_tables.regime_ablation(pd.DataFrame(rows).sample(frac=1, random_state=2), BOOTSTRAP).iloc[0]


def test_an_ablation_compares_arms_document_by_document():
    row = ablation(treated=[[1, 3], [3, 5]], control=[[0, 2], [0, 2]])
    assert (row["treated"], row["control"], row["difference"]) == (3, 1, 2)
    assert (row["treated_low"], row["treated_high"]) == (2, 4)
    assert (row["difference_low"], row["difference_high"]) == (2, 2)
    assert (row["seeds_low"], row["seeds_high"]) == (1, 3)
    assert row["overlap"] == 0.75
    assert (row["heads"], row["removed"], row["draws"], row["documents"]) == (9, 3, 2, 2)


def scanned(increases, uncertain=()):
    """The scan of one layer; of uncertain heads document b makes all of the increase."""
    rows = []
    for head, more in enumerate(increases):
        parts = (0, 2 * more) if head in uncertain else (more, more)
        for (document, unpruned), part in zip(UNPRUNED.items(), parts, strict=True):
            rows.append({"layer": 0, "head": head, "document": document, "unpruned": unpruned, "loss": unpruned + part})
    regimes = pd.DataFrame({"layer": 0, "head": range(len(increases))})
    regimes["regime"] = ["reset" if head % 2 else "mixer" for head in range(len(increases))]
    return removal_tables.head_scan(pd.DataFrame(rows).sample(frac=1, random_state=3), regimes, BOOTSTRAP)


def test_the_fence_is_tukeys_outer_one():
    """Quartiles of 0 .. 8 are 2 and 6."""
    assert removal_tables.fence(np.arange(9.0)) == 18


def test_outliers_lie_beyond_the_fence_with_their_whole_interval():
    increases = [0, 1, 2, 3, 4, 5, 6, 7, 8, 50, 60]
    table = scanned(increases, uncertain=[10])
    np.testing.assert_allclose(table["increase"], increases)
    assert removal_tables.fence(table["increase"]) == 22.5  # quartiles 2.5 and 7.5
    assert table.loc[10, "low"] < 22.5 < table.loc[10, "increase"]
    assert list(table.loc[table["outlier"], "head"]) == [9]
    assert list(table["rank"]) == [11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1]


def test_critical_heads_tell_their_distance_from_the_median_and_their_regime():
    table = removal_tables.critical_heads(scanned([0, 1, 2, 3, 4, 5, 6, 7, 8, 50, 60]))
    assert list(table["rank"]) == list(range(1, 11))
    assert list(table["head"]) == [10, 9, 8, 7, 6, 5, 4, 3, 2, 1]
    first = table.iloc[0]
    assert (first["median"], first["gap"], first["regime"]) == (5, 55, "mixer")
    assert first["regime_mean"] == pytest.approx((0 + 2 + 4 + 6 + 8 + 60) / 6)
    assert first["from_regime"] == pytest.approx(60 - first["regime_mean"])
    assert first["from_regime_low"] <= first["from_regime"] <= first["from_regime_high"]
    assert first["perplexity_factor"] == pytest.approx(np.exp(60))
    assert list(table["outlier"][:3]) == [True, True, False]


@pytest.fixture
def options(tmp_path):
    """Parts of two pairs, whose names a CSV reader could take for something else."""
    paths = {"scores": [], "losses": [], "ablation": [], "scan": [], "regimes": []}

    def write(kind, folder, name, frame, **names):
        write_table(folder, name, labelled(frame, **names), {"settings": names, "sources": {"corpus": names["corpus"]}})
        paths[kind].append(folder / f"{name}.csv")

    for model, corpus, more in (("NA", "007", 1), ("big", "007", 2)):
        folder, names = tmp_path / model / corpus, {"model": model, "corpus": corpus}
        grid = {"layer": 0, "head": [0, 1]}
        write("scores", folder, "head_scores", pd.DataFrame(grid | {"score": "magnitude", "value": 0.5}), **names)
        for score, value in {"random": 3.0, "taxonomy": more}.items():
            write("losses", folder / "losses", score, losses(**{score: value}), **names)
        arms = [
            losses(x=more).assign(regime="mixer", removed=1, overlap=0.5, arm=arm) for arm in ("treated", "control")
        ]
        write("ablation", folder, "ablation", pd.concat(arms), **names)
        for shard in (0, 1):
            part = losses(x=more + shard).assign(layer=0, head=shard)
            write("scan", folder / "scan", f"shard-{shard}", part, **names)
        write("regimes", folder / "taxonomy", "heads", pd.DataFrame(grid | {"regime": ["mixer", "reset"]}), **names)
    settings = {"seed": 1, "replicates": 50, "confidence": 0.9}
    return Namespace(settings=settings, output=tmp_path / "tables", **paths)


def test_tables_of_two_pairs(options):
    stage.run(options)
    table = {path.stem: stage.read([path]) for path in options.output.glob("*.csv")}
    assert sorted(table) == ["critical_heads", "head_scan", "head_scores", "regime_ablation", "removal"]
    for frame in table.values():
        assert list(frame[["model", "corpus"]].drop_duplicates().itertuples(index=False, name=None)) == [
            ("NA", "007"),
            ("big", "007"),
        ]
    taxonomy = table["removal"].query("score == 'taxonomy'").set_index("model")["from_random"]
    assert dict(taxonomy) == {"NA": -2, "big": -1}
    assert list(table["head_scan"]["increase"]) == [1, 2, 2, 3]
    assert list(table["head_scan"]["regime"]) == ["mixer", "reset"] * 2
    assert list(table["critical_heads"]["gap"]) == [0.5, -0.5] * 2
    record = json.loads((options.output / "removal.json").read_text())
    assert sorted(record["sources"]) == ["NA/007", "big/007"]
    assert "NA/007/losses/taxonomy.csv" in record["inputs"]
    text = (options.output / "removal.md").read_text()
    assert "-2 [-2, -2]" in text and "from_random_low" not in text
    assert not (options.output / "head_scan.md").exists()
    before = {path.name: path.read_bytes() for path in options.output.iterdir()}
    stage.run(options)
    assert {path.name: path.read_bytes() for path in options.output.iterdir()} == before


def test_document_ids_that_look_like_numbers_stay_texts(tmp_path):
    frame = losses(random=1).replace({"document": {"a": "001", "b": "1"}})
    write_table(tmp_path, "losses", labelled(frame, model="m", corpus="c"), {})
    assert set(stage.read([tmp_path / "losses.csv"])["document"]) == {"001", "1"}
