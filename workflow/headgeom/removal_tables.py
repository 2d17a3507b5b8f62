"""From losses of pruned models, document by document, to tables with intervals (spec, section 7).

All differences are paired: taken within a document, then averaged over documents and resampled with them, so that what
makes a document easy or hard for every model cancels. Losses of several draws (seeds) are averaged within a document
first; how far the draws differ is told apart, by the smallest and the largest of their means.

Outliers of the single-head scan are the heads whose increase lies, with its whole interval, beyond Tukey's outer fence

    Q3 + 3 (Q3 - Q1)        Q1, Q3: quartiles of the increase over all heads of the model.

Quartiles do not move with the few heads that are looked for, as a mean and a standard deviation would; the interval
keeps out a head that one document alone makes large.
"""

import numpy as np
import pandas as pd

from .statistics import Bootstrap

TOP = 10
RANDOM, UNPRUNED, TAXONOMY = "random", "unpruned", "taxonomy"


def columns(name: str, bootstrap: Bootstrap, values: np.ndarray) -> dict[str, float]:
    """Mean and interval of values [documents] as columns ``name``, ``name``_low and ``name``_high."""
    names = (name, f"{name}_low", f"{name}_high")
    return dict(zip(names, map(float, bootstrap.mean(values)), strict=True))


def by_document(frame: pd.DataFrame, value: str = "loss") -> np.ndarray:
    """``value`` of each document, in one order whatever the frame's, the mean over its draws."""
    return frame.groupby("document", sort=True)[value].mean().to_numpy()


def removal(frame: pd.DataFrame, bootstrap: Bootstrap) -> pd.DataFrame:
    """Loss by score and retention, with its paired differences, of the losses of one model and corpus.

    The baseline is the single-metric score of smallest loss at this retention, among the others of its kind for a
    score that is one itself.
    """
    total = frame[frame["score"] == frame["score"].iloc[0]]
    documents = total["document"].nunique()
    first = {"score": UNPRUNED, "retention": 1.0}
    rows = [first | columns("loss", bootstrap, by_document(total, "unpruned")) | {"documents": documents}]
    for retention in sorted(frame["retention"].unique(), reverse=True):
        group = frame[frame["retention"] == retention]
        losses = {score: by_document(part) for score, part in group.groupby("score", sort=False)}
        for score, part in group.groupby("score", sort=False):
            row = {"score": score, "retention": retention, "heads": part["heads"].iloc[0]}
            row |= columns("loss", bootstrap, losses[score])
            row |= columns("increase", bootstrap, losses[score] - by_document(part, "unpruned"))
            row |= compared(score, losses, bootstrap) | {"documents": documents}
            if score == RANDOM:
                row |= spread(part, part["loss"])
            rows.append(row)
    order = ["score", "retention", "heads", "documents"]
    for name in ("loss", "increase", "from_random", "from_baseline"):
        order += [*(["baseline"] if name == "from_baseline" else []), name, f"{name}_low", f"{name}_high"]
    return pd.DataFrame(rows).reindex(columns=[*order, "seeds_low", "seeds_high"]).astype({"heads": "Int64"})


def compared(score: str, losses: dict[str, np.ndarray], bootstrap: Bootstrap) -> dict:
    """Differences of a score's losses [documents] from those of ``random`` and of the best baseline."""
    row = {}
    if score != RANDOM and RANDOM in losses:
        row |= columns("from_random", bootstrap, losses[score] - losses[RANDOM])
    others = {name: x for name, x in losses.items() if name not in (RANDOM, score) and not name.startswith(TAXONOMY)}
    if others:
        best = min(others, key=lambda name: others[name].mean())
        row |= {"baseline": best} | columns("from_baseline", bootstrap, losses[score] - others[best])
    return row


def spread(part: pd.DataFrame, values: pd.Series) -> dict[str, float]:
    """Smallest and largest mean of a draw."""
    means = values.groupby(part["draw"]).mean()
    return {"seeds_low": means.min(), "seeds_high": means.max()}


def regime_ablation(frame: pd.DataFrame, bootstrap: Bootstrap) -> pd.DataFrame:
    """Increase of the loss without some heads of a regime (treated) and without others of the same layers (control)."""
    keys = ["draw", "document"]
    rows = []
    for regime, part in frame.groupby("regime", sort=False):
        arms = {arm: rows_of.set_index(keys).sort_index() for arm, rows_of in part.groupby("arm")}
        increases = {arm: (arms[arm]["loss"] - arms[arm]["unpruned"]).reset_index(name="loss") for arm in arms}
        difference = arms["treated"]["loss"] - arms["control"]["loss"]
        row = {"regime": regime, "heads": part["heads"].iloc[0], "removed": part["removed"].iloc[0]}
        for arm in ("treated", "control"):
            row |= columns(arm, bootstrap, by_document(increases[arm]))
        difference = difference.reset_index(name="loss")
        row |= columns("difference", bootstrap, by_document(difference)) | spread(difference, difference["loss"])
        row |= {"overlap": part.drop_duplicates("draw")["overlap"].mean(), "draws": part["draw"].nunique()}
        rows.append(row | {"documents": part["document"].nunique()})
    return pd.DataFrame(rows)


def head_scan(frame: pd.DataFrame, regimes: pd.DataFrame, bootstrap: Bootstrap) -> pd.DataFrame:
    """Increase of the loss without each head, ranked; regimes: the table ``heads``."""
    wide = frame.assign(increase=frame["loss"] - frame["unpruned"])
    wide = wide.pivot(index=["layer", "head"], columns="document", values="increase")
    value, low, high = bootstrap.mean(wide.to_numpy().T)
    table = wide.index.to_frame(index=False)
    table["regime"] = regimes.set_index(["layer", "head"])["regime"].loc[wide.index].to_numpy()
    table = table.assign(increase=value, low=low, high=high)
    means = wide.groupby(table["regime"].to_numpy()).transform("mean")
    gap, gap_low, gap_high = bootstrap.mean((wide - means).to_numpy().T)
    table = table.assign(from_regime=gap, from_regime_low=gap_low, from_regime_high=gap_high)
    table["rank"] = table["increase"].rank(method="first", ascending=False).astype(int)
    return table.assign(outlier=low > fence(value), documents=wide.shape[1])


def fence(increases: np.ndarray) -> float:
    """Tukey's outer fence above of increases [heads]."""
    first, third = np.quantile(increases, (0.25, 0.75))
    return float(third + 3 * (third - first))


def critical_heads(scan: pd.DataFrame) -> pd.DataFrame:
    """The worst heads of a scan, against the median head and the mean of their regimes."""
    top = scan.sort_values("rank").head(TOP)
    median = scan["increase"].median()
    means = scan.groupby("regime")["increase"].mean()
    gaps = ["from_regime", "from_regime_low", "from_regime_high"]
    table = top[["rank", "layer", "head", "regime", "increase", "low", "high", *gaps]].assign(
        perplexity_factor=np.exp(top["increase"]),
        median=median,
        gap=top["increase"] - median,
        regime_mean=top["regime"].map(means),
        outlier=top["outlier"],
    )
    return table.reset_index(drop=True)
