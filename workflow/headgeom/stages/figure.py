"""Run one figure's notebook: .pdf and .png from it, executed .ipynb and .html of it, and provenance as .json.

The notebook is a py:percent script; it runs in a kernel of this same interpreter, in the current folder.
"""

import argparse
import json
import logging
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import jupytext
import nbformat
import papermill
import yaml
from ipykernel.kernelspec import write_kernel_spec
from jinja2 import DictLoader
from nbclient.exceptions import DeadKernelError
from nbconvert import HTMLExporter
from papermill.exceptions import PapermillExecutionError
from traitlets.config import Config

from .. import plotting
from ..errors import UserError
from ..files import replacing, sha256
from ..provenance import record

logger = logging.getLogger(__name__)
_LIBRARY = Path(__file__).resolve().parents[2]
_LONGEST_SOCKET_FOLDER = 50
_TEMPLATE = """{% extends "lab/index.html.j2" %}
{% block html_head_js %}{% endblock %}
{% block html_head_js_mathjax %}{% endblock %}
{% block html_head_js_mermaidjs %}{% endblock %}
{% block data_png %}
<img alt="{{ nb.metadata.title | escape }}" src="data:image/png;base64,{{ output.data["image/png"] }}">
{% endblock %}
{% block input_group %}<details><summary>Code</summary>{{ super() }}</details>{% endblock %}
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the stage's options; ``--settings`` holds ``run``, the run's name."""
    parser.add_argument(
        "--notebook", type=Path, required=True, help="py:percent notebook, named in inputs.yaml beside it"
    )
    parser.add_argument("--tables", type=Path, required=True, metavar="DIR", help="folder of the run's tables (CSV)")
    parser.add_argument("--output", type=Path, required=True, metavar="PDF", help="the figure; all else goes beside it")


def run(options: argparse.Namespace) -> None:
    """Execute the notebook in a temporary folder beside the output, then move all five files to their places."""
    title, tables = declared(options.notebook, options.tables)
    stem = options.output.with_suffix("")
    stem.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{stem.name}.", dir=stem.parent) as folder:
        draft = Path(folder) / stem.name
        values = {"run": options.settings.get("run", ""), "tables": str(options.tables), "output": str(draft)}
        execute(options.notebook, values, options.log)
        missing = [suffix for suffix in plotting.FORMATS if not Path(f"{draft}{suffix}").is_file()]
        if missing:
            raise UserError(
                f"{options.notebook} wrote no {' and no '.join(missing)}: end it with plotting.save(figure, output)"
            )
        finish(draft, stem, title)
        facts = {"notebook": {"name": options.notebook.name, "sha256": sha256(options.notebook)}}
        facts["inputs"] = {table.name: sha256(table) for table in tables}
        Path(f"{draft}.json").write_text(json.dumps(record("figure", options.settings, **facts), indent=2) + "\n")
        for suffix in (*plotting.FORMATS, ".ipynb", ".html", ".json"):
            Path(f"{draft}{suffix}").replace(f"{stem}{suffix}")
    logger.info("%s: %s", stem.name, title)


def declared(notebook: Path, tables: Path) -> tuple[str, list[Path]]:
    """The figure's title and the table files it reads, which must exist."""
    declaration = notebook.with_name("inputs.yaml")
    figures = yaml.safe_load(declaration.read_text())
    if not notebook.is_file() or notebook.stem not in figures:
        raise UserError(f"no figure {notebook.stem}: it needs {notebook} and an entry in {declaration}")
    files = [tables / f"{name}.csv" for name in figures[notebook.stem]["tables"]]
    absent = ", ".join(str(file) for file in files if not file.is_file())
    if absent:
        raise UserError(f"figure {notebook.stem} reads tables that are missing: {absent}. Make these tables first")
    return figures[notebook.stem]["title"], files


def execute(notebook: Path, values: dict[str, Any], log: Path | None) -> None:
    """Run the notebook with ``values`` as parameters; the executed one goes to ``output`` with .ipynb added.

    After an error the notebook, as far as it got, stays beside the log.
    """
    executed = Path(f"{values['output']}.ipynb")
    nbformat.write(jupytext.read(notebook), executed)
    try:
        with tempfile.TemporaryDirectory() as folder:
            papermill.execute_notebook(
                executed, executed, values, kernel_name="python3", language="python",
                progress_bar=sys.stderr.isatty(), start_timeout=600, config=own_kernel(Path(folder)),
            )  # fmt: skip
    except (PapermillExecutionError, DeadKernelError) as error:
        place = ""
        if log is not None:
            with replacing(log.with_suffix(".ipynb")) as kept:
                shutil.copyfile(executed, kept)
            place = f"; as far as it got it is in {log.with_suffix('.ipynb')}"
        if isinstance(error, DeadKernelError):
            raise UserError(f"{notebook}: its kernel died, perhaps for want of memory{place}") from error
        logger.info("%s", error)
        raise UserError(f"{notebook}, cell {error.exec_count}: {error.ename}: {error.evalue}{place}") from error


def own_kernel(folder: Path) -> Config:
    """Make ``python3`` this interpreter, with the library on its path, and keep Jupyter's own files in ``folder``.

    Kernels that the user or another environment installed under that name come later on Jupyter's path. Sockets
    are files, as kernels that start at the same time can pick the same port; only too long a path forbids it.
    """
    write_kernel_spec(folder / "kernels" / "python3", extra_arguments=["--log-level=CRITICAL"])
    places = [str(_LIBRARY), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ.update(
        JUPYTER_PATH=str(folder),
        JUPYTER_RUNTIME_DIR=str(folder),
        IPYTHONDIR=str(folder),
        PYTHONPATH=os.pathsep.join(places),
        PYDEVD_DISABLE_FILE_VALIDATION="1",
    )
    if len(str(folder)) >= _LONGEST_SOCKET_FOLDER:
        return Config()
    # Left alone, the sockets of all kernels would have one name in the working folder.
    return Config({"KernelManager": {"transport": "ipc", "ip": str(folder / "kernel")}})


def finish(draft: Path, stem: Path, title: str) -> None:
    """Strip from the executed notebook what differs between equal runs, and write it as HTML that needs no network."""
    notebook = nbformat.read(f"{draft}.ipynb", as_version=4)
    notebook.metadata.pop("papermill", None)
    notebook.metadata["title"] = title
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number}"
        cell.source = cell.source.replace(str(draft), str(stem))
        for key in ("papermill", "execution"):
            cell.metadata.pop(key, None)
    nbformat.write(notebook, f"{draft}.ipynb")
    loader = DictLoader({"figure.html.j2": _TEMPLATE})
    html, _ = HTMLExporter(
        template_file="figure.html.j2", extra_loaders=[loader], embed_images=True
    ).from_notebook_node(notebook)
    missing = "No description has been provided for this image"
    Path(f"{draft}.html").write_text(html.replace(missing, title))
