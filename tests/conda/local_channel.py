"""A local conda channel for tests: ``python``, which wraps the interpreter that runs this, and ``pip``.

The wrapped Python works as in a virtual environment: a link to the interpreter, and a pyvenv.cfg that keeps the
interpreter's own packages out. pip comes from the wheel that ensurepip bundles.
"""

import ensurepip
import hashlib
import io
import json
import platform
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

INTERPRETER = Path(sys.executable).resolve()  # the real one, outside any virtual environment
MINOR = "{}.{}".format(*sys.version_info[:2])
VERSION = platform.python_version()
SUBDIR = {"x86_64": "linux-64", "aarch64": "linux-aarch64"}.get(platform.machine(), "")


def write(channel: Path) -> None:
    """Write both packages and the channel's index."""
    for subdir, (name, record) in ((SUBDIR, python(channel)), ("noarch", pip(channel))):
        index = {"info": {"subdir": subdir}, "packages": {name: record}, "packages.conda": {}, "repodata_version": 1}
        (channel / subdir / "repodata.json").write_text(json.dumps(index))


def python(channel: Path) -> tuple[str, dict[str, Any]]:
    """Write the package ``python``; return its file name and index record."""
    settings = f"home = {INTERPRETER.parent}\ninclude-system-site-packages = false\nversion = {VERSION}\n"
    files = {"pyvenv.cfg": settings.encode(), f"lib/python{MINOR}/site-packages/README.txt": b"for tests\n"}
    links = {f"bin/python{MINOR}": str(INTERPRETER), "bin/python3": f"python{MINOR}", "bin/python": f"python{MINOR}"}
    return package(channel / SUBDIR, "python", VERSION, files, links)


def pip(channel: Path) -> tuple[str, dict[str, Any]]:
    """Write the package ``pip``; return its file name and index record."""
    bundled = Path(ensurepip.__file__).parent / "_bundled"
    debian = Path("/usr/share/python-wheels")  # Debian keeps ensurepip's wheels there
    wheel = next(path for folder in (bundled, debian) for path in folder.glob("pip-*.whl"))
    with zipfile.ZipFile(wheel) as archive:
        files = {f"site-packages/{name}": archive.read(name) for name in archive.namelist() if name[-1] != "/"}
    link = {"type": "python", "entry_points": ["pip = pip._internal.cli.main:main"]}
    files["info/link.json"] = json.dumps({"package_metadata_version": 1, "noarch": link}).encode()
    return package(channel / "noarch", "pip", wheel.name.split("-")[1], files, {}, depends=["python"], noarch="python")


def package(
    folder: Path, name: str, version: str, files: dict[str, bytes], links: dict[str, str], **index: Any
) -> tuple[str, dict[str, Any]]:
    """Write one .tar.bz2 package of ``files`` and symbolic ``links``; return its file name and index record."""
    record = {"name": name, "version": version, "build": "0", "build_number": 0, "subdir": folder.name, "depends": []}
    record |= index
    paths = [_path(path, "hardlink", data) for path, data in files.items() if not path.startswith("info/")]
    paths += [_path(path, "softlink", b"") for path in links]
    info = {
        "info/index.json": json.dumps(record).encode(),
        "info/paths.json": json.dumps({"paths": paths, "paths_version": 1}).encode(),
        "info/files": "".join(f"{path['_path']}\n" for path in paths).encode(),
    }
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{name}-{version}-0.tar.bz2"
    with tarfile.open(target, "w:bz2") as archive:
        for path, data in (info | files).items():
            member = tarfile.TarInfo(path)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
        for path, goal in links.items():
            member = tarfile.TarInfo(path)
            member.type, member.linkname = tarfile.SYMTYPE, goal
            archive.addfile(member)
    content = target.read_bytes()
    return target.name, record | {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}


def _path(path: str, kind: str, data: bytes) -> dict[str, Any]:
    """Entry of a package's list of paths."""
    return {
        "_path": path,
        "path_type": kind,
        "sha256": hashlib.sha256(data).hexdigest(),
        "size_in_bytes": len(data),
    }
