"""One style for all figures: colours, sizes, panels, axes and files.

Colours are Okabe and Ito's, which stay apart for colour-blind readers; a marker or a dash pattern says
the same again. A figure is as wide as a page's text and prints at that width with no letter under 7 points.
Files depend on nothing but the data: no date, no version of a program, no user's matplotlibrc.
"""

import math
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator, StrMethodFormatter

from .files import replacing

FORMATS = (".pdf", ".png")
WIDTH = 7.0
"""Inches: the text width of a page, or a figure across two columns."""

BLACK, GREY = "#000000", "#767676"
ORANGE, SKY, GREEN, BLUE, VERMILLION, PURPLE = "#E69F00", "#56B4E9", "#009E73", "#0072B2", "#D55E00", "#CC79A7"

PAPER = {"norm_ratio": (3.0, 10.0), "retriever_share": (0.058, 0.172), "sink_effect": 2.0}
"""The paper's own values (claims C2, C5 and C4), the only numbers in figures that are not from tables."""

SHADE = {"color": ORANGE, "alpha": 0.25, "linewidth": 0}
"""Look of a range that the paper gives."""

_MOST_HEIGHT, _LEAST_PANEL = 8.4, 0.8
_RC = {
    "font.family": "DejaVu Sans",
    "font.size": 8,
    "axes.labelsize": 8,
    "axes.titlesize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 8,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#E4E4E4",
    "grid.linewidth": 0.5,
    "lines.linewidth": 1.2,
    "lines.markersize": 3.5,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "figure.dpi": 150,
    "savefig.dpi": 200,
    "pdf.fonttype": 42,
}


@dataclass(frozen=True)
class Style:
    """How one thing is drawn in every figure."""

    label: str
    colour: str = BLACK
    marker: str = ""
    dashes: str = "-"


RANKINGS = {
    "attention": Style("attention", BLUE, "o"),
    "contribution": Style("contribution", VERMILLION, "s"),
    "random": Style("random", GREY, "^"),
}
POOLS = {"all": Style("with the sink"), "no_sink": Style("without the sink", dashes="--")}
REGIMES = {
    "retriever": Style("Retriever", ORANGE, "o"),
    "mixer": Style("Mixer", BLUE, "s"),
    "reset": Style("Reset", GREEN, "X"),
}
CERTIFICATES = {
    "measured": Style("measured"),
    "inversion": Style("inversion bound", GREY, "^"),
    "interval": Style("interval certificate", VERMILLION, "o"),
    "per_token": Style("interval + every norm", ORANGE, "s"),
    "pairs": Style("… + pairs' cosines", SKY, "D"),
    "selected": Style("selected-side", BLUE, "v"),
    "selected_sink": Style("selected-side + sink", GREEN, "P"),
    "constant_norm": Style("constant-norm prediction", PURPLE, dashes=":"),
}
_SERIES = ((BLUE, "o"), (VERMILLION, "s"), (GREEN, "^"), (PURPLE, "D"), (ORANGE, "v"), (SKY, "P"))
_DASHES = ("-", "--", ":")


def use() -> None:
    """Set the style, whatever a user's matplotlibrc says."""
    matplotlib.rcParams.update({k: v for k, v in matplotlib.rcParamsDefault.items() if k != "backend"})
    matplotlib.rcParams.update(_RC)


def series(titles: dict[str, str]) -> dict[str, Style]:
    """Styles of models (or of anything else that a run lists), by their order in the run."""
    turns = [(dashes, *look) for dashes in _DASHES for look in _SERIES]
    looks = (turns[i % len(turns)] for i in range(len(titles)))
    return {n: Style(t, c, m, d) for (n, t), (d, c, m) in zip(titles.items(), looks, strict=True)}


def titles(frame: pd.DataFrame, column: str) -> dict[str, str]:
    """Title of each value of ``column`` (model or corpus), in the table's order.

    What a title says in parentheses is left to the tables: panels are narrow.
    """
    rows = frame.drop_duplicates(column)
    return {name: str(title).split(" (")[0] for name, title in zip(rows[column], rows["title"], strict=True)}


def pairs(frame: pd.DataFrame, models: dict[str, str], corpora: dict[str, str]) -> dict[tuple[str, str], str]:
    """Label of each (model, corpus) that ``frame`` has rows of, in the run's order."""
    found = set(zip(frame["model"], frame["corpus"], strict=True))
    return {(m, c): f"{models[m]}\n{corpora[c]}" for m in models for c in corpora if (m, c) in found}


def subset(frame: pd.DataFrame, **values: Any) -> pd.DataFrame:
    """The rows in which every named column has the given value."""
    keep = np.ones(len(frame), bool)
    for column, value in values.items():
        keep &= (frame[column] == value).to_numpy()
    return frame[keep]


