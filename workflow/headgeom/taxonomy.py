"""Regimes of heads by the source-winner rule (spec, section 6).

At each query position the source with the largest contribution norm a_j ||v_j|| wins: the current token
(a vote for Retriever), the sink (Mixer), or any other (Reset). A head's regime is the plurality of its votes
over documents and query positions; a tie goes to Reset, then to Mixer. The alternative rule takes the largest
mean contribution norm by role instead of votes.

Regimes are indices into ``REGIMES``, which is also the order of the ``regime`` axis everywhere.
"""

import numpy as np

REGIMES = ("retriever", "mixer", "reset")
_PRECEDENCE = np.array([REGIMES.index(name) for name in ("reset", "mixer", "retriever")])


def plurality(scores: np.ndarray) -> np.ndarray:
    """Regime with the largest score along the last axis, [..., regimes] to [...]; NaN loses to any number."""
    ordered = np.nan_to_num(scores[..., _PRECEDENCE].astype(float), nan=-np.inf, neginf=-np.inf, posinf=np.inf)
    return _PRECEDENCE[ordered.argmax(-1)]


def vote_shares(votes: np.ndarray) -> np.ndarray:
    """Shares of the votes over documents: [documents, ..., regimes] to [..., regimes]."""
    total = votes.sum(0)
    return total / total.sum(-1, keepdims=True)


def regimes(votes: np.ndarray) -> np.ndarray:
    """Regime of each head from its votes [documents, ..., regimes]."""
    return plurality(votes.sum(0))


def majority(votes: np.ndarray) -> np.ndarray:
    """Whether one regime has more than half of a head's votes, [documents, ..., regimes] to [...] bool."""
    total = votes.sum(0)
    return 2 * total.max(-1) > total.sum(-1)


def alternative_regimes(contribution: np.ndarray) -> np.ndarray:
    """Regime by mean contribution norm of each role, [documents, ..., regimes] to [...].

    A role that no query position has (the sink, where a window hides it) is NaN and cannot win.
    """
    present = ~np.isnan(contribution)
    sums = np.where(present, contribution, 0.0).sum(0)
    number = present.sum(0)
    return plurality(np.divide(sums, number, out=np.full_like(sums, np.nan), where=number > 0))


def resampled_regimes(counts: np.ndarray, votes: np.ndarray) -> np.ndarray:
    """Regimes of each bootstrap replicate.

    counts: [replicates, documents]; votes: [documents, ..., regimes]. Returns [replicates, ...].
    Sums of votes are integers, so ties are exact.
    """
    totals = counts @ votes.reshape(len(votes), -1).astype(float)
    return plurality(totals.reshape(len(counts), *votes.shape[1:]))


def halves(votes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Regimes from the first and from the second half of the documents; the middle one is in the second."""
    middle = len(votes) // 2
    return regimes(votes[:middle]), regimes(votes[middle:])


def agreement(first: np.ndarray, second: np.ndarray) -> float:
    """Share of heads with the same regime in both."""
    return float(np.mean(first == second))
