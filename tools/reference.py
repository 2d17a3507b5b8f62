"""Keep the laptop run's small tables, verdicts and some figures in the repository, and the README's tables from them.

``python tools/reference.py`` copies results/laptop and figures/laptop to their folders ``reference`` and rewrites the
part of README.md between its markers; ``--check`` only says whether README.md agrees with results/reference.
"""

import json
import shutil
import sys
from pathlib import Path

import pandas as pd

ROOT = Path(__file__).resolve().parents[1]
TABLES = (
    "models",
    "corpora",
    "separability",
    "sink_effect",
    "sink_geometry",
    "taxonomy",
    "stability",
    "alignment",
    "certificates",
    "contrasts",
    "first_version",
    "prediction",
    "violations",
    "tightness",
    "interpretation",
    "removal",
    "regime_ablation",
    "critical_heads",
)
# Of a table that is long, the rows that are kept.
KEPT = {"tightness": "by == 'all'"}
FIGURES = ("separability", "sink_effect", "taxonomy_map", "bounds", "removal_curves")
MARKERS = ("<!-- {}: made by tools/reference.py -->", "<!-- end of {} -->")
KEY = ["model", "corpus"]
NAMED = {"models": "model", "corpora": "corpus"}
SIZE = 8
VERDICTS = ("replication", "generalisation")


def result_table(folder: Path) -> str:
    """The README's table, a row a model and corpus, in Markdown."""
    separability, effect, geometry, taxonomy = (
        pd.read_csv(folder / f"{name}.csv") for name in ("separability", "sink_effect", "sink_geometry", "taxonomy")
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
    header = ["model, corpus", *columns, "Retriever / Mixer / Reset"]
    lines = [header, ["---"] * len(header)]
    for pair in geometry[KEY].drop_duplicates().itertuples(index=False):
        cells = [_interval(frame.loc[tuple(pair)]) for frame in columns.values()]
        regimes = " / ".join(f"{share[tuple(pair)]:.0%}" for share in shares.values())
        lines.append([titled(folder)[tuple(pair)], *cells, regimes])
    return _markdown(lines)


def certificate_table(folder: Path) -> str:
    """What the certificates guarantee, a row a model and corpus, in Markdown."""
    columns = [("inversion", 16), ("interval", 16), ("selected", 8), ("selected", 16), ("selected", 32)]
    names = {"inversion": "inversions", "interval": "interval certificate", "selected": "selected-side"}
    found = pd.read_csv(folder / "certificates.csv").set_index(KEY)
    tightness = pd.read_csv(folder / "tightness.csv").query("by == 'all' and ranking == 'attention' and pool == 'all'")
    header = ["model, corpus", "records", "violations", *(f"{names[level]}, N = {n}" for level, n in columns)]
    lines = [header, ["---"] * len(header)]
    for pair, row in found.iterrows():
        ratios = tightness[(tightness[KEY] == list(pair)).all(axis=1)].set_index(["certificate", "size"])
        cells = [_interval(ratios.loc[column], "ratio") for column in columns]
        lines.append([titled(folder)[pair], f"{int(row['records']):,}", str(int(row["violations"])), *cells])
    return _markdown(lines)


def claims_table(folder: Path) -> str:
    """The claims and their verdicts, in Markdown."""
    lines = [["", "the paper's claim", "replication", "generalisation", "tests that hold"], ["---"] * 5]
    for claim in json.loads((folder / "claims.json").read_text(encoding="utf-8"))["claims"]:
        rows = [row for kind in VERDICTS for test in claim[kind]["tests"] for row in test["rows"]]
        held = sum(row["outcome"] == "yes" for row in rows)
        verdicts = [claim[kind]["verdict"] for kind in VERDICTS]
        lines.append([claim["id"], claim["statement"], *verdicts, f"{held} of {len(rows)}" if rows else "–"])
    return _markdown(lines)


def titled(folder: Path) -> dict[tuple[str, str], str]:
    """Title of each (model, corpus), without what stands in parentheses."""
    titles = [pd.read_csv(folder / f"{name}.csv").set_index(column)["title"] for name, column in NAMED.items()]
    return {
        (model, corpus): f"{first}, {second.split(' (')[0]}"
        for model, first in titles[0].items()
        for corpus, second in titles[1].items()
    }


def _markdown(lines: list[list[str]]) -> str:
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _interval(row: pd.Series, value: str = "mean") -> str:
    return f"{row[value]:.2f} [{row['low']:.2f}, {row['high']:.2f}]"


def readme_with(tables: dict[str, str]) -> str:
    """README.md with each table between its markers."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for name, table in tables.items():
        opening, closing = (marker.format(name) for marker in MARKERS)
        before, found, rest = text.partition(opening)
        _, also_found, after = rest.partition(closing)
        if not (found and also_found):
            raise SystemExit(f"README.md: the markers {opening} and {closing} are missing")
        text = f"{before}{opening}\n\n{table}\n{closing}{after}"
    return text


def expected_readme() -> str:
    """README.md as results/reference would have it."""
    folder = ROOT / "results" / "reference"
    tables = {"results": result_table, "certificates": certificate_table, "claims": claims_table}
    return readme_with({name: made(folder) for name, made in tables.items()})


def copy() -> None:
    """Take over the laptop run's tables, verdicts and figures."""
    kinds = (
        ("results", "results/laptop/tables", TABLES, "csv"),
        ("results", "results/laptop", ("claims",), "json"),
        ("figures", "figures/laptop", FIGURES, "png"),
    )
    sources = [ROOT / place / f"{name}.{suffix}" for _, place, names, suffix in kinds for name in names]
    absent = [str(path.relative_to(ROOT)) for path in sources if not path.is_file()]
    if absent:
        raise SystemExit(f"run the laptop config first, with `make reproduce`: {', '.join(absent)} missing")
    for kind in ("results", "figures"):
        shutil.rmtree(ROOT / kind / "reference", ignore_errors=True)
        (ROOT / kind / "reference").mkdir(parents=True)
    for kind, place, names, suffix in kinds:
        for name in names:
            source, target = ROOT / place / f"{name}.{suffix}", ROOT / kind / "reference" / f"{name}.{suffix}"
            if name in KEPT:
                pd.read_csv(source).query(KEPT[name]).to_csv(target, index=False, lineterminator="\n")
            else:
                shutil.copyfile(source, target)


def main(arguments: list[str]) -> int:
    """Copy and rewrite, or check."""
    readme = ROOT / "README.md"
    if arguments == ["--check"]:
        return int(expected_readme() != readme.read_text(encoding="utf-8"))
    copy()
    readme.write_text(expected_readme(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
