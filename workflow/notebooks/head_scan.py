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
# # What each head alone is worth
#
# Each head is removed by itself, and the increase of the loss over the unpruned model is measured, in nats.
#
# *How to read it.* Left: the map of all heads; colour is the increase, on a scale that is logarithmic beyond its first
# tick, and outliers have a circle. Right: the heads by rank, worst first, in the colour and marker of
# their regime; the dashed line is Tukey's outer fence, Q3 + 3 (Q3 - Q1) over all heads. Heads beyond it have their
# bootstrap interval over documents, and those whose whole interval lies beyond are the outliers. Heads that help when
# they are removed, or change the loss by less than the axis shows, are left out; their number stands below.
#
# *Claims.* C10: the paper's Gemma-7B has one critical head, layer 0 head 12; does another model have such a head,
# and where? C13: regime averages hide single heads that are essential.

# %% tags=["parameters"]
run = "laptop"
tables = "results/laptop/tables"
output = "figures/laptop/head_scan"

# %%
import matplotlib
import numpy as np
import pandas as pd
from matplotlib.colors import SymLogNorm

from headgeom import plotting

plotting.use()
models = plotting.titles(pd.read_csv(f"{tables}/models.csv"), "model")
corpora = plotting.titles(pd.read_csv(f"{tables}/corpora.csv"), "corpus")
scan = pd.read_csv(f"{tables}/head_scan.csv")
pd.read_csv(f"{tables}/critical_heads.csv")

# %%
SMALLEST = 1e-3
largest = max(10 * SMALLEST, scan["increase"].abs().max())
COLOURS = SymLogNorm(SMALLEST, vmin=-largest, vmax=largest, base=10)


def draw_map(axes, rows):
    """Increase of every head, outliers circled; returns the image for the colour bar."""
    layers, heads = int(rows["layer"].max()) + 1, int(rows["head"].max()) + 1
    cells = np.full((heads, layers), np.nan)
    cells[rows["head"], rows["layer"]] = rows["increase"]
    image = axes.imshow(cells, cmap="RdBu_r", norm=COLOURS, aspect="auto", interpolation="none")
    outliers = rows[rows["outlier"]]
    for colour, width in (("white", 2.5), (plotting.BLACK, 1)):  # seen on dark and on light cells
        look = {"color": colour, "markeredgewidth": width, "markerfacecolor": "none", "markersize": 5}
        axes.plot(outliers["layer"], outliers["head"], "o", **look)
    axes.grid(False)
    plotting.index_axis(axes.xaxis)
    plotting.index_axis(axes.yaxis)
    axes.set_ylabel("head")
    return image


def draw_tail(axes, rows):
    """Increase by rank, with the fence, the intervals of those beyond it, and the name of the worst head."""
    first, third = np.quantile(rows["increase"], (0.25, 0.75))
    fence = third + 3 * (third - first)
    axes.axhline(fence, color=plotting.GREY, linestyle="--", linewidth=0.8)
    shown = rows[rows["increase"] >= SMALLEST]
    for regime, style in plotting.REGIMES.items():
        part = plotting.subset(shown, regime=regime)
        axes.plot(part["rank"], part["increase"], style.marker, color=style.colour, markersize=3, alpha=0.7)
        beyond = part[part["increase"] > fence]
        axes.vlines(
            beyond["rank"], beyond["low"].clip(lower=SMALLEST), beyond["high"], color=style.colour, linewidth=0.8
        )
    plotting.log_y_axis(axes, steps=(1,))
    axes.set_xscale("log")
    axes.set_ylim(SMALLEST, None)
    axes.xaxis.set_major_formatter(matplotlib.ticker.StrMethodFormatter("{x:g}"))
    worst = rows.loc[rows["rank"].idxmin()]
    text = f"worst: layer {worst['layer']} head {worst['head']}"
    axes.text(0.97, 0.92, text, transform=axes.transAxes, fontsize=7, ha="right")
    text = f"{len(rows) - len(shown)} of {len(rows)} heads below"
    axes.text(0.03, 0.04, text, transform=axes.transAxes, fontsize=7)


# %%
pairs = plotting.pairs(scan, models, corpora)
figure, grid = plotting.panels(pairs.values(), ["increase of the loss (nats)", "by rank (nats)"], height=2)
for line, (model, corpus) in zip(grid, pairs, strict=True):
    rows = plotting.subset(scan, model=model, corpus=corpus)
    image = draw_map(line[0], rows)
    draw_tail(line[1], rows)
figure.colorbar(image, ax=list(grid[:, 0]), location="left", aspect=30, pad=0.02)
grid[-1, 0].set_xlabel("layer")
grid[-1, 1].set_xlabel("rank")
circle = plotting.handle(plotting.Style("outlier", plotting.BLACK, "o", ""), markerfacecolor="none")
fence = plotting.handle(plotting.Style("outer fence", plotting.GREY, "", "--"))
plotting.legend(figure, [plotting.handle(style, linestyle="") for style in plotting.REGIMES.values()] + [circle, fence])
plotting.save(figure, output)
