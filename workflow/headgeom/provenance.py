"""What made an artifact: code version, settings, packages, inputs and sources.

Records hold no time, host or user, so that the same inputs give the same bytes.
"""

import hashlib
import json
import subprocess
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
_PACKAGES = (
    "numpy", "scipy", "pandas", "pyarrow", "xarray", "h5netcdf", "h5py", "torch", "transformers", "tokenizers",
    "safetensors", "gguf", "datasets", "huggingface_hub", "mwparserfromhell", "matplotlib", "seaborn",
)  # fmt: skip


def canonical(value: Any) -> str:
    """JSON with sorted keys and no spaces: one text for equal values."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def digest(value: Any) -> str:
    """SHA-256 of the canonical JSON of ``value``, as hex."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()


@cache
def code_version() -> dict[str, Any]:
    """Commit of the project and whether its code differs from it; both None where git cannot tell."""

    def git(*arguments: str) -> str | None:
        command = ["git", "-c", f"safe.directory={ROOT}", "-C", str(ROOT), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.stdout.strip() if done.returncode == 0 else None

    unknown = {"commit": None, "modified": None}
    try:
        top, commit = git("rev-parse", "--show-toplevel"), git("rev-parse", "HEAD")
        changes = git("status", "--porcelain", "--", "Snakefile", "workflow", "envs", "requirements.lock")
    except FileNotFoundError:
        return unknown
    # Unpacked inside another repository, the project is not at its top.
    if commit is None or changes is None or top is None or Path(top).resolve() != ROOT:
        return unknown
    return {"commit": commit, "modified": bool(changes)}


def packages() -> dict[str, str]:
    """Versions of the imported packages that can change a result."""
    found = {"python": ".".join(map(str, sys.version_info[:3]))}
    for name in _PACKAGES:
        if name in sys.modules:
            try:
                found[name] = version(name)
            except PackageNotFoundError:
                continue
    return found


def record(stage: str, settings: dict[str, Any], **facts: Any) -> dict[str, Any]:
    """Provenance of one artifact: the stage, its config slice and hash, code, packages, and ``facts``
    (such as ``sources``: what upstream recorded of models and corpora; ``inputs``; ``device``)."""
    return {
        "stage": stage,
        "code": code_version(),
        "settings": settings,
        "settings_sha256": digest(settings),
        "packages": packages(),
        **facts,
    }
