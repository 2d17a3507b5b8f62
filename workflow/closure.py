"""The code that a stage depends on, as one hash: Snakemake does not watch imported modules.

A rule carries the hash as a parameter, so that an edit of a module re-runs the stages that import it, and no others.
"""

import ast
import hashlib
from pathlib import Path

ROOT = Path(__file__).resolve().parent
PACKAGE = ROOT / "headgeom"


def digest(*entries: str) -> str:
    """Hash of the files ``entries`` (relative to workflow/), the launcher, and all they import of headgeom."""
    todo = [ROOT / "run.py", *(ROOT / entry for entry in entries)]
    seen: set[Path] = set()
    while todo:
        path = todo.pop()
        if path not in seen:
            seen.add(path)
            todo += _imports(path)
    combined = hashlib.sha256()
    for path in sorted(seen):
        combined.update(f"{path.relative_to(ROOT)}\n".encode() + path.read_bytes())
    return combined.hexdigest()[:16]


def stage(name: str) -> str:
    """Hash of the stage's import closure."""
    return digest(f"headgeom/stages/{name}.py")


def _imports(path: Path) -> list[Path]:
    """Files of headgeom that ``path`` imports."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            if node.level:
                base = path.parents[node.level - 1]
            elif (node.module or "").split(".")[0] == "headgeom":
                base = ROOT
            else:
                continue
            base = base.joinpath(*(node.module or "").split("."))
            found += [base.with_suffix(".py"), *(base / f"{alias.name}.py" for alias in node.names)]
        elif isinstance(node, ast.Import):
            found += [ROOT.joinpath(*alias.name.split(".")).with_suffix(".py") for alias in node.names]
    return [file for file in found if file.is_file() and file.is_relative_to(PACKAGE)]
