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
# # How separable the top N tokens are
#
# A head's top N tokens are *separable* where a ball around the sum of their contributions holds them and no
# other token. **Precision** falls when other tokens lie in the ball, **recall** when selected tokens lie
# farther out than another token; **F** is their harmonic mean. Each row is a model on a corpus.
#
# *How to read it.* Colour and marker say what ranks the tokens: attention weights, contribution norms, or chance.
# Dashes and open markers: the sink is taken out of the competition. Bands are bootstrap intervals over documents.
# N = 1 is separable by construction, so nothing follows from the leftmost point.
#
# *Claim.* C1: selected sets are more separable than random sets of the same size, most at small and
# intermediate N. The gap between the coloured lines and the grey ones is the evidence.

# %% tags=["parameters"]
run = "laptop"
tables = "results/laptop/tables"
output = "figures/laptop/separability"

# %%
import pandas as pd

from headgeom import plotting

plotting.use()
models = plotting.titles(pd.read_csv(f"{tables}/models.csv"), "model")
corpora = plotting.titles(pd.read_csv(f"{tables}/corpora.csv"), "corpus")
data = pd.read_csv(f"{tables}/separability.csv")
data.groupby(["model", "corpus", "distance", "pool", "ranking"]).size().rename("rows").to_frame()

# %% [markdown]
# Precision, recall and F are shown in the paper's distance, the Euclidean, and F also in any other that the run has.

# %%
first, *others = sorted(data["distance"].unique(), key="euclidean".__ne__)
keys = [(first, "precision"), (first, "recall"), (first, "f"), *((distance, "f") for distance in others)]
names = {"precision": "precision", "recall": "recall", "f": "F"}
columns = [names[metric] + ("" if distance == "euclidean" else f" ({distance})") for distance, metric in keys]


def draw(axes, rows):
    """Lines of all rankings (colour, marker) with and without the sink (dashes)."""
    for ranking, look in reversed(plotting.RANKINGS.items()):
        for pool, style in plotting.POOLS.items():
            face = look.colour if pool == "all" else "white"
            part = plotting.subset(rows, ranking=ranking, pool=pool)
            plotting.band(axes, part, "size", look, linestyle=style.dashes, markerfacecolor=face)


# %%
pairs = plotting.pairs(data, models, corpora)
figure, grid = plotting.panels(pairs.values(), columns, sharex=True, sharey=True)
for line, (model, corpus) in zip(grid, pairs, strict=True):
    for axes, (distance, metric) in zip(line, keys, strict=True):
        draw(axes, plotting.subset(data, model=model, corpus=corpus, distance=distance, metric=metric))
        plotting.log2_axis(axes, data["size"])
for axes in grid[-1]:
    axes.set_xlabel("N")
grid[0, 0].set_ylim(-0.03, 1.03)
looks = [plotting.handle(look) for look in plotting.RANKINGS.values()]
plotting.legend(figure, looks + [plotting.handle(style) for style in plotting.POOLS.values()])
plotting.save(figure, output)
