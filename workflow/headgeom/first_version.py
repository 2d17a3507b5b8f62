"""Claims of the paper's first version (February 2026) about similarity (spec, section 8, V1 and V2).

V2 says that the similarity of values decays with token distance d as amplitude * exp(-d / length). The fit is
by least squares on the similarities themselves (not on their logarithms: they may be negative). For a given
length the best amplitude is linear, with e_d = exp(-d / length) and similarities s_d,

    amplitude = <s, e> / <e, e>      residual = <s, s> - <s, e>^2 / <e, e>

so only the length is searched for: on a grid of its logarithm, refined around the best point. This cannot fail
to converge, serves all bootstrap replicates at once, and finds the global minimum up to the grid.

V1 says that a head's sink alignment correlates, over heads, with its recall.
"""

import numpy as np

# The length is sought between these multiples of the smallest and of the largest lag.
_SHORTEST, _LONGEST = 0.1, 100.0
_POINTS, _ROUNDS = 65, 7
_FEWEST_LAGS = 3


def fit_decay(profiles: np.ndarray, lags: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Amplitude, length (in tokens) and mean absolute error of the decay fitted to each profile.

    profiles: [profiles, lags], NaN where a lag was not measured; lags: [lags]. Each result is [profiles], NaN
    where no decay fits: fewer than three lags, or the best length is at an end of the range (flat, growing,
    or gone after one lag).
    """
    present = ~np.isnan(profiles)
    target = np.where(present, profiles, 0.0)
    ends = np.log([_SHORTEST * lags.min(), _LONGEST * lags.max()])
    low, high = (np.full(len(profiles), end) for end in ends)
    for _ in range(_ROUNDS):
        grid = np.linspace(low, high, _POINTS, axis=-1)
        curves = np.exp(-lags / np.exp(grid)[..., None]) * present[:, None]
        projection = np.einsum("pgl,pl->pg", curves, target)
        square = np.einsum("pgl,pgl->pg", curves, curves)
        explained = np.divide(projection**2, square, out=np.zeros_like(square), where=square > 0)
        best = explained.argmax(-1)
        low, middle, high = (
            np.take_along_axis(grid, np.clip(best + step, 0, _POINTS - 1)[:, None], -1)[:, 0] for step in (-1, 0, 1)
        )
    found = (present.sum(-1) >= _FEWEST_LAGS) & (middle > ends[0] + 1e-6) & (middle < ends[1] - 1e-6)
    length = np.where(found, np.exp(middle), np.nan)
    curve = np.exp(-lags / length[:, None]) * present
    amplitude = (curve * target).sum(-1) / (curve**2).sum(-1)
    error = np.abs(amplitude[:, None] * curve - target).sum(-1) / np.maximum(present.sum(-1), 1)
    return amplitude, length, error


def correlation(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Pearson correlation along the last axis over the pairs without NaN, [..., heads] to [...].

    NaN where there are fewer than two pairs, or one side is constant.
    """
    both = ~np.isnan(first) & ~np.isnan(second)
    number = np.maximum(both.sum(-1, keepdims=True), 1)

    def centred(values: np.ndarray) -> np.ndarray:
        values = np.where(both, values, 0.0)
        return np.where(both, values - values.sum(-1, keepdims=True) / number, 0.0)

    first, second = centred(first), centred(second)
    scale = np.sqrt((first**2).sum(-1) * (second**2).sum(-1))
    return np.divide((first * second).sum(-1), scale, out=np.full(scale.shape, np.nan), where=scale > 0)
