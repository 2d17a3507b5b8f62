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
# # Norm and direction of the sink's value vector
#
# The sink is the first token (BOS). The **norm ratio** is the median value norm of the other tokens over the sink's
# own; the **sink alignment** is the mean cosine of the sink's value vector with the others'.
#
# *How to read it.* A dot is a head, in its layer, averaged over documents; the line is the median of a layer's
# heads. The number above a panel is the mean over heads and its interval over documents. The
# shaded band is the range that the paper gives. A head whose sliding window hides the sink has no dot.
# Heads that share their values (grouped queries) share their dot.
#
# *Claims.* C2: the sink's norm is several times smaller than other tokens' (dots in the band). C3: its direction is
# systematically opposed to theirs (dots below zero).

# %% tags=["parameters"]
run = "laptop"
tables = "results/laptop/tables"
output = "figures/laptop/sink_geometry"

# %%
import pandas as pd

from headgeom import plotting

plotting.use()
models = plotting.titles(pd.read_csv(f"{tables}/models.csv"), "model")
corpora = plotting.titles(pd.read_csv(f"{tables}/corpora.csv"), "corpus")
means = pd.read_csv(f"{tables}/sink_geometry.csv")
heads = pd.read_csv(f"{tables}/sink_heads.csv")
means

# %%
quantities = {
    "norm_ratio": "norm ratio: other tokens over sink\n",
    "sink_alignment": "sink alignment: cosine with other tokens\n",
}


def draw(axes, rows, mean, quantity):
    """A dot a head, a line through the layers' medians, the mean over all heads as text."""
    dots = {"color": plotting.BLUE, "alpha": 0.5, "markersize": 5, "markeredgewidth": 0, "zorder": 3}
    axes.plot(rows["layer"], rows[quantity], ".", **dots)
    axes.plot(rows.groupby("layer")[quantity].median(), color=plotting.BLACK)
    text = plotting.estimate(plotting.subset(mean, quantity=quantity))
    axes.set_title(f"mean {text}" if text else "", loc="right", fontsize=7)
    axes.set_xlim(-0.7, rows["layer"].max() + 0.7)


# %%
pairs = plotting.pairs(heads, models, corpora)
figure, grid = plotting.panels(pairs.values(), quantities.values(), sharey="col")
for line, (model, corpus) in zip(grid, pairs, strict=True):
    mean = plotting.subset(means, model=model, corpus=corpus)
    for axes, quantity in zip(line, quantities, strict=True):
        draw(axes, plotting.subset(heads, model=model, corpus=corpus), mean, quantity)
        plotting.index_axis(axes.xaxis)
    line[0].axhspan(*plotting.PAPER["norm_ratio"], **plotting.SHADE)
    line[1].axhline(0, color=plotting.BLACK, linewidth=0.8, linestyle=":")
plotting.log_y_axis(grid[0, 0])
for axes in grid[-1]:
    axes.set_xlabel("layer")
dot, median = plotting.Style("a head", plotting.BLUE, ".", ""), plotting.Style("median of a layer")
plotting.legend(figure, [plotting.handle(dot), plotting.handle(median), plotting.shade("the paper's range")])
plotting.save(figure, output)
