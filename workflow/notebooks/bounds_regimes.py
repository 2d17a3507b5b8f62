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
# # Where the certificates are tight
#
# Tightness is the mean F that a certificate guarantees over the mean F measured, on the same operations: 1 would be a
# certificate that says all, 0 one that says nothing. Tokens are ranked by attention, with the sink in the competition.
#
# *How to read it.* From left to right: the selected-side certificate by the head's regime; the same, and the paper's
# interval certificate, by whether the top N holds the sink; all certificates by layer, at one middle N. Bands are
# bootstrap intervals over documents; the level of the pairs' cosines is computed on a few documents only, and its band
# is not to be trusted. A line ends where no operation is left. The first panel has a legend of its own.
#
# *Claim.* C11: the bounds are conservative. The panels show where that costs most.

# %% tags=["parameters"]
run = "laptop"
tables = "results/laptop/tables"
output = "figures/laptop/bounds_regimes"

# %%
import pandas as pd

from headgeom import interpretation, plotting

plotting.use()
models = plotting.titles(pd.read_csv(f"{tables}/models.csv"), "model")
corpora = plotting.titles(pd.read_csv(f"{tables}/corpora.csv"), "corpus")
data = plotting.subset(pd.read_csv(f"{tables}/tightness.csv"), ranking="attention", pool="all")
middle = interpretation.middle(data["size"])
data[(data["size"] == middle) & (data["by"] != "layer")].pivot(
    index=["model", "corpus", "by", "group"], columns="certificate", values="ratio"
)

# %%
SINK = {"selected": "-", "not selected": "--"}


def by_regime(axes, rows):
    """The selected-side certificate, a line a regime."""
    for regime, look in plotting.REGIMES.items():
        part = plotting.subset(rows, by="regime", group=regime, certificate="selected")
        plotting.band(axes, part, "size", look, y="ratio")


def by_sink(axes, rows):
    """The interval and the selected-side certificate, dashed where the sink is not selected."""
    for level in ("interval", "selected"):
        look = plotting.CERTIFICATES[level]
        for group, dashes in SINK.items():
            part = plotting.subset(rows, by="sink", group=group, certificate=level)
            face = look.colour if group == "selected" else "white"
            plotting.band(axes, part, "size", look, y="ratio", linestyle=dashes, markerfacecolor=face)


def by_layer(axes, rows):
    """Every certificate at the middle N."""
    part = plotting.subset(rows, by="layer", size=middle)
    part = part.assign(layer=part["group"].astype(int))
    for level in data["certificate"].unique():
        if level != "constant_norm":
            look = plotting.CERTIFICATES[level]
            plotting.band(axes, plotting.subset(part, certificate=level), "layer", look, y="ratio", markersize=2)


# %%
columns = ["by regime (selected-side)", "by what the top N holds", f"by layer, N = {middle}"]
pairs = plotting.pairs(data, models, corpora)
figure, grid = plotting.panels(pairs.values(), columns, sharex="col", sharey=True)
for line, (model, corpus) in zip(grid, pairs, strict=True):
    rows = plotting.subset(data, model=model, corpus=corpus)
    for axes, draw in zip(line, (by_regime, by_sink, by_layer), strict=True):
        draw(axes, rows)
    for axes in line[:2]:
        plotting.log2_axis(axes, data["size"])
    plotting.index_axis(line[2].xaxis)
    line[0].set_ylabel("F certified / F")
for axes, label in zip(grid[-1], ("N", "N", "layer"), strict=True):
    axes.set_xlabel(label)
grid[0, 0].set_ylim(-0.03, 1.03)
regimes = [plotting.handle(look) for look in plotting.REGIMES.values()]
grid[0, 0].legend(handles=regimes, loc="lower right", frameon=False, fontsize=7)
kinds = [plotting.handle(plotting.Style(f"sink {group}", dashes=dashes)) for group, dashes in SINK.items()]
levels = [plotting.handle(look) for n, look in plotting.CERTIFICATES.items() if n not in ("measured", "constant_norm")]
plotting.legend(figure, levels[:3], levels[3:], kinds)
plotting.save(figure, output)
