"""How much the alternative to each decision moves the result (spec: what is marked "decision").

Rows of (decision, model, corpus, size, chosen, alternative), from a run's tables; paper/decisions.yaml says in words
what they are. Sets are the top N by attention at the middle N >= 2, in the Euclidean distance, unless the decision says
otherwise.
"""

import pandas as pd

COLUMNS = ["decision", "model", "corpus", "size", "chosen", "alternative"]
_KEY = ["model", "corpus"]


def middle(sizes: pd.Series) -> int:
    """The middle of the sizes N >= 2, or the largest where there is none."""
    found = sorted({int(size) for size in sizes})
    above = [size for size in found if size >= 2] or found[-1:]
    return above[(len(above) - 1) // 2]


def rows(separability: pd.DataFrame, taxonomy: pd.DataFrame, contrasts: pd.DataFrame) -> pd.DataFrame:
    """Of the tables of these names; a decision whose alternative was not measured has no rows."""
    size = middle(separability["size"])
    f = separability[(separability["metric"] == "f") & (separability["size"] == size)].set_index(_KEY)
    retriever = taxonomy[taxonomy["regime"] == "retriever"].set_index(_KEY)

    competing = contrasts[(contrasts["quantity"] == "competing") & (contrasts["size"] == size)].set_index(_KEY)["value"]

    def mean(distance: str, ranking: str, pool: str = "all") -> pd.Series:
        kept = (f["distance"] == distance) & (f["ranking"] == ranking) & (f["pool"] == pool)
        return f.loc[kept, "mean"]

    pairs = {
        "pool": (size, mean("euclidean", "attention", "no_sink"), competing.dropna()),
        "rule": (None, retriever["share"], retriever["alternative_share"]),
        "majority": (None, retriever["share"], retriever["majority_share"]),
        "distance": (size, mean("euclidean", "attention"), mean("cosine", "attention")),
        "ranking": (size, mean("euclidean", "attention"), mean("euclidean", "contribution")),
    }
    parts = []
    for decision, (at, chosen, alternative) in pairs.items():
        both = pd.concat({"chosen": chosen, "alternative": alternative}, axis=1, join="inner").reset_index()
        parts.append(both.assign(decision=decision, size=at)[COLUMNS])
    return pd.concat([part for part in parts if len(part)], ignore_index=True).astype({"size": "Int64"})