def panels(rows: Iterable[str], columns: Iterable[str], height: float = 1.4, **options: Any) -> tuple[Figure, Any]:
    """A page-wide figure and its array of axes; columns are titled on top, rows at the right.

    ``height`` is a panel's in inches, less where all rows would not fit on a page, but never so little that
    nothing could be read. ``options`` go to ``plt.subplots``.
    """
    rows, columns = list(rows), list(columns)
    if not rows or not columns:
        raise ValueError("the tables hold no rows for this figure")
    height = max(_LEAST_PANEL, min(height, _MOST_HEIGHT / len(rows)))
    size = (WIDTH, 0.8 + height * len(rows))
    figure, axes = plt.subplots(len(rows), len(columns), figsize=size, squeeze=False, layout="constrained", **options)
    for axis, title in zip(axes[0], columns, strict=True):
        axis.set_title(_wrap(title, 17 * WIDTH / len(columns)), loc="left")
    for axis, label in zip(axes[:, -1], rows, strict=True):
        text = _wrap(label, 15 * height)
        place = {"xy": (1.03, 0.5), "xycoords": "axes fraction", "rotation": 270, "va": "center", "ha": "left"}
        axis.annotate(text, **place, fontsize=7)
    return figure, axes


def _wrap(text: str, letters: float) -> str:
    return "\n".join(textwrap.fill(line, max(8, int(letters))) for line in text.split("\n"))


def band(axes: Axes, frame: pd.DataFrame, x: str, style: Style, y: str = "mean", **line: Any) -> None:
    """A line of ``y`` over ``x`` with the interval from ``low`` to ``high`` around it, broken where rows are missing.

    ``line`` overrides the style's look, as in ``linestyle="--"``.
    """
    frame = frame.dropna(subset=[x]).sort_values(x)
    look = {"color": style.colour, "marker": style.marker, "linestyle": style.dashes} | line
    axes.plot(frame[x], frame[y], **look)
    axes.fill_between(frame[x], frame["low"], frame["high"], color=look["color"], alpha=0.2, linewidth=0)


def interval(axes: Axes, row: pd.Series, at: float, y: str = "mean", across: bool = False, **look: Any) -> None:
    """A point at ``at`` with its interval; ``across`` lays it along the x axis."""
    whiskers = np.array([[row[y] - row["low"]], [row["high"] - row[y]]])
    look = {"fmt": "D", "color": BLACK, "markersize": 3.5, "capsize": 2, "elinewidth": 1, "zorder": 4} | look
    if across:
        axes.errorbar(row[y], at, xerr=whiskers, **look)
    else:
        axes.errorbar(at, row[y], yerr=whiskers, **look)


def estimate(rows: pd.DataFrame, y: str = "mean") -> str:
    """The first row as text, value and interval to two decimals; empty where nothing was measured."""
    if rows.empty or rows.iloc[0][y] != rows.iloc[0][y]:
        return ""
    value, low, high = (f"{rows.iloc[0][k]:.2f}".replace("-", "\N{MINUS SIGN}") for k in (y, "low", "high"))
    return f"{value} [{low}, {high}]"


def log2_axis(axes: Axes, values: Iterable[float], label: str | None = None) -> None:
    """A base-2 x axis with the values themselves as plain numbers; some stay unlabelled where space is short."""
    ticks = sorted({int(v) for v in values if v == v})
    step = math.ceil(len(ticks) * axes.get_gridspec().ncols / 27)
    axes.set_xscale("log", base=2)
    axes.set_xticks(ticks, [str(t) if i % step == 0 else "" for i, t in enumerate(ticks)])
    axes.minorticks_off()
    if label:
        axes.set_xlabel(label)


def index_axis(axis: Axis) -> None:
    """Whole numbers only, as for layers and heads."""
    axis.set_major_locator(MaxNLocator("auto", integer=True, min_n_ticks=1))


def log_y_axis(axes: Axes, steps: Sequence[int] = (1, 2, 5)) -> None:
    """A logarithmic y axis with plain numbers at ``steps`` times the powers of ten."""
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=steps))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.yaxis.set_minor_locator(NullLocator())


def handle(style: Style, **look: Any) -> Line2D:
    """A legend's entry."""
    drawn = {"color": style.colour, "marker": style.marker, "linestyle": style.dashes} | look
    return Line2D([], [], label=style.label, **drawn)


def shade(label: str) -> Patch:
    """A legend's entry for a shaded range of the paper's."""
    return Patch(label=label, **SHADE)


def legend(figure: Figure, *rows: list[Any]) -> None:
    """One legend for the whole figure, in rows above the panels, where it covers no data."""
    longest = max(map(len, rows))
    blank = Line2D([], [], linestyle="", label=" ")
    padded = [row + [blank] * (longest - len(row)) for row in rows]
    handles = [handle for column in zip(*padded, strict=True) for handle in column]
    figure.legend(handles=handles, loc="outside upper center", ncols=longest, frameon=False)


def save(figure: Figure, output: str | Path) -> None:
    """Write ``output`` with .pdf and .png added; equal figures give equal bytes."""
    for suffix, metadata in zip(FORMATS, ({"CreationDate": None}, {"Software": None}), strict=True):
        with replacing(f"{output}{suffix}") as temporary:
            figure.savefig(temporary, metadata=metadata)
