# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Assumptions of the paper's first version
#
# The first version of the paper modelled values and attention by token distance. The three assumptions can be checked.
#
# *How to read it.* Left: mean cosine of two value vectors by their distance in tokens, with its exponential fit
# (dashed; length in tokens and mean absolute error above). Middle: mean attention weight of a source by its position
# in the window. Right: correlation over heads of the sink's alignment with recall, at each N. Bands are bootstrap
# intervals over documents.
#
# *Claims.* V2: similarity decays exponentially; does it turn negative? V3: attention has an early plateau,
# oscillates, and favours recent tokens. V1: sink similarity correlates with recall.

# %% tags=["parameters"]
run = "laptop"
tables = "results/laptop/tables"
output = "figures/laptop/first_version"

# %%
import numpy as np
import pandas as pd

from headgeom import plotting

plotting.use()
models = plotting.titles(pd.read_csv(f"{tables}/models.csv"), "model")
corpora = plotting.titles(pd.read_csv(f"{tables}/corpora.csv"), "corpus")
similarity = pd.read_csv(f"{tables}/similarity.csv")
profile = pd.read_csv(f"{tables}/attention_profile.csv")
numbers = pd.read_csv(f"{tables}/first_version.csv")
heads = pd.read_csv(f"{tables}/sink_heads.csv")
recalls = [column for column in heads.columns if column.startswith("recall_")]
numbers


# %%
def draw_similarity(axes, rows, fit):
    """Similarity by distance, and amplitude * exp(-distance / length) of the table's fit."""
    plotting.band(axes, rows, "lag", plotting.Style("measured", plotting.BLUE, "o"))
    fit = fit.drop_duplicates("quantity").set_index("quantity")["value"]
    if {"decay_amplitude", "decay_length", "decay_mae"} <= set(fit.dropna().index):
        lags = np.geomspace(rows["lag"].min(), rows["lag"].max(), 100)
        curve = fit["decay_amplitude"] * np.exp(-lags / fit["decay_length"])
        axes.plot(lags, curve, color=plotting.VERMILLION, linestyle="--", zorder=3)
        text = f"length {fit['decay_length']:.3g}, error {fit['decay_mae']:.2g}"
        axes.set_title(text, fontsize=7, loc="right")
    axes.axhline(0, color=plotting.BLACK, linewidth=0.8, linestyle=":", zorder=1)
    plotting.log2_axis(axes, rows["lag"])


def draw_profile(axes, rows):
    """Steps: the mean weight of a source in each bin of positions."""
    rows = plotting.subset(rows, axis="position").sort_values("start")
    edges = np.append(rows["start"], rows["end"].iloc[-1:])
    axes.stairs(rows["mean"], edges, color=plotting.BLUE, baseline=None)
    low, high = (np.append(rows[name], rows[name].iloc[-1:]) for name in ("low", "high"))
    axes.fill_between(edges, low, high, step="post", color=plotting.BLUE, alpha=0.2, linewidth=0)
    plotting.log_y_axis(axes, steps=[1])


def draw_correlation(axes, rows):
    """The correlation at each size with its interval."""
    rows = plotting.subset(rows, quantity="recall_correlation")
    plotting.band(axes, rows, "size", plotting.Style("correlation", plotting.BLUE, "o"), y="value")
    axes.axhline(0, color=plotting.BLACK, linewidth=0.8, linestyle=":", zorder=1)
    axes.set_ylim(-1.05, 1.05)
    plotting.log2_axis(axes, rows["size"])


def draw_heads(axes, rows, quantity):
    """A dot a head: recall against sink alignment."""
    axes.plot(rows["sink_alignment"], rows[quantity], ".", color=plotting.BLUE, alpha=0.5, markeredgewidth=0)
    axes.set_xlim(-1.05, 1.05)


# %% [markdown]
# Where the tables hold the heads' recall, a fourth column shows it against sink alignment, a dot a head.

# %%
pairs = plotting.pairs(similarity, models, corpora)
columns = ["similarity of values\n", "attention by position\n", "sink alignment and recall:\ncorrelation over heads"]
columns += [f"recall at N = {name.removeprefix('recall_')}\n" for name in recalls[len(recalls) // 2 :][:1]]
figure, grid = plotting.panels(pairs.values(), columns, sharex="col")
for line, (model, corpus) in zip(grid, pairs, strict=True):
    rows = [plotting.subset(table, model=model, corpus=corpus) for table in (similarity, profile, numbers, heads)]
    draw_similarity(line[0], rows[0], rows[2])
    draw_profile(line[1], rows[1])
    draw_correlation(line[2], rows[2])
    for axes in line[3:]:
        draw_heads(axes, rows[3], recalls[len(recalls) // 2])
labels = ["distance in tokens", "position", "N", "sink alignment"]
for axes, label in zip(grid[-1], labels, strict=False):
    axes.set_xlabel(label)
fit = plotting.Style("exponential fit", plotting.VERMILLION, dashes="--")
plotting.legend(figure, [plotting.handle(plotting.Style("measured", plotting.BLUE, "o")), plotting.handle(fit)])
plotting.save(figure, output)
