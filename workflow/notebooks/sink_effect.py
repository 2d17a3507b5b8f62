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
# # What the sink costs in separability
#
# The ratio of two means over the same attention operations: F where the sink is taken out of the competition, over F
# where it takes part. Above 1 the sink hurts.
#
# *How to read it.* Colour and marker say what ranks the tokens. Solid lines count all operations, dashed ones only
# those whose top N holds the sink. Bands are bootstrap intervals over documents. The dotted lines are no effect (1) and
# the paper's factor of two.
#
# *Claim.* C4: including the sink in the top N lowers F substantially, often by a factor of two. The dashed lines are
# the evidence.

# %% tags=["parameters"]
run = "laptop"
tables = "results/laptop/tables"
output = "figures/laptop/sink_effect"

# %%
import pandas as pd

from headgeom import plotting

plotting.use()
models = plotting.titles(pd.read_csv(f"{tables}/models.csv"), "model")
corpora = plotting.titles(pd.read_csv(f"{tables}/corpora.csv"), "corpus")
data = pd.read_csv(f"{tables}/sink_effect.csv")
data

# %%
operations = {"all": "-", "sink_selected": "--"}


def draw(axes, rows):
    """Lines of the rankings (colour, marker), over all operations and those that select the sink (dashes)."""
    for ranking in data["ranking"].unique():
        look = plotting.RANKINGS[ranking]
        for kind, dashes in operations.items():
            face = look.colour if kind == "all" else "white"
            part = plotting.subset(rows, ranking=ranking, operations=kind)
            plotting.band(axes, part, "size", look, y="ratio", linestyle=dashes, markerfacecolor=face)
    for level in (1, plotting.PAPER["sink_effect"]):
        axes.axhline(level, color=plotting.BLACK, linewidth=0.8, linestyle=":", zorder=1)


# %%
distances = data["distance"].unique()
keys = [(corpus, distance) for corpus in corpora for distance in distances]
labels = [corpora[corpus] + (f"\n{distance}" if len(distances) > 1 else "") for corpus, distance in keys]
figure, grid = plotting.panels(labels, models.values(), height=1.7, sharex=True, sharey=True)
for line, (corpus, distance) in zip(grid, keys, strict=True):
    for axes, model in zip(line, models, strict=True):
        draw(axes, plotting.subset(data, model=model, corpus=corpus, distance=distance))
        plotting.log2_axis(axes, data["size"])
    line[0].set_ylabel("F without sink / F with it")
for axes in grid[-1]:
    axes.set_xlabel("N")
looks = [plotting.handle(plotting.RANKINGS[ranking]) for ranking in data["ranking"].unique()]
kinds = [plotting.Style("all operations"), plotting.Style("those that select the sink", dashes="--")]
plotting.legend(figure, looks + [plotting.handle(kind) for kind in kinds])
plotting.save(figure, output)
