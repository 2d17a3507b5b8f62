import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from tables import write_tables

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = ROOT / "workflow" / "notebooks"
FIGURES = yaml.safe_load((NOTEBOOKS / "inputs.yaml").read_text())
SUFFIXES = [".html", ".ipynb", ".json", ".pdf", ".png"]
HEADER = "# ---\n# jupyter:\n#   kernelspec:\n#     display_name: Python 3\n#     name: python3\n# ---\n"
TINY = """
# %% tags=["parameters"]
run = ""
tables = ""
output = ""

# %%
import sys

from headgeom import plotting

figure, axes = plotting.panels([run], ["column"])
plotting.save(figure, output)
print(sys.executable)
"""


def figure(notebook, tables, output, *, environment=None, cwd=None):
    """Run the stage as a user would; the log goes to the output's folder."""
    options = ["--notebook", notebook, "--tables", tables, "--output", output, "--settings", '{"run": "test"}']
    command = [sys.executable, str(ROOT / "workflow/run.py"), "figure", *map(str, options)]
    command += ["--log", str(Path(output).parent / "logs" / f"{Path(output).stem}.log")]
    environment = os.environ | (environment or {})
    return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=cwd, check=False)


@pytest.fixture
def tiny(tmp_path):
    """A notebook that needs one table, in a folder of its own."""

    def make(text):
        (tmp_path / "notebooks").mkdir()
        (tmp_path / "tables").mkdir()
        (tmp_path / "tables" / "models.csv").write_text("model,title\n")
        (tmp_path / "notebooks" / "inputs.yaml").write_text("tiny: {title: Tiny figure, tables: [models]}\n")
        (tmp_path / "notebooks" / "tiny.py").write_text(HEADER + text)
        return tmp_path

    return make


