"""Keep the laptop run's small tables and three figures in the repository, and the README's result table from them.

``python tools/reference.py`` copies results/laptop and figures/laptop to their folders ``reference`` and rewrites the
part of README.md between its markers; ``--check`` only says whether README.md agrees with results/reference.
"""

import shutil
import sys
from pathlib import Path

import pandas as pd

ROOT = Path(__file__).resolve().parents[1]
TABLES = ("models", "corpora", "separability", "sink_effect", "sink_geometry", "taxonomy", "stability", "alignment")
FIGURES = ("separability", "sink_effect", "taxonomy_map")
MARKERS = ("<!-- results: made by tools/reference.py -->", "<!-- end of results -->")
KEY = ["model", "corpus"]
SIZE = 8


def result_table(folder: Path) -> str:
    """The README's table, a row a model and corpus, in Markdown."""
    separability, effect, geometry, taxonomy, models, corpora = (
        pd.read_csv(folder / f"{name}.csv")
        for name in ("separability", "sink_effect", "sink_geometry", "taxonomy", "models", "corpora")
    )
    f = separability.query("metric == 'f' and size == @SIZE and distance == 'euclidean'").set_index(KEY)
    selected = effect.query("ranking == 'attention' and operations == 'sink_selected' and size == @SIZE").set_index(KEY)
    columns = {
        f"F of top {SIZE} by attention": f.query("ranking == 'attention' and pool == 'all'"),
        f"F of {SIZE} random tokens": f.query("ranking == 'random' and pool == 'all'"),
        "F by attention, sink left out": f.query("ranking == 'attention' and pool == 'no_sink'"),
        "F without over F with the sink, where it is selected": selected.rename(columns={"ratio": "mean"}),
        "value norm, others over sink": geometry.query("quantity == 'norm_ratio'").set_index(KEY),
        "cosine of the sink with others": geometry.query("quantity == 'sink_alignment'").set_index(KEY),
    }
    shares = {name: group.set_index(KEY)["share"] for name, group in taxonomy.groupby("regime", sort=False)}
    titles = [
        dict(zip(frame[name], frame["title"], strict=True)) for name, frame in zip(KEY, (models, corpora), strict=True)
    ]
    header = ["model, corpus", *columns, "Retriever / Mixer / Reset"]
    lines = [header, ["---"] * len(header)]
    for pair in geometry[KEY].drop_duplicates().itertuples(index=False):
        cells = [_interval(frame.loc[tuple(pair)]) for frame in columns.values()]
        regimes = " / ".join(f"{share[tuple(pair)]:.0%}" for share in shares.values())
        names = (title[name].split(" (")[0] for title, name in zip(titles, pair, strict=True))
        lines.append([", ".join(names), *cells, regimes])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _interval(row: pd.Series) -> str:
    return f"{row['mean']:.2f} [{row['low']:.2f}, {row['high']:.2f}]"


def readme_with(table: str) -> str:
    """README.md with ``table`` between the markers."""
    before, _, rest = (ROOT / "README.md").read_text().partition(MARKERS[0])
    _, _, after = rest.partition(MARKERS[1])
    return f"{before}{MARKERS[0]}\n\n{table}\n{MARKERS[1]}{after}"


def copy() -> None:
    """Take over the laptop run's tables and figures."""
    for kind, names, suffix in (("results", TABLES, "csv"), ("figures", FIGURES, "png")):
        source = ROOT / kind / "laptop" / ("tables" if kind == "results" else "")
        target = ROOT / kind / "reference"
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        for name in names:
            shutil.copyfile(source / f"{name}.{suffix}", target / f"{name}.{suffix}")


def main(arguments: list[str]) -> int:
    """Copy and rewrite, or check."""
    check = arguments == ["--check"]
    if not check:
        copy()
    expected = readme_with(result_table(ROOT / "results" / "reference"))
    if check:
        return int(expected != (ROOT / "README.md").read_text())
    (ROOT / "README.md").write_text(expected)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
