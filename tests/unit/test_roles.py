"""Each stage's imports are among the pins of the conda environment that its rule names."""

import ast
import re
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import lock
import pytest
from packaging.utils import canonicalize_name

WORKFLOW = lock.ROOT / "workflow"
STAGES = WORKFLOW / "headgeom" / "stages"
DISTRIBUTIONS = packages_distributions()


def stage_roles() -> dict[str, str]:
    """Stage to role, read from the rules."""
    roles = {}
    for path in sorted((WORKFLOW / "rules").glob("*.smk")):
        for rule in re.split(r"^rule ", path.read_text(), flags=re.MULTILINE)[1:]:
            stage = re.search(r"workflow/run\.py (\w+)", rule)
            if stage:
                roles[stage[1]] = re.search(r"envs/(\w+)\.yaml", rule)[1]
    return roles


def statements(path: Path) -> list[ast.stmt]:
    """A stage's imports, those inside functions too; of another module the ones that importing it executes."""
    tree = ast.parse(path.read_text())
    nodes = ast.walk(tree) if path.parent == STAGES else tree.body
    return [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]


def names(path: Path, node: ast.stmt) -> list[str]:
    """Full names that an import statement of ``path`` may load as modules."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    package = path.relative_to(WORKFLOW).parts[: -node.level] if node.level else ()
    base = ".".join([*package, *filter(None, [node.module])])
    return [base, *(f"{base}.{alias.name}" for alias in node.names)]


def imports(path: Path) -> set[str]:
    """Top-level packages that running ``path`` imports, through the library's own modules too."""
    found, seen, queue = set(), set(), [path]
    while queue:
        path = queue.pop()
        if path in seen or not path.is_file():
            continue
        seen.add(path)
        for name in (name for node in statements(path) for name in names(path, node)):
            found.add(name.partition(".")[0])
            if name.startswith("headgeom."):
                queue.append(WORKFLOW.joinpath(*name.split(".")).with_suffix(".py"))
    return found - sys.stdlib_module_names - {"headgeom", ""}


def test_every_stage_has_a_rule():
    assert set(stage_roles()) == {path.stem for path in STAGES.glob("[a-z]*.py")}


@pytest.mark.parametrize(("stage", "role"), sorted(stage_roles().items()))
def test_stage_finds_its_imports(stage, role):
    paths = [STAGES / f"{stage}.py", *((WORKFLOW / "notebooks").glob("*.py") if role == "notebook" else ())]
    wanted = set().union(*map(imports, paths))
    pins = lock.closure(lock.groups()[role], lock.installed)
    missing = [name for name in wanted if not pins.keys() & set(map(canonicalize_name, DISTRIBUTIONS.get(name, ())))]
    assert not missing, f"envs/{role}.yaml lacks {missing}, which stage {stage} imports: extend the group {role}"