def written(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def test_every_notebook_declares_what_it_reads():
    assert sorted(FIGURES) == sorted(path.stem for path in NOTEBOOKS.glob("*.py"))
    for name, figure_of in FIGURES.items():
        read = re.findall(r"\{tables\}/(\w+)\.csv", (NOTEBOOKS / f"{name}.py").read_text())
        assert sorted(figure_of["tables"]) == sorted(read), name
        assert f"# # {figure_of['title']}\n" in (NOTEBOOKS / f"{name}.py").read_text()


def test_synthetic_tables_have_the_documented_columns(tmp_path):
    write_tables(tmp_path)
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", (ROOT / "docs/results.md").read_text(), re.MULTILINE)
    documented = {name: set(re.findall(r"\w+", text)) for name, text in rows}
    documented["sink_heads"] |= documented["sink_geometry"]
    for path in tmp_path.iterdir():
        assert set(pd.read_csv(path).columns) <= documented[path.stem], path.stem


def test_the_stage_uses_its_own_kernel_and_relative_paths(tiny):
    folder = tiny(TINY)
    kernel = folder / "elsewhere" / "kernels" / "python3"
    kernel.mkdir(parents=True)
    (kernel / "kernel.json").write_text('{"argv": ["false"], "display_name": "Python 3", "language": "python"}')
    environment = {"JUPYTER_PATH": str(folder / "elsewhere"), "JUPYTER_DATA_DIR": str(folder / "elsewhere")}
    done = figure("notebooks/tiny.py", "tables", "out/tiny.pdf", environment=environment, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines() == ["INFO headgeom.stages.figure: tiny: Tiny figure"]
    files = written(folder / "out")
    assert sorted(files) == [f"tiny{suffix}" for suffix in SUFFIXES]
    notebook = json.loads(files["tiny.ipynb"])
    assert notebook["cells"][-1]["outputs"][0]["text"] == [f"{sys.executable}\n"]
    assert any('output = "out/tiny"' in "".join(cell["source"]) for cell in notebook["cells"])
    assert str(folder).encode() not in files["tiny.ipynb"].replace(sys.executable.encode(), b"")
    html = files["tiny.html"].decode()
    assert "<script" not in html
    assert 'alt="Tiny figure"' in html
    record = json.loads(files["tiny.json"])
    assert record["settings"] == {"run": "test"}
    assert list(record["inputs"]) == ["models.csv"]


def test_an_error_names_the_cell_and_keeps_the_notebook(tiny):
    folder = tiny(TINY.replace("print(sys.executable)", 'raise RuntimeError("no such thing")'))
    (folder / "out").mkdir()
    (folder / "out" / "tiny.pdf").write_text("older")
    done = figure(folder / "notebooks/tiny.py", folder / "tables", folder / "out/tiny.pdf")
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert re.match(r"ERROR figure: .*tiny\.py, cell \d: RuntimeError: no such thing; .*logs/tiny\.ipynb$", last)
    assert "RuntimeError" in (folder / "out/logs/tiny.ipynb").read_text()
    assert written(folder / "out") == {"tiny.pdf": b"older"}
    assert sorted(path.name for path in (folder / "out").iterdir()) == ["logs", "tiny.pdf"]


def test_a_notebook_that_saves_nothing_is_an_error(tiny):
    folder = tiny(TINY.replace("plotting.save(figure, output)", ""))
    done = figure(folder / "notebooks/tiny.py", folder / "tables", folder / "out/tiny.pdf")
    assert done.returncode == 1
    assert "wrote no .pdf" in done.stderr


def test_missing_tables_and_unknown_figures_are_named(tiny, tmp_path):
    folder = tiny(TINY)
    (folder / "nowhere").mkdir()
    done = figure(folder / "notebooks/tiny.py", folder / "nowhere", folder / "out/tiny.pdf")
    assert done.returncode == 1
    assert "nowhere/models.csv" in done.stderr
    (folder / "notebooks/other.py").write_text("")
    done = figure(folder / "notebooks/other.py", folder / "tables", folder / "out/other.pdf")
    assert done.returncode == 1
    assert "no figure other" in done.stderr


def gaps(folder):
    """Make the tables what a difficult run leaves: missing pairs and rows, heads without a sink, recall by head."""
    for path in folder.glob("*.csv"):
        frame = pd.read_csv(path)
        if "corpus" in frame and path.stem != "corpora":
            frame = frame[(frame["model"] != "tiny-gemma") | (frame["corpus"] != "news")]
        for column in {"mean", "ratio", "value", "norm_ratio", "output_sink_cosine"} & set(frame.columns):
            frame.loc[frame.index[::7], column] = np.nan
        if path.stem == "sink_heads":
            frame["recall_8"] = 0.5 - 0.5 * frame["sink_alignment"]
        frame.to_csv(path, index=False)


@pytest.mark.slow
@pytest.mark.parametrize("name", FIGURES)
def test_a_second_run_gives_the_same_files(name, tmp_path):
    write_tables(tmp_path / "tables", models={"one": ("One", 1, 1)}, corpora={"web": "Web"}, sizes=(1, 2))
    runs = []
    for _ in range(2):
        done = figure(NOTEBOOKS / f"{name}.py", tmp_path / "tables", tmp_path / "out" / f"{name}.pdf")
        assert done.returncode == 0, done.stderr
        runs.append(written(tmp_path / "out"))
    assert sorted(runs[0]) == [f"{name}{suffix}" for suffix in SUFFIXES]
    for file in runs[0]:
        assert file.endswith(".json") or runs[0][file] == runs[1][file], file


@pytest.mark.slow
@pytest.mark.parametrize("name", FIGURES)
def test_figures_of_two_models_distances_and_gaps(name, tmp_path):
    write_tables(tmp_path / "tables", distances=("euclidean", "cosine"))
    gaps(tmp_path / "tables")
    done = figure(NOTEBOOKS / f"{name}.py", tmp_path / "tables", tmp_path / f"{name}.pdf")
    assert done.returncode == 0, done.stderr
    notebook = (tmp_path / f"{name}.ipynb").read_text()
    assert '"name": "stderr"' not in notebook
    assert "image/png" in notebook
