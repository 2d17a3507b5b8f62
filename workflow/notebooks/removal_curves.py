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
# # What removing heads costs, by the score that chooses them
#
# A head is removed by zeroing its output before the output projection. A score orders the heads of the whole model,
# and the best are kept. Loss is the mean token NLL in nats on documents that neither scored nor sorted the heads.
#
# *How to read it.* Each row is a model on a corpus; from left to right ever fewer heads are kept. Left: orders by
# taxonomy. Middle: single metrics. Both show the unpruned model (dotted) and the mean of the random orders, whose shade
# spans the draws; the other bands are bootstrap intervals over documents. Right: the loss under the taxonomy minus
# that of random orders, and minus that of the best single metric of each retention (named; it is chosen on the same
# documents, which favours it), taken document by document; below zero the taxonomy is better. The axes of losses are
# logarithmic, that of differences linear within 0.1 and logarithmic beyond.
#
# *Claims.* C8: the taxonomy is a useful coarse signal at moderate retention (its line at the right lies below zero
# there). C9: it does not beat magnitude and entropy everywhere, and loses under aggressive pruning.

# %% tags=["parameters"]
run = "laptop"
tables = "results/laptop/tables"
output = "figures/laptop/removal_curves"

# %%
import pandas as pd
from matplotlib.ticker import StrMethodFormatter

from headgeom import plotting

plotting.use()
models = plotting.titles(pd.read_csv(f"{tables}/models.csv"), "model")
corpora = plotting.titles(pd.read_csv(f"{tables}/corpora.csv"), "corpus")
data = pd.read_csv(f"{tables}/removal.csv")
data.pivot_table(index=["model", "corpus", "score"], columns="retention", values="loss", sort=False)

# %%
RANDOM = plotting.Style("random order", plotting.GREY, "^")
UNPRUNED = plotting.Style("unpruned", plotting.BLACK, "", ":")
TAXONOMY = {
    "taxonomy": plotting.Style("taxonomy", plotting.BLACK, "o"),
    "taxonomy_drop_retriever": plotting.Style("Retrievers go first", plotting.ORANGE, "s", "--"),
    "taxonomy_drop_mixer": plotting.Style("Mixers go first", plotting.BLUE, "D", "--"),
    "taxonomy_drop_reset": plotting.Style("Resets go first", plotting.GREEN, "X", "--"),
}
METRICS = {
    "magnitude": plotting.Style("magnitude", plotting.VERMILLION, "v"),
    "magnitude_qkvo": plotting.Style("magnitude QKVO", plotting.VERMILLION, "s", "--"),
    "entropy_high": plotting.Style("high entropy", plotting.BLUE, "P"),
    "entropy_low": plotting.Style("low entropy", plotting.SKY, "X", "--"),
    "separability": plotting.Style("separability", plotting.PURPLE, "D"),
    "gradient": plotting.Style("gradient", plotting.GREEN, "o"),
}
DIFFERENCES = {
    "from_random": plotting.Style("taxonomy minus random", plotting.BLACK, "o"),
    "from_baseline": plotting.Style("taxonomy minus best metric", plotting.VERMILLION, "v", "--"),
}


def draw_losses(axes, rows, styles):
    """Loss of each score, beside random orders and the unpruned model."""
    axes.axhline(plotting.subset(rows, score="unpruned")["loss"].iloc[0], color=plotting.BLACK, linestyle=":")
    for score, style in {"random": RANDOM, **styles}.items():
        part = plotting.subset(rows, score=score)
        limits = ("seeds_low", "seeds_high") if score == "random" else ("loss_low", "loss_high")
        part = part.assign(kept=100 * part["retention"], low=part[limits[0]], high=part[limits[1]])
        plotting.band(axes, part, "kept", style, y="loss")


def draw_differences(axes, rows):
    """The taxonomy against random orders and against the best single metric, with that metric's name."""
    rows = plotting.subset(rows, score="taxonomy").sort_values("retention")
    axes.axhline(0, color=plotting.BLACK, linewidth=0.6)
    for name, style in DIFFERENCES.items():
        axes.plot(100 * rows["retention"], rows[name], color=style.colour, linestyle=style.dashes)
        for _, row in rows.assign(low=rows[f"{name}_low"], high=rows[f"{name}_high"]).iterrows():
            plotting.interval(axes, row, 100 * row["retention"], y=name, fmt=style.marker, color=style.colour)
    look = {"rotation": 90, "ha": "center", "va": "bottom", "fontsize": 7, "color": DIFFERENCES["from_baseline"].colour}
    look["transform"] = axes.get_xaxis_transform()
    for _, row in rows.dropna(subset=["baseline"]).iterrows():
        axes.text(100 * row["retention"], 0.02, METRICS[row["baseline"]].label, **look)
    axes.set_yscale("symlog", linthresh=0.1)
    axes.set_yticks([sign * tick for tick in (0.1, 1, 10) for sign in (-1, 1)] + [0])
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    limits = rows[[f"{name}_{limit}" for name in DIFFERENCES for limit in ("low", "high")]]
    axes.set_ylim(min(-10, 2 * limits.min(axis=None)), max(1, 2 * limits.max(axis=None)))  # room for the names


# %%
pairs = plotting.pairs(data, models, corpora)
columns = ["loss, orders by taxonomy (nats)", "loss, single metrics (nats)", "taxonomy minus others (nats)"]
figure, grid = plotting.panels(pairs.values(), columns, height=2.4, sharex=True)
for line, (model, corpus) in zip(grid, pairs, strict=True):
    rows = plotting.subset(data, model=model, corpus=corpus)
    line[1].sharey(line[0])
    draw_losses(line[0], rows, TAXONOMY)
    draw_losses(line[1], rows, METRICS)
    draw_differences(line[2], rows)
    plotting.log_y_axis(line[0], steps=(1, 2, 3, 4, 5, 6, 8))
for axes in grid[-1]:
    axes.set_xlabel("heads kept (%)")
grid[0, 0].invert_xaxis()
looks = [[RANDOM, UNPRUNED, *DIFFERENCES.values()], TAXONOMY.values(), [*METRICS.values()][:3], [*METRICS.values()][3:]]
plotting.legend(figure, *([plotting.handle(style) for style in row] for row in looks))
plotting.save(figure, output)
