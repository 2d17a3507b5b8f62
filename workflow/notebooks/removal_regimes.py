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
# # What each regime's heads are worth
#
# The same number of heads is removed from one regime (*treated*) and at random from all heads (*control*), as many in
# each layer, so that depth explains nothing. Several draws of each.
#
# *How to read it.* Left: increase of the loss over the unpruned model, means over the draws. Right: treated minus
# control on the same documents and draws; the thick bar is the bootstrap interval over documents, the thin line spans
# the draws. Above zero the regime's heads matter more than others of their layers. The labels say how many heads
# are removed and which share of them the control removes too: much overlap pulls the difference to zero.
#
# *Claims.* No claim by itself: it asks of C8 whether the regime of a head says more than its layer.

# %% tags=["parameters"]
run = "laptop"
tables = "results/laptop/tables"
output = "figures/laptop/removal_regimes"

# %%
import pandas as pd

from headgeom import plotting

plotting.use()
models = plotting.titles(pd.read_csv(f"{tables}/models.csv"), "model")
corpora = plotting.titles(pd.read_csv(f"{tables}/corpora.csv"), "corpus")
data = pd.read_csv(f"{tables}/regime_ablation.csv")
data

# %%
ARMS = {"treated": 0.15, "control": -0.15}


def limits(row, name):
    """The row's value of ``name`` with its interval, in the columns that plotting reads."""
    return pd.Series({"mean": row[name], "low": row[f"{name}_low"], "high": row[f"{name}_high"]})


def draw(left, right, rows):
    """Treated and control of each regime, and their difference."""
    labels = {}
    right.axvline(0, color=plotting.BLACK, linewidth=0.6)
    for at, (regime, style) in enumerate(plotting.REGIMES.items()):
        for _, row in plotting.subset(rows, regime=regime).iterrows():
            for arm, offset in ARMS.items():
                face = style.colour if arm == "treated" else "white"
                look = {"fmt": style.marker, "color": style.colour, "markersize": 5, "markerfacecolor": face}
                plotting.interval(left, limits(row, arm), at - offset, across=True, **look)
            right.plot(row[["seeds_low", "seeds_high"]], [at, at], color=style.colour, linewidth=0.8)
            look = {"fmt": style.marker, "color": style.colour, "markersize": 5, "elinewidth": 3, "capsize": 0}
            plotting.interval(right, limits(row, "difference"), at, across=True, **look)
            labels[at] = f"{style.label}\n{row['removed']} of {row['heads']}, {row['overlap']:.0%} shared"
    left.set_yticks(list(labels), list(labels.values()))
    right.set_yticks(list(labels), [""] * len(labels))
    for axes in (left, right):
        axes.set_ylim(len(plotting.REGIMES) - 0.5, -0.5)


# %%
pairs = plotting.pairs(data, models, corpora)
figure, grid = plotting.panels(pairs.values(), ["increase of the loss (nats)", "treated minus control (nats)"])
for line, (model, corpus) in zip(grid, pairs, strict=True):
    draw(*line, plotting.subset(data, model=model, corpus=corpus))
arms = [
    plotting.handle(plotting.Style("heads of the regime (treated)", plotting.GREY, "o", "")),
    plotting.handle(plotting.Style("as many of each layer (control)", plotting.GREY, "o", ""), markerfacecolor="white"),
]
bars = [
    plotting.handle(plotting.Style("interval over documents", plotting.GREY), linewidth=3),
    plotting.handle(plotting.Style("span of the draws", plotting.GREY), linewidth=0.8),
]
plotting.legend(figure, arms, bars)
plotting.save(figure, output)
