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
# # Separability, sink and regimes by depth
#
# Depth runs from the first layer (0) to the last (1), so that models of different depth compare.
#
# *How to read it.* Left: F of the sets ranked by attention, at a few sizes N, with the sink (solid) and without it
# (dashed). Middle: the attention that the sink receives. Right: the share of a layer's heads in each regime. Bands
# are bootstrap intervals over documents.
#
# *Claims.* No claim by itself: it shows in which layers C1 (separability), C4 (the sink's cost) and C5
# (few Retrievers) come about.

# %% tags=["parameters"]
run = "laptop"
tables = "results/laptop/tables"
output = "figures/laptop/depth"

# %%
import pandas as pd

from headgeom import plotting

plotting.use()
models = plotting.titles(pd.read_csv(f"{tables}/models.csv"), "model")
corpora = plotting.titles(pd.read_csv(f"{tables}/corpora.csv"), "corpus")
data = pd.read_csv(f"{tables}/depth.csv")
data.groupby(["model", "corpus", "quantity"]).size().rename("rows").to_frame()

# %%
sizes = sorted(data.loc[data["size"] > 1, "size"].dropna().unique())
sizes = [int(size) for size in dict.fromkeys([*sizes[:1], *sizes[len(sizes) // 2 :][:1], *sizes[-1:]])]
looks = [(plotting.SKY, "o"), (plotting.PURPLE, "s"), (plotting.BLACK, "^")]
lines = {n: plotting.Style(f"N = {n}", *look) for n, look in zip(sizes, looks, strict=False)}


def draw(axes, rows, styles, **look):
    """One line a quantity, with about eight markers."""
    every = max(1, rows["layer"].nunique() // 8)
    for quantity, style in styles.items():
        part = plotting.subset(rows, quantity=quantity)
        plotting.band(axes, part, "relative_depth", style, markevery=every, **look)


def draw_f(axes, rows):
    """F at a few sizes (colour, marker), with and without the sink (dashes)."""
    for size, look in lines.items():
        for pool, style in plotting.POOLS.items():
            draw(axes, plotting.subset(rows, size=size), {f"f_{pool}": look}, linestyle=style.dashes)


# %%
pairs = plotting.pairs(data, models, corpora)
columns = ["F (ranked by attention)", "sink's attention", "share of heads"]
figure, grid = plotting.panels(pairs.values(), columns, sharex=True, sharey=True)
for line, (model, corpus) in zip(grid, pairs, strict=True):
    rows = plotting.subset(data, model=model, corpus=corpus)
    draw_f(line[0], rows)
    draw(line[1], rows, {"sink_mass": plotting.Style("sink", marker=".")})
    draw(line[2], rows, plotting.REGIMES)
for axes in grid[-1]:
    axes.set_xlabel("relative depth")
grid[0, 0].set_ylim(-0.03, 1.03)
rows = [*lines.values(), *plotting.POOLS.values()], plotting.REGIMES.values()
plotting.legend(figure, *([plotting.handle(style) for style in row] for row in rows))
plotting.save(figure, output)
