"""A stand-in for the command ``conda`` in tests: what Snakemake calls, with py-rattler as solver and installer.

It follows conda's command line, and conda's way with a YAML's pip section. It shows that Snakemake makes and uses the
shipped environments; it does not show that conda-forge solves them.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import traceback
from pathlib import Path
from tempfile import NamedTemporaryFile

VERSION = "26.5.3"  # of the conda that is followed
ACTIVATE = 'export CONDA_PREFIX="$1" CONDA_DEFAULT_ENV="$1" CONDA_SHLVL=1 PATH="$1/bin:$PATH"\n'


def install(root: Path, channels: Path) -> Path:
    """Install the stand-in below ``root``, its channels being folders of ``channels``; return the folder for PATH."""
    for folder in ("bin", "condabin", "pkgs"):
        (root / folder).mkdir(parents=True)
    (root / "bin" / "activate").write_text(ACTIVATE)
    command = root / "condabin" / "conda"
    call = f'env -u PYTHONPATH "{sys.executable}" "{Path(__file__).resolve()}" "{root}" "{channels}"'
    command.write_text(f'#!/bin/sh\nexec {call} "$@"\n')
    command.chmod(0o755)
    return command.parent


def main(root: Path, channels: Path, arguments: list[str]) -> None:
    """Answer one call."""
    if arguments == ["--version"]:
        print("conda", VERSION)
    elif arguments == ["info", "--json"]:
        prefixes = dict.fromkeys(("conda_prefix", "root_prefix"), str(root))
        print(json.dumps({"platform": "linux-64", "conda_version": VERSION, **prefixes}))
    elif arguments[:1] == ["config"]:
        print(json.dumps({"success": True, "get": {"channel_priority": "strict"}}))
    elif arguments[:2] == ["env", "create"]:
        create(root, channels, arguments[2:])
    elif arguments[:1] != ["clean"]:
        sys.exit(f"conda stand-in: not implemented: {arguments}")


def create(root: Path, channels: Path, arguments: list[str]) -> None:
    """``conda env create``."""
    import yaml

    parser = argparse.ArgumentParser()
    for flag in ("--quiet", "--no-default-packages"):
        parser.add_argument(flag, action="store_true")
    parser.add_argument("--file", type=Path, required=True)
    parser.add_argument("--prefix", type=Path, required=True)
    options = parser.parse_args(arguments)
    content = yaml.safe_load(options.file.read_text())
    specs = [entry for entry in content["dependencies"] if isinstance(entry, str)]
    urls = [(channels / name).as_uri() for name in content["channels"]]
    asyncio.run(solve_and_install(options.prefix, specs, urls, root / "pkgs"))
    for entry in content["dependencies"]:
        if isinstance(entry, dict):
            pip_install(options.prefix, entry["pip"], options.file.resolve().parent)


async def solve_and_install(prefix: Path, specs: list[str], urls: list[str], cache: Path) -> None:
    """Solve conda packages and link them into ``prefix``."""
    from rattler import Channel, MatchSpec, VirtualPackage, install, solve

    wanted = [MatchSpec(spec) for spec in specs]
    records = await solve([Channel(url) for url in urls], wanted, virtual_packages=VirtualPackage.detect())
    await install(records, target_prefix=prefix, cache_dir=cache, show_progress=False)


def pip_install(prefix: Path, requirements: list[str], folder: Path) -> None:
    """As conda does: a requirements file beside the YAML, installed by the environment's pip from there."""
    with NamedTemporaryFile("w", dir=folder, prefix="condaenv.", suffix=".requirements.txt") as stream:
        stream.write("\n".join(requirements))
        stream.flush()
        command = [prefix / "bin/python", "-m", "pip", "install", "-U", "-r", stream.name, "--exists-action=b"]
        subprocess.run(command, cwd=folder, check=True)


if __name__ == "__main__":
    code = 0
    try:
        main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
    except SystemExit as stop:
        code = 1
        print(stop.code, file=sys.stderr)
    except Exception:
        code = 1
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # py-rattler 0.28.0 now and then crashes while the interpreter shuts down
