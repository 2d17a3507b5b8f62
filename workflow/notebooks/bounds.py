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
# # What the certificates promise and what is measured
#
# A certificate is a lower bound of precision and recall, and so of F, made from less than the vectors themselves. The
# paper's *interval certificate* knows the attention weights, and the ranges of the value norms and of their cosines.
# The levels after it know more: every norm; the cosines of just the pairs that matter; or (*selected-side*) the
# vectors of the selected tokens and only the norms of the others, last also how near the sink's direction comes to any
# other. The *inversion bound* is made from the measured number of inversions. All hold on every operation, or the
# run would have failed. The *constant-norm prediction* puts means in the place of the ranges, and promises nothing.
#
# *How to read it.* The nearer a coloured line to the black one, the more the certificate says. The dotted line may
# lie on either side; without the sink it is 1 whatever the values are (the paper's appendix proves it), so nothing
# follows from it there. Precision is never below N over the number of sources: certificates that rise to the right on
# that floor (thin line) say nothing. Bands are bootstrap intervals over documents; the level of the pairs' cosines is
# computed on a few documents only, and its band is not to be trusted. N = 1 is separable by construction. Tokens are
# ranked by attention.
#
# *Claims.* C11: the bounds are valid and conservative. C12: they predict that separability is best at small N:
# compare where the dotted line and the black one are highest for N >= 2.

# %% tags=["parameters"]
run = "laptop"
tables = "results/laptop/tables"
output = "figures/laptop/bounds"

# %%
import pandas as pd

from headgeom import plotting

plotting.use()
models = plotting.titles(pd.read_csv(f"{tables}/models.csv"), "model")
windows = pd.read_csv(f"{tables}/corpora.csv")
corpora = plotting.titles(windows, "corpus")
data = plotting.subset(pd.read_csv(f"{tables}/bounds.csv"), ranking="attention")
data[data["metric"] == "f"].pivot(index=["model", "corpus", "pool", "certificate"], columns="size", values="mean")

# %%
columns = {
    "precision": {"metric": "precision", "pool": "all"},
    "recall": {"metric": "recall", "pool": "all"},
    "F": {"metric": "f", "pool": "all"},
    "F without the sink": {"metric": "f", "pool": "no_sink"},
}
pairs = plotting.pairs(data, models, corpora)
figure, grid = plotting.panels(pairs.values(), columns, sharex=True, sharey=True)
for line, (model, corpus) in zip(grid, pairs, strict=True):
    for axes, chosen in zip(line, columns.values(), strict=True):
        rows = plotting.subset(data, model=model, corpus=corpus, **chosen)
        for level, look in reversed(plotting.CERTIFICATES.items()):
            plotting.band(axes, plotting.subset(rows, certificate=level), "size", look)
        if chosen["metric"] == "precision":
            length = plotting.subset(windows, model=model, corpus=corpus)["length"].iloc[0]
            axes.plot(data["size"].unique(), data["size"].unique() / length, color=plotting.BLACK, linewidth=0.6)
        plotting.log2_axis(axes, data["size"])
for axes in grid[-1]:
    axes.set_xlabel("N")
grid[0, 0].set_ylim(-0.03, 1.03)
looks = [plotting.handle(look) for look in plotting.CERTIFICATES.values()]
plotting.legend(figure, looks[:4], looks[4:])
plotting.save(figure, output)
