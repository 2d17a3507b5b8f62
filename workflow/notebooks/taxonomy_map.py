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
# # Retriever, Mixer and Reset heads
#
# In an attention operation the source with the largest contribution wins: the current token (a vote for *Retriever*),
# the sink (*Mixer*) or any other token (*Reset*). A head's regime is the plurality of its votes.
#
# *How to read it.* Each cell of a map is a head; colour and sign give its regime. At the right, the share of
# a model's heads in each regime, with intervals over documents; the shaded range is the paper's for Retrievers.
#
# *Claims.* C5: Retrievers are a minority of heads in every model (circles against the shaded range).
# C6: which regime dominates is a property of the architecture, stable across corpora (maps of a row alike).

# %% tags=["parameters"]
run = "laptop"
tables = "results/laptop/tables"
output = "figures/laptop/taxonomy_map"

# %%
import numpy as np
import pandas as pd
from matplotlib.colors import ListedColormap

from headgeom import plotting

plotting.use()
models = plotting.titles(pd.read_csv(f"{tables}/models.csv"), "model")
corpora = plotting.titles(pd.read_csv(f"{tables}/corpora.csv"), "corpus")
heads = pd.read_csv(f"{tables}/heads.csv")
shares = pd.read_csv(f"{tables}/taxonomy.csv")
shares

# %%
colours = ListedColormap([style.colour for style in plotting.REGIMES.values()])


def draw_map(axes, rows):
    """Coloured cells, one a head, and in each the regime's sign."""
    layers, count = int(rows["layer"].max()) + 1, int(rows["head"].max()) + 1
    cells = np.full((count, layers), np.nan)
    size = 0.35 * min(130 / layers, 70 / count)
    for code, (regime, style) in enumerate(plotting.REGIMES.items()):
        chosen = plotting.subset(rows, regime=regime)
        cells[chosen["head"], chosen["layer"]] = code
        sign = {"marker": style.marker, "markersize": size, "markeredgewidth": 0, "alpha": 0.6}
        axes.plot(chosen["layer"], chosen["head"], color=plotting.BLACK, linestyle="", **sign)
    axes.imshow(cells, cmap=colours, vmin=-0.5, vmax=2.5, aspect="auto", interpolation="none")
    axes.grid(False)
    plotting.index_axis(axes.xaxis)
    plotting.index_axis(axes.yaxis)


def draw_shares(axes, rows):
    """A point with its interval for each regime and corpus; points of the second corpus are open."""
    low, high = (100 * share for share in plotting.PAPER["retriever_share"])
    axes.fill_betweenx([-0.45, 0.45], low, high, **plotting.SHADE)
    for at, (regime, style) in enumerate(plotting.REGIMES.items()):
        for number, corpus in enumerate(corpora):
            place = at + 0.2 * (2 * number - len(corpora) + 1)
            face = "white" if number else style.colour
            for _, row in plotting.subset(rows, regime=regime, corpus=corpus).iterrows():
                percent = 100 * row[["share", "low", "high"]]
                look = {"fmt": style.marker, "color": style.colour, "markersize": 5, "markerfacecolor": face}
                plotting.interval(axes, percent, place, y="share", across=True, **look)
    axes.set_yticks(range(len(plotting.REGIMES)), [style.label for style in plotting.REGIMES.values()])


# %%
present = [model for model in models if model in set(heads["model"])]
columns = [*corpora.values(), "share of heads (%)"]
figure, grid = plotting.panels([models[model] for model in present], columns)
for line, model in zip(grid, present, strict=True):
    for axes, corpus in zip(line, corpora, strict=False):
        rows = plotting.subset(heads, model=model, corpus=corpus)
        if rows.empty:
            axes.set_visible(False)
        else:
            draw_map(axes, rows)
    line[0].set_ylabel("head")
    draw_shares(line[-1], plotting.subset(shares, model=model))
    line[-1].set_ylim(len(plotting.REGIMES) - 0.5, -0.5)
for axes in grid[1:, -1]:
    axes.sharex(grid[0, -1])
grid[0, -1].set_xlim(-2, None)
for axes in grid[-1, :-1]:
    axes.set_xlabel("layer")
regimes = [plotting.handle(style, linestyle="", markersize=6) for style in plotting.REGIMES.values()]
points = [plotting.Style(title, plotting.GREY, "o", "") for title in corpora.values()]
faces = [plotting.GREY] + ["white"] * len(points)
sources = [plotting.handle(point, markerfacecolor=face) for point, face in zip(points, faces, strict=False)]
plotting.legend(figure, regimes, [*sources, plotting.shade("the paper's range for Retrievers")])
plotting.save(figure, output)
