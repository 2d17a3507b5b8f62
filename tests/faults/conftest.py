"""The finished micro run, as the workflow's tests make it."""

import importlib.util
import sys
from pathlib import Path

_PATH = Path(__file__).resolve().parents[1] / "workflow" / "conftest.py"
_SPEC = importlib.util.spec_from_file_location("workflow_projects", _PATH)
sys.modules[_SPEC.name] = _module = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(_module)
fresh, finished = _module.fresh, _module.finished
