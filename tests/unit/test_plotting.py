import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.text import Text

from headgeom import plotting


@pytest.fixture(autouse=True)
def style():
    plotting.use()
    yield
    plt.close("all")


def frame(**columns):
    return pd.DataFrame(columns)


@pytest.mark.parametrize("family", [plotting.RANKINGS, plotting.REGIMES], ids=["rankings", "regimes"])
def test_a_family_differs_in_colour_and_in_marker(family):
    assert len({style.colour for style in family.values()}) == len(family)
    assert len({style.marker for style in family.values()}) == len(family)


def test_pools_differ_in_dashes():
    assert plotting.POOLS["all"].dashes != plotting.POOLS["no_sink"].dashes


def test_series_are_distinct_and_do_not_run_out():
    styles = plotting.series({f"m{i}": f"M{i}" for i in range(40)})
    assert len(styles) == 40
    assert len({(s.colour, s.marker, s.dashes) for s in list(styles.values())[:18]}) == 18


def test_use_overrides_a_users_matplotlibrc():
    matplotlib.rcParams.update({"font.size": 3, "lines.linestyle": "--", "pdf.fonttype": 3})
    plotting.use()
    assert matplotlib.rcParams["font.size"] == 8
    assert matplotlib.rcParams["lines.linestyle"] == "-"
    assert matplotlib.rcParams["pdf.fonttype"] == 42


def test_titles_keep_the_order_and_leave_out_parentheses():
    table = frame(corpus=["b", "a", "b"], title=["Bee (stand-in)", "A", "Bee (stand-in)"])
    assert plotting.titles(table, "corpus") == {"b": "Bee", "a": "A"}


def test_pairs_are_those_with_rows_in_the_runs_order():
    table = frame(model=["y", "x", "y"], corpus=["c", "c", "c"])
    found = plotting.pairs(table, {"x": "X", "y": "Y", "z": "Z"}, {"c": "C", "d": "D"})
    assert found == {("x", "c"): "X\nC", ("y", "c"): "Y\nC"}


def test_subset_compares_every_column():
    table = frame(size=[1.0, 2.0, np.nan], pool=["all", "all", "all"])
    assert plotting.subset(table, size=2, pool="all").index.tolist() == [1]
    assert plotting.subset(table, size=2, pool="no_sink").empty


def test_no_rows_is_an_error_that_says_so():
    with pytest.raises(ValueError, match="no rows"):
        plotting.panels([], ["F"])


@pytest.mark.parametrize("rows", [1, 4, 8])
def test_a_figure_fits_a_page_and_no_letter_is_under_seven_points(rows):
    figure, axes = plotting.panels(["A rather long title of a model\nCorpus"] * rows, ["precision", "recall", "F"])
    for panel in axes.flat:
        plotting.log2_axis(panel, [1, 2, 4], "N")
        plotting.log_y_axis(panel)
    figure.canvas.draw()
    width, height = figure.get_size_inches()
    assert width == 7
    assert height < 9.5
    assert min(text.get_fontsize() for text in figure.findobj(Text) if text.get_text()) >= 7


def test_many_rows_keep_a_readable_height():
    figure, _ = plotting.panels(["row"] * 30, ["F"])
    assert figure.get_size_inches()[1] / 30 >= 0.8


@pytest.mark.parametrize(("columns", "step"), [(1, 1), (3, 1), (4, 2)])
def test_sizes_are_plain_numbers_and_thin_out_in_narrow_panels(columns, step):
    sizes = 2 ** np.arange(9)
    figure, axes = plotting.panels(["row"], ["column"] * columns)
    plotting.log2_axis(axes[0, 0], [*sizes, np.nan])
    figure.canvas.draw()
    labels = [tick.get_text() for tick in axes[0, 0].get_xticklabels()]
    assert axes[0, 0].get_xticks().tolist() == sizes.tolist()
    assert [label for label in labels if label] == [str(n) for n in sizes[::step]]


def test_a_band_is_sorted_and_broken_where_rows_are_missing():
    _, axes = plt.subplots()
    mean = np.array([0.4, 0.1, np.nan, 0.8])
    table = frame(size=[4, 1, 2, 8], mean=mean, low=mean - 0.1, high=mean + 0.1)
    plotting.band(axes, table, "size", plotting.RANKINGS["random"], linestyle=":")
    (line,) = axes.lines
    np.testing.assert_array_equal(line.get_xdata(), [1, 2, 4, 8])
    np.testing.assert_array_equal(line.get_ydata(), [0.1, np.nan, 0.4, 0.8])
    assert (line.get_color(), line.get_linestyle()) == (plotting.GREY, ":")


def test_an_estimate_is_text_and_empty_where_nothing_was_measured():
    row = frame(mean=[-0.204], low=[-0.25], high=[0.1])
    assert plotting.estimate(row) == "\N{MINUS SIGN}0.20 [\N{MINUS SIGN}0.25, 0.10]"
    assert plotting.estimate(row * np.nan) == ""
    assert plotting.estimate(row[:0]) == ""


def test_legend_rows_are_read_from_left_to_right():
    figure, _ = plotting.panels(["row"], ["column"])
    row = [plotting.handle(style) for style in plotting.RANKINGS.values()]
    plotting.legend(figure, row, row[:1])
    labels = [text.get_text().strip() for text in figure.legends[0].texts]
    assert labels == ["attention", "attention", "contribution", "", "random", ""]


def test_files_are_the_same_twice_and_embed_truetype(tmp_path):
    def drawn(stem):
        figure, axes = plotting.panels(["row"], ["column"])
        axes[0, 0].plot([1, 2], [3, 4])
        plotting.save(figure, tmp_path / stem)
        return [(tmp_path / f"{stem}{suffix}").read_bytes() for suffix in plotting.FORMATS]

    first = drawn("v1.0")
    assert first == drawn("again")
    assert b"CreationDate" not in first[0]
    assert b"/FontFile2" in first[0]
    assert b"Software" not in first[1]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["again.pdf", "again.png", "v1.0.pdf", "v1.0.png"]
