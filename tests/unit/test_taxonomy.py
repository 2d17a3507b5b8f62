"""Regimes of heads, and the tables made of them, against counting by hand."""

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import synthetic
from headgeom import taxonomy as rules
from headgeom.stages import taxonomy as stage
from headgeom.statistics import Bootstrap

REPLICATES = 60
VOTES = arrays(int, (5, 2, 3, 3), elements=st.integers(0, 3))


def winner(votes: dict[str, float]) -> str:
    """The plurality, ties by the specification's order."""
    most = max(votes.values())
    return next(regime for regime in ("reset", "mixer", "retriever") if votes[regime] == most)


def regime_of(votes: np.ndarray) -> str:
    """Regime of one head from [documents, 3] votes in the order retriever, mixer, reset."""
    total = Counter()
    for document in votes:
        total.update({name: int(n) for name, n in zip(("retriever", "mixer", "reset"), document, strict=True)})
    return winner({name: total[name] for name in ("retriever", "mixer", "reset")})


def names(regimes: np.ndarray) -> np.ndarray:
    return np.array(rules.REGIMES)[regimes]


@pytest.fixture(scope="module")
def data():
    return synthetic.geometry(documents=7, layers=3, heads=4)


@pytest.fixture(scope="module")
def bootstrap(data):
    return Bootstrap.draw(data.sizes["document"], seed=5, replicates=REPLICATES, confidence=0.9)


@pytest.fixture(scope="module")
def tables(data, bootstrap):
    return stage.tables(data, bootstrap)


def test_plurality_and_its_ties_for_every_small_vote():
    for votes in itertools.product(range(4), repeat=3):
        assert names(rules.plurality(np.array(votes))) == winner(dict(zip(rules.REGIMES, votes, strict=True)))


def test_a_tie_goes_to_reset_then_mixer():
    votes = np.array([[1, 1, 1], [1, 1, 0], [0, 1, 1], [1, 0, 1]])
    np.testing.assert_array_equal(names(rules.plurality(votes)), ["reset", "mixer", "reset", "reset"])


@given(VOTES)
def test_regimes_count_votes_over_documents(votes):
    found = names(rules.regimes(votes))
    for head in np.ndindex(2, 3):
        assert found[head] == regime_of(votes[(slice(None), *head)])
    np.testing.assert_array_equal(rules.regimes(votes[::-1]), rules.regimes(votes))


@given(VOTES.filter(lambda votes: (votes.sum((0, 3)) > 0).all()))
def test_vote_shares_and_majority(votes):
    shares = rules.vote_shares(votes)
    np.testing.assert_allclose(shares.sum(-1), 1)
    total = votes.sum((0, 3))
    for head in np.ndindex(2, 3):
        won = votes[(slice(None), *head)].sum(0).max()
        assert rules.majority(votes)[head] == (won > total[head] / 2)
        assert shares[head].max() == pytest.approx(won / total[head])


@given(VOTES)
def test_halves_are_of_the_documents_in_their_order(votes):
    first, second = (names(half) for half in rules.halves(votes))
    for head in np.ndindex(2, 3):
        assert first[head] == regime_of(votes[(slice(0, 2), *head)])
        assert second[head] == regime_of(votes[(slice(2, 5), *head)])


def test_alternative_rule_takes_the_largest_mean_and_never_a_hidden_sink():
    contribution = np.array([[[1.0, 9.0, 2.0], [3.0, np.nan, 2.0], [1.0, 1.0, 1.0]]] * 2)
    contribution[1, 0, 1] = 0.0  # the sink's mean is 4.5
    found = names(rules.alternative_regimes(contribution))
    np.testing.assert_array_equal(found, ["mixer", "retriever", "reset"])


def test_agreement_is_the_share_of_equal_regimes():
    assert rules.agreement(np.array([0, 1, 2, 1]), np.array([0, 2, 2, 1])) == 0.75


