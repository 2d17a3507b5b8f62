"""What the captions of the report say: texts and numbers from a run's results, read when the report is made.

Snakemake gives a caption (workflow/report/*.rst, a Jinja template) its config and the paths of a job, not what is in
the files; so the config carries this reader, which is an empty dict to whatever else looks at it.
"""

import csv
import json
import math
import re
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
KINDS = ("replication", "generalisation")
MOST_ROWS = 12


def of_repository(root: Path = ROOT) -> tuple[dict[str, list[str]], dict[str, str]]:
    """Of each figure the claims that it shows, and of each table the folder of its caption."""
    shown: dict[str, list[str]] = {}
    ledger = yaml.safe_load((root / "config/claims.yaml").read_text(encoding="utf-8"))
    for claim in ledger["claims"]:
        shown.setdefault(claim["figure"], []).append(claim["id"])
    return shown, {path.stem: path.parent.name for path in (root / "workflow/report").glob("*/*.rst")}


class Captions(dict):
    """Texts in reStructuredText about one run."""

    def __init__(self, run: str) -> None:
        """Of the run's results, in the working folder."""
        super().__init__()
        self.run = run
        self.results = Path("results") / run

    def figure(self, name: str) -> dict[str, Any]:
        """Its notebook's introduction, the claims that it shows with what was measured, and what made it."""
        lines = (ROOT / f"workflow/notebooks/{name}.py").read_text(encoding="utf-8").splitlines()
        start = lines.index("# %% [markdown]") + 1
        cell = [line.removeprefix("#").removeprefix(" ") for line in lines[start : lines.index("", start)]]
        claims = [claim for claim in self.claims() if claim["figure"] == name]
        text = "\n".join(cell[1:]).strip()
        return {"text": quoted(text), "claims": claims, "made": made(Path(f"figures/{self.run}/{name}.json"))}

    def table(self, name: str) -> str:
        """Its columns, its number of rows, its readable version if it has one, and what made it."""
        path = self.results / f"tables/{name}.csv"
        document = (ROOT / "docs/results.md").read_text(encoding="utf-8")
        columns = re.search(rf"^\| `{name}` \| (.*) \|$", document, re.MULTILINE)
        with open(path, encoding="utf-8", newline="") as stream:
            rows = sum(1 for _ in csv.reader(stream)) - 1
        parts = [f"{rows:,} rows. Columns: {quoted(columns[1])}." if columns else f"{rows:,} rows."]
        readable = path.with_suffix(".md")
        if readable.is_file():
            parts.append(list_table(markdown_rows(readable.read_text(encoding="utf-8"))))
        return "\n\n".join([*parts, made(path.with_suffix(".json"))])

    def claims(self) -> list[dict[str, Any]]:
        """Each claim, its statement, verdicts, command, and a line for each test of each kind that has rows."""
        found = []
        for claim in self._read("claims.json")["claims"]:
            tests = [test for kind in KINDS for test in claim[kind]["tests"] if test["rows"]]
            found.append(
                {key: escaped(claim[key]) for key in ("id", "statement", "paper")}
                | {kind: claim[kind]["verdict"] for kind in KINDS}
                | {"tests": [{"line": measured(test), "rows": evidence(test)} for test in tests]}
                | {key: claim[key] for key in ("figure", "command")}
            )
        return found

    def verdicts(self) -> str:
        """A table of the claims with both verdicts."""
        head = ["claim", "the paper says", "paper's value", *KINDS]
        rows = [[claim[key] for key in ("id", "statement", "paper", *KINDS)] for claim in self.claims()]
        return list_table([head, *rows], escape=False)

    def models(self) -> str:
        """A table of the pairs of model and corpus."""
        with open(self.results / "tables/corpora.csv", encoding="utf-8", newline="") as stream:
            rows = [[row[key] for key in ("model", "title", "length", "geometry")] for row in csv.DictReader(stream)]
        return list_table([["model", "corpus", "tokens a window", "documents"], *rows])

    def manifest(self) -> str:
        """How many files the manifest lists, and what wrote it."""
        files = self._read("manifest.json")["files"]
        hashed = sum("sha256" in file for file in files)
        return f"{len(files)} files, {hashed} of them with a SHA-256.\n\n{made(self.results / 'manifest.json')}"

    def paper(self) -> str:
        """What made the paper."""
        return made(Path(f"paper/{self.run}/replication.json"))

    def _read(self, name: str) -> dict[str, Any]:
        return json.loads((self.results / name).read_text(encoding="utf-8"))


def measured(test: dict[str, Any]) -> str:
    """What the test is, the range of its values, and how many rows hold."""
    values = [row["value"] for row in test["rows"] if row["value"] is not None]
    if not values:
        return f"{escaped(test['says'])}: nothing was measured"
    low, high = number(min(values)), number(max(values))
    held = sum(row["outcome"] == "yes" for row in test["rows"])
    return f"{escaped(test['says'])}: {low if low == high else f'{low} to {high}'} ({held} of {len(test['rows'])} hold)"


def evidence(test: dict[str, Any]) -> str:
    """A table of the rows that decided a test; empty where they are many."""
    if len(test["rows"]) > MOST_ROWS:
        return ""
    labelled = any(row["label"] for row in test["rows"])
    rows = [["model", "corpus", *(["of"] if labelled else []), "value", "interval", "holds"]]
    for row in test["rows"]:
        label = ", ".join(f"{key} {value}" for key, value in row["label"].items())
        interval = f"[{number(row['low'])}, {number(row['high'])}]"
        named = [row["model"], row["corpus"], *([label] if labelled else [])]
        rows.append([*named, number(row["value"]), interval, row["outcome"]])
    return list_table(rows)


def number(value: float | None) -> str:
    """Three significant digits; a dash for what is missing."""
    if value is None or math.isnan(value):
        return "–"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def made(record: Path) -> str:
    """The stage, code version and inputs of a provenance file."""
    content = json.loads(record.read_text(encoding="utf-8"))
    content = content.get("provenance", content)
    commit = content["code"]["commit"] or "unknown"
    changed = ", with changes that are not committed" if content["code"]["modified"] else ""
    inputs = ", ".join(f"``{name}`` ({digest[:12]})" for name, digest in content.get("inputs", {}).items())
    text = f"Made by stage *{content['stage']}*, code version ``{commit[:12]}``{changed}"
    return f"{text}, from {inputs} (SHA-256)." if inputs else f"{text}."


def markdown_rows(text: str) -> list[list[str]]:
    """The cells of a Markdown table."""
    lines = [line.strip().removeprefix("|").removesuffix("|") for line in text.splitlines() if line.startswith("|")]
    cells = [[cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)] for line in lines]
    return [row for row in cells if not all(set(cell) <= {"-"} and cell for cell in row)]


def list_table(rows: list[list[str]], escape: bool = True) -> str:
    """A table with a header row."""
    lines = [".. list-table::", "   :header-rows: 1", ""]
    for row in rows:
        cells = [escaped(cell) if escape else cell for cell in row]
        lines += [f"   {'  ' if column else '* '}- {cell}" for column, cell in enumerate(cells)]
    return "\n".join(lines)


def escaped(text: str) -> str:
    """Text in which nothing is markup."""
    return re.sub(r"([\\*`|_])", r"\\\1", " ".join(text.split()))


def quoted(text: str) -> str:
    """Markdown's emphasis is RST's; its code has one backtick, where RST has two."""
    return re.sub(r"`([^`]+)`", r"``\1``", text)
