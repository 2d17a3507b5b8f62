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
# # Where the heads' outputs point
#
# A head's output z is the sum of its contributions, before the output projection. Its cosine with the value
# vector of the sink and with that of the current token says whose direction it takes.
#
# *How to read it.* A dot is a head, averaged over documents, in the row of its regime. Diamonds are the means over a
# regime's heads with their intervals over documents. A regime without heads has an empty row.
#
# *Claim.* C7: Mixer heads align with the sink (left), Retriever heads with the current token (right).

# %% tags=["parameters"]
run = "laptop"
tables = "results/laptop/tables"
output = "figures/laptop/alignment"

# %%
import numpy as np
import pandas as pd

from headgeom import plotting

plotting.use()
models = plotting.titles(pd.read_csv(f"{tables}/models.csv"), "model")
corpora = plotting.titles(pd.read_csv(f"{tables}/corpora.csv"), "corpus")
heads = pd.read_csv(f"{tables}/heads.csv")
means = pd.read_csv(f"{tables}/alignment.csv")
means

# %%
targets = {"sink": "cosine of output and sink", "current": "cosine of output and current token"}


def draw(axes, rows, mean, target):
    """A row of dots a regime, spread vertically at random to tell them apart, and the mean with its interval."""
    spread = np.random.default_rng(0)
    for at, (regime, style) in enumerate(plotting.REGIMES.items()):
        values = plotting.subset(rows, regime=regime)[f"output_{target}_cosine"]
        look = {"color": style.colour, "marker": style.marker, "markersize": 3, "alpha": 0.5, "markeredgewidth": 0}
        axes.plot(values, at + spread.uniform(-0.3, 0.3, len(values)), linestyle="", **look)
        for _, row in plotting.subset(mean, regime=regime, target=target).iterrows():
            plotting.interval(axes, row, at, across=True, markerfacecolor="white")
    axes.axvline(0, color=plotting.BLACK, linewidth=0.8, linestyle=":", zorder=1)


# %%
pairs = plotting.pairs(heads, models, corpora)
figure, grid = plotting.panels(pairs.values(), ["", ""], sharex=True, sharey=True)
for line, (model, corpus) in zip(grid, pairs, strict=True):
    for axes, target in zip(line, targets, strict=True):
        chosen = (plotting.subset(table, model=model, corpus=corpus) for table in (heads, means))
        draw(axes, *chosen, target)
for axes, label in zip(grid[-1], targets.values(), strict=True):
    axes.set_xlabel(label)
grid[0, 0].set_yticks(range(len(plotting.REGIMES)), [style.label for style in plotting.REGIMES.values()])
grid[0, 0].set_ylim(len(plotting.REGIMES) - 0.5, -0.5)
mean = plotting.Style("mean over heads, with its interval", marker="D")
plotting.legend(figure, [plotting.handle(mean, markerfacecolor="white")])
plotting.save(figure, output)