def test_heads_table(data, tables):
    heads = tables["heads"]
    assert len(heads) == 12
    for row in heads.itertuples():
        part = data.sel(layer=row.layer, head=row.head)
        votes = part["votes"].values
        assert row.regime == regime_of(votes)
        assert row.majority == (votes.sum(0).max() > votes.sum() / 2)
        np.testing.assert_allclose([row.retriever, row.mixer, row.reset], votes.sum(0) / votes.sum())
        means = {str(r): part["role_contribution"].sel(regime=r).values.astype(float).mean() for r in rules.REGIMES}
        assert row.alternative == winner({k: -1.0 if np.isnan(v) else v for k, v in means.items()})
        for name in ("output_sink_cosine", "output_current_cosine"):
            np.testing.assert_allclose(getattr(row, name), part[name].values.astype(float).mean())
    assert heads.loc[heads["layer"] == 1, "output_sink_cosine"].isna().all()
    assert (heads.loc[heads["layer"] == 1, "mixer"] == 0).all()


def resampled(data, bootstrap, layers) -> list[list[str]]:
    """Regimes of the layers' heads in every replicate, by repeating documents."""
    votes = data["votes"].sel(layer=layers).values.reshape(data.sizes["document"], -1, 3)
    return [
        [regime_of(np.repeat(votes[:, head], row.astype(int), axis=0)) for head in range(votes.shape[1])]
        for row in bootstrap.counts
    ]


def test_shares_and_their_intervals(data, bootstrap, tables):
    heads, replicates = tables["heads"], resampled(data, bootstrap, [0, 1, 2])
    for row in tables["taxonomy"].itertuples():
        won = heads["regime"] == row.regime
        assert row.heads == won.sum()
        assert row.share == won.mean()
        assert row.majority_share == (won & heads["majority"]).mean()
        assert row.alternative_share == (heads["alternative"] == row.regime).mean()
        shares = [np.mean([name == row.regime for name in names]) for names in replicates]
        np.testing.assert_allclose([row.low, row.high], np.percentile(shares, [5, 95]))
    assert tables["taxonomy"]["share"].sum() == pytest.approx(1)
    assert (tables["taxonomy"]["high"] > tables["taxonomy"]["low"]).any()


def test_depth_shares(data, bootstrap, tables):
    frame = tables["depth_regimes"]
    assert list(frame["relative_depth"].unique()) == [0, 0.5, 1]
    assert len(frame) == 9
    for layer in range(3):
        replicates = resampled(data, bootstrap, [layer])
        regimes = tables["heads"].query("layer == @layer")["regime"]
        for row in frame.query("layer == @layer").itertuples():
            shares = [np.mean([name == row.quantity for name in names]) for names in replicates]
            assert row.mean == (regimes == row.quantity).mean()
            np.testing.assert_allclose([row.low, row.high], np.percentile(shares, [5, 95]))


def test_alignment_is_a_mean_of_heads_then_documents(data, tables):
    data = data.copy(deep=True)
    regimes = tables["heads"]
    for row in tables["alignment"].itertuples():
        documents, counted = [], set()
        for document in range(data.sizes["document"]):
            values = []
            for head in regimes[regimes["regime"] == row.regime].itertuples():
                cosine = data[f"output_{row.target}_cosine"].sel(layer=head.layer, head=head.head).values[document]
                if not np.isnan(cosine):
                    values.append(float(cosine))
                    counted.add((head.layer, head.head))
            documents.append(np.mean(values))
        assert row.heads == len(counted)
        assert row.mean == pytest.approx(np.mean(documents), rel=1e-12)
        assert row.low <= row.mean <= row.high


def test_a_regime_without_heads_has_no_alignment(data, bootstrap):
    data = data.copy(deep=True)
    data["votes"].loc[{"regime": "retriever"}] = 0
    frame = stage.tables(data, bootstrap)["alignment"].query("regime == 'retriever'")
    assert (frame["heads"] == 0).all()
    assert frame[["mean", "low", "high"]].isna().all(axis=None)


def test_stability(data, tables):
    votes, heads = data["votes"].values, tables["heads"]
    halves = [[regime_of(half[:, i, j]) for i in range(3) for j in range(4)] for half in (votes[:3], votes[3:])]
    agreement = tables["stability"].set_index("comparison")["agreement"]
    assert agreement["halves"] == np.mean([a == b for a, b in zip(*halves, strict=True)])
    assert agreement["rule"] == (heads["regime"] == heads["alternative"]).mean()
    assert (tables["stability"]["heads"] == 12).all()


def test_regimes_are_found_by_label_not_by_position(data, bootstrap, tables):
    turned = data.isel(regime=[2, 0, 1])
    for name, frame in stage.tables(turned, bootstrap).items():
        assert frame.equals(tables[name]), name
