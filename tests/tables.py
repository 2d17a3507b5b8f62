"""Synthetic tables with the columns of docs/results.md: plausible in shape, meaningless in value."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd

MODELS = {"small-llama": ("Small-Llama", 30, 9), "tiny-gemma": ("Tiny-Gemma", 18, 4)}
CORPORA = {"wikipedia": "Wikipedia (stand-in for WikiText-103)", "news": "Lee newswire (stand-in for OpenWebText)"}
SIZES = (1, 2, 4, 8, 16, 32, 64, 128)
REGIMES = ("retriever", "mixer", "reset")
CERTIFICATES = {
    "measured": 1, "inversion": 0.7, "interval": 0.05, "per_token": 0.1, "pairs": 0.2, "selected": 0.5,
    "selected_sink": 0.55, "constant_norm": 1.1,
}  # fmt: skip
BASELINES = ("magnitude", "magnitude_qkvo", "entropy_high", "entropy_low", "separability", "gradient")
SCORES = ("random", "taxonomy", *(f"taxonomy_drop_{regime}" for regime in REGIMES), *BASELINES)
SINK = ("norm_ratio", "norm_variation", "sink_alignment", "sink_negative_share", "sink_mass", "coherence_mean")


def bounded(value: float, spread: float = 0.02, name: str = "mean") -> dict[str, float]:
    return {name: value, "low": value - spread, "high": value + spread}


def heads_of(layers: int, heads: int, random: np.random.Generator) -> pd.DataFrame:
    layer, head = (grid.ravel() for grid in np.meshgrid(np.arange(layers), np.arange(heads), indexing="ij"))
    votes = random.dirichlet([0.4, 1.2, 0.8], len(layer))
    winner = votes.argmax(1)
    noise = random.normal(0, 0.1, (4, len(layer)))
    frame = pd.DataFrame({"layer": layer, "head": head} | dict(zip(REGIMES, votes.T, strict=True)))
    frame["regime"] = np.array(REGIMES)[winner]
    frame["majority"] = votes.max(1) > 0.5
    frame["alternative"] = frame["regime"]
    frame["output_sink_cosine"] = np.clip(0.7 * votes[:, 1] + noise[0], -1, 1)
    frame["output_current_cosine"] = np.clip(0.8 * votes[:, 0] + noise[1], -1, 1)
    frame["norm_ratio"] = np.exp(1.5 + 4 * noise[2])
    frame["norm_variation"] = 0.2
    frame["sink_alignment"] = np.clip(-0.2 + 2 * noise[3], -1, 1)
    frame["sink_negative_share"] = (frame["sink_alignment"] < 0).astype(float)
    frame["sink_mass"] = votes[:, 1]
    frame["coherence_mean"] = 0.1
    return frame


def separability(sizes: tuple[int, ...], distances: tuple[str, ...]) -> Iterator[dict]:
    level = {"attention": 0.9, "contribution": 0.95, "random": 0.5}
    for distance in distances:
        for pool in ("all", "no_sink"):
            for ranking, start in level.items():
                for n in sizes:
                    for metric, factor in (("precision", 0.9), ("recall", 1.0), ("f", 0.95)):
                        mean = 1 if n == 1 else factor * (start * n ** (-0.2 if pool == "all" else -0.1))
                        keys = {"distance": distance, "pool": pool, "ranking": ranking, "size": n, "metric": metric}
                        yield keys | bounded(mean) | {"documents": 32}


def sink_effect(sizes: tuple[int, ...], distances: tuple[str, ...]) -> Iterator[dict]:
    for distance in distances:
        for ranking in ("attention", "contribution"):
            for n in sizes:
                for operations, gain in (("all", 0.5), ("sink_selected", 1.1)):
                    ratio = 1 + gain * (ranking == "attention") * (n > 1) / np.log2(n + 1)
                    keys = {"distance": distance, "ranking": ranking, "size": n, "operations": operations}
                    yield keys | bounded(ratio, 0.05, "ratio") | {"share": 1 if operations == "all" else 0.7}


def depth(heads: pd.DataFrame, sizes: tuple[int, ...]) -> Iterator[dict]:
    layers = heads["layer"].max() + 1
    for layer, group in heads.groupby("layer"):
        place = {"layer": layer, "relative_depth": layer / max(1, layers - 1)}
        for quantity in ("sink_mass", *REGIMES):
            part = group[quantity] if quantity == "sink_mass" else group["regime"] == quantity
            yield place | {"quantity": quantity, "size": None} | bounded(part.mean(), 0.03)
        for quantity, gain in (("f_all", 0), ("f_no_sink", 0.1)):
            for n in sizes:
                mean = gain + 0.85 * n**-0.15 * (0.8 + 0.2 * place["relative_depth"])
                yield place | {"quantity": quantity, "size": n} | bounded(mean)


def taxonomy(heads: pd.DataFrame) -> Iterator[dict]:
    for regime in REGIMES:
        chosen = heads["regime"] == regime
        share = chosen.mean()
        more = {"majority_share": (chosen & heads["majority"]).mean(), "alternative_share": share}
        yield {
            "regime": regime,
            "heads": chosen.sum(),
            "share": share,
            "low": share - 0.03,
            "high": share + 0.03,
        } | more


def alignment(heads: pd.DataFrame) -> Iterator[dict]:
    for regime in REGIMES:
        chosen = heads[heads["regime"] == regime]
        for target in ("sink", "current"):
            mean = chosen[f"output_{target}_cosine"].mean()
            yield {"regime": regime, "target": target} | bounded(mean) | {"heads": len(chosen)}


def profile() -> Iterator[dict]:
    edges = [0, 1, *range(16, 257, 16)]
    for start, end in pairwise(edges):
        mean = 0.5 if start == 0 else 0.001 + 0.02 * np.exp((end - 257) / 10)
        yield {"axis": "position", "start": start, "end": end} | bounded(mean, mean / 10)
    edges = [0, 1, 2, 4, 8, 16, 32, 64, 128, 256]
    for start, end in pairwise(edges):
        yield {"axis": "lag", "start": start, "end": end} | bounded(0.1 / end, 0.01 / end)


def first_version(sizes: tuple[int, ...]) -> Iterator[dict]:
    values = {"decay_amplitude": 0.4, "decay_length": 12.0, "decay_mae": 0.01, "similarity_minimum": -0.02}
    for quantity, value in values.items():
        yield {"quantity": quantity, "size": None} | bounded(value, abs(value) / 10, "value")
    for n in sizes:
        value = np.nan if n == 1 else -0.5 + 0.05 * np.log2(n)
        yield {"quantity": "recall_correlation", "size": n} | bounded(value, 0.1, "value")


def similarity() -> Iterator[dict]:
    for lag in 2 ** np.arange(8):
        yield {"lag": lag} | bounded(0.4 * np.exp(-lag / 12) + 0.01 * np.cos(lag), 0.015)


def bounds(sizes: tuple[int, ...]) -> Iterator[dict]:
    for level, factor in CERTIFICATES.items():
        for pool in ("all", "no_sink"):
            for ranking in ("attention", "contribution"):
                for n in sizes:
                    keys = {"certificate": level, "ranking": ranking, "pool": pool, "size": n}
                    mean = 1 if n == 1 else factor * 0.9 * n**-0.2
                    documents = 4 if level == "pairs" else 32
                    for metric in ("precision", "recall", "f"):
                        yield keys | {"metric": metric} | bounded(mean) | {"documents": documents}
                    if level == "measured":
                        yield keys | {"metric": "margin_positive"} | bounded(mean / 4) | {"documents": documents}


def tightness(layers: int, sizes: tuple[int, ...]) -> Iterator[dict]:
    groups = [("all", "all"), *(("layer", layer) for layer in range(layers)), *(("regime", name) for name in REGIMES)]
    groups += [("sink", "selected"), ("sink", "not selected")]
    for level, factor in list(CERTIFICATES.items())[1:]:
        for ranking in ("attention", "contribution"):
            for pool in ("all", "no_sink"):
                for n in sizes:
                    for place, (by, group) in enumerate(groups):
                        ratio = np.nan if (group, n) == ("selected", 1) else factor * (0.8 + 0.2 * np.cos(place))
                        keys = {"certificate": level, "ranking": ranking, "pool": pool, "size": n}
                        yield keys | {"by": by, "group": group} | bounded(ratio, 0.02, "ratio")


def around(name: str, value: float, spread: float = 0.05) -> dict[str, float]:
    return {name: value, f"{name}_low": value - spread, f"{name}_high": value + spread}


def removal(heads: int) -> Iterator[dict]:
    yield {"score": "unpruned", "retention": 1.0, "documents": 8} | around("loss", 3.3)
    for retention in (0.95, 0.9, 0.8, 0.5):
        for number, score in enumerate(SCORES):
            increase = (1 - retention) ** (0.5 + number / 8) * 8
            row = {"score": score, "retention": retention, "heads": round(retention * heads), "documents": 8}
            row |= around("loss", 3.3 + increase) | around("increase", increase)
            if score == "random":
                row |= {"seeds_low": 3.2 + increase, "seeds_high": 3.5 + increase}
            else:
                row |= around("from_random", -0.1 * number)
            yield row | {"baseline": "gradient"} | around("from_baseline", 0.1 * number)


def regime_ablation(heads: pd.DataFrame) -> Iterator[dict]:
    for number, regime in enumerate(REGIMES):
        members = int((heads["regime"] == regime).sum())
        if members:
            row = {"regime": regime, "heads": members, "removed": min(3, members), "overlap": 0.3, "draws": 5}
            row |= around("treated", 0.5 - 0.2 * number) | around("control", 0.3) | around("difference", 0.2)
            yield row | {"seeds_low": -0.1, "seeds_high": 0.6, "documents": 8}


def head_scan(heads: pd.DataFrame, random: np.random.Generator) -> pd.DataFrame:
    frame = heads[["layer", "head", "regime"]].copy()
    frame["increase"] = 0.01 * random.standard_normal(len(frame)) + 0.005 * random.pareto(1, len(frame))
    frame = frame.assign(low=frame["increase"] - 0.005, high=frame["increase"] + 0.005, documents=4)
    frame["rank"] = frame["increase"].rank(method="first", ascending=False).astype(int)
    gaps = {f"from_regime{end}": frame["increase"] for end in ("", "_low", "_high")}
    return frame.assign(outlier=frame["low"] > 0.05, **gaps)


def critical_heads(scan: pd.DataFrame) -> pd.DataFrame:
    top = scan.sort_values("rank").head(10).drop(columns="documents")
    more = {"perplexity_factor": np.exp(top["increase"]), "median": 0.0, "gap": top["increase"], "regime_mean": 0.01}
    return top.assign(**more)


def tables_of(shape: tuple[int, int], sizes: tuple[int, ...], distances: tuple[str, ...], seed: int) -> dict:
    heads = heads_of(*shape, np.random.default_rng(seed))
    scan = head_scan(heads, np.random.default_rng(seed))
    spread = {"norm_ratio": 0.3}
    means = [{"quantity": q} | bounded(heads[q].mean(), spread.get(q, 0.01)) for q in SINK]
    return {
        "separability": separability(sizes, distances),
        "sink_effect": sink_effect(sizes, distances),
        "sink_geometry": means,
        "sink_heads": heads[["layer", "head", *SINK]],
        "heads": heads.drop(columns=list(SINK)),
        "depth": depth(heads, sizes),
        "taxonomy": taxonomy(heads),
        "alignment": alignment(heads),
        "similarity": similarity(),
        "attention_profile": profile(),
        "first_version": first_version(sizes),
        "bounds": bounds(sizes),
        "tightness": tightness(shape[0], sizes),
        "head_scores": heads[["layer", "head"]].assign(score="magnitude", value=1.0),
        "removal": removal(len(heads)),
        "regime_ablation": regime_ablation(heads),
        "head_scan": scan,
        "critical_heads": critical_heads(scan),
    }


def write_tables(
    folder: Path,
    models: dict = MODELS,
    corpora: dict = CORPORA,
    sizes: tuple = SIZES,
    distances: tuple = ("euclidean",),
) -> None:
    """Write all tables that the notebooks read; ``models`` maps a name to (title, layers, heads)."""
    collected: dict[str, list[pd.DataFrame]] = {}
    for i, (model, (_, *shape)) in enumerate(models.items()):
        for j, corpus in enumerate(corpora):
            for name, rows in tables_of(tuple(shape), sizes, distances, seed=10 * i + j).items():
                frame = pd.DataFrame(rows)
                frame.insert(0, "model", model)
                frame.insert(1, "corpus", corpus)
                collected.setdefault(name, []).append(frame)
    folder.mkdir(parents=True, exist_ok=True)
    written = {name: pd.concat(frames) for name, frames in collected.items()}
    written["models"] = pd.DataFrame(
        [{"model": m, "title": t, "layers": n, "heads": h} for m, (t, n, h) in models.items()]
    )
    written["corpora"] = pd.DataFrame(
        [{"corpus": c, "title": t, "model": m, "length": 256} for m in models for c, t in corpora.items()]
    )
    for name, frame in written.items():
        frame.to_csv(folder / f"{name}.csv", index=False)
