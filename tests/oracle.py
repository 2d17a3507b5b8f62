"""Slow float64 references, written line by line from the definitions."""

import numpy as np


def order(scores):
    """Indices by falling score; ties go to the lower index."""
    return sorted(range(len(scores)), key=lambda j: (-scores[j], j))


def distances(y, s, distance="euclidean"):
    """D_j of every source."""
    if distance == "euclidean":
        return [float(np.sqrt(((row - s) ** 2).sum())) for row in y]
    result = []
    for row in y:
        norm = np.linalg.norm(row) * np.linalg.norm(s)
        result.append(1 - float(row @ s) / norm if norm > 0 else 1.0)
    return result


def counts(y, selected, distance="euclidean"):
    """FP, TP, INV and the margin of the set ``selected`` among all rows of ``y``."""
    y = np.asarray(y, dtype=np.float64)
    rest = [j for j in range(len(y)) if j not in set(selected)]
    D = distances(y, y[list(selected)].sum(0), distance)
    rho_max = max(D[i] for i in selected)
    rho_min = min(D[j] for j in rest)
    fp = sum(D[j] <= rho_max for j in rest)
    tp = sum(D[i] < rho_min for i in selected)
    inv = sum(D[j] <= D[i] for i in selected for j in rest)
    return fp, tp, inv, rho_min - rho_max


def precision_recall_f(fp, tp, n):
    """P, R and F."""
    precision, recall = n / (n + fp), tp / n
    return precision, recall, 2 * precision * recall / (precision + recall)


def winner(weights, norms, visible):
    """Index of the winning source; ties go to the lower index."""
    best = max(weights[j] * norms[j] for j in range(len(weights)) if visible[j])
    return next(j for j in range(len(weights)) if visible[j] and weights[j] * norms[j] == best)


def interval_certificate(weights, selected, nu, nu0, c, s):
    """Certified FP and TP of the sink-aware interval certificate, line by line; source 0 is the sink.

    ``weights`` maps the pool's sources to their weights; nu, c, s are (low, high); an empty interval is None.
    """
    c, s = c or (0.0, 0.0), s or (0.0, 0.0)
    low_c = c[0] * (nu[0] ** 2 if c[0] >= 0 else nu[1] ** 2)
    high_c = c[1] * (nu[1] ** 2 if c[1] >= 0 else nu[0] ** 2)
    low_s = nu0 * s[0] * (nu[0] if s[0] >= 0 else nu[1])
    high_s = nu0 * s[1] * (nu[1] if s[1] >= 0 else nu[0])
    A = sum(weights[k] for k in selected if k != 0)
    e = 0 in selected
    a0 = weights.get(0, 0.0)
    L, U = {}, {}
    for j, a in weights.items():
        if j in selected and j >= 1:
            L[j] = a * (a * nu[0] ** 2 + 2 * (A - a) * low_c + 2 * e * a0 * low_s)
        elif j in selected:
            L[0] = a0 * (a0 * nu0**2 + 2 * A * low_s)
        elif j >= 1:
            U[j] = a * (2 * A * high_c + 2 * e * a0 * high_s - a * nu[0] ** 2)
        else:
            U[0] = a0 * (2 * A * high_s - a0 * nu0**2)
    return sum(u >= min(L.values()) for u in U.values()), sum(x > max(U.values()) for x in L.values())
