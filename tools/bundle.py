"""Pack a finished run for a reviewer: ``python tools/bundle.py CONFIG`` writes results/<run>/bundle.tar.gz.

Unpacked over a fresh clone it gives all that the stages after the measurement read and what they made, each file as
the manifest lists it. The marker results/<run>/bundle.json tells the Snakefile to leave out the rules that measure, so
nothing asks for models or corpora. Times of modification and Snakemake's own records come along: with them Snakemake
sees an edit of a notebook, of the library or of the config as it would where the run was made, and nothing else.
"""

import base64
import io
import json
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

from runs import run_name

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "workflow"))

from headgeom import provenance
from headgeom.files import replacing, sha256

METADATA = Path(".snakemake/metadata")
TIMESTAMP = ".snakemake_timestamp"  # Snakemake's time of a folder that a rule made


def main(arguments: list[str]) -> int:
    """Pack the run of a config."""
    if len(arguments) != 1:
        raise SystemExit("usage: python tools/bundle.py CONFIG")
    config = inside(arguments[0])
    results = Path("results") / run_name(arguments[0])
    files = listed(results / "manifest.json", config)
    target = results / "bundle.tar.gz"
    with replacing(target) as temporary, tarfile.open(temporary, "w:gz") as archive:
        for path in [config, *sorted(files), *records(files)]:
            archive.add(path, recursive=False, filter=anonymous)
        add_marker(archive, results / "bundle.json", {"run": results.name, "config": config.as_posix()})
    print(f"{target}: {len(files)} files, {target.stat().st_size / 1e6:.1f} MB")
    return 0


def inside(name: str) -> Path:
    """The config's path in the project, for that is where it is unpacked."""
    path = Path(name).resolve()
    if not path.is_relative_to(Path.cwd()):
        raise SystemExit(f"{name}: lies outside of the project; move it to config/, so that a bundle can hold it")
    return path.relative_to(Path.cwd())


def listed(manifest: Path, config: Path) -> set[Path]:
    """The manifest and its files, which must be as it says, with the times of folders and what is known of models."""
    if not manifest.is_file():
        raise SystemExit(f"{manifest} is missing; make the run first, `make reproduce CONFIG={config}`")
    files = {manifest}
    for file in json.loads(manifest.read_text(encoding="utf-8"))["files"]:
        path = Path(file["path"])
        if not path.is_file() or file.get("sha256", sha256(path)) != sha256(path):
            raise SystemExit(f"{path} is not what {manifest} lists; bring the run up to date, `make reproduce`")
        files.add(path)
    made = json.loads((manifest.parent / "tables/models.json").read_text(encoding="utf-8"))
    models = {
        Path(f"resources/models/{model['name']}/checkpoint/provenance.json") for model in made["settings"]["models"]
    }
    for path in sorted(path for path in models if not path.is_file()):
        raise SystemExit(f"{path} is missing; bring the run up to date, `make reproduce CONFIG={config}`")
    files |= models
    return files | {stamp for path in files if (stamp := path.parent / TIMESTAMP).is_file()}


def records(files: set[Path]) -> Iterator[Path]:
    """Snakemake's records of the files, and of the folders that hold some."""
    known = {path.as_posix() for file in files for path in (file, file.parent)}
    for path in sorted(METADATA.rglob("*")):
        if path.is_file():
            # A long name is cut into folders, whose names begin with @.
            coded = "".join(part.removeprefix("@") for part in path.relative_to(METADATA).parts)
            if base64.urlsafe_b64decode(coded).decode() in known:
                yield path


def anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """The entry without its owner."""
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


def add_marker(archive: tarfile.TarFile, path: Path, facts: dict[str, str]) -> None:
    """Add the file by which the Snakefile knows an unpacked bundle."""
    content = json.dumps({**facts, "code": provenance.code_version()}, indent=1).encode() + b"\n"
    entry = tarfile.TarInfo(path.as_posix())
    entry.size = len(content)
    archive.addfile(entry, io.BytesIO(content))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
