"""Stages run by hand: what is missing is said in one line."""

import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

import makers

ROOT = Path(__file__).resolve().parents[2]
run = importlib.import_module("run")
# Stages whose inputs are all told by their options; pin and fetch read the network.
READING = [stage for stage in run.STAGES if stage not in ("pin", "fetch")]


def call(*arguments):
    command = [sys.executable, "workflow/run.py", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("stage", READING)
def test_a_missing_input_is_one_line_that_names_its_option(tmp_path, stage, caplog, monkeypatch):
    for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "TOKENIZERS_PARALLELISM"):
        monkeypatch.setenv(name, "1")  # so that what the launcher sets is undone
    monkeypatch.setattr(run, "configure_logging", lambda path: None)
    parser, _ = run.parser_for(stage)
    arguments = []
    for action in parser._actions:
        if action.required:
            arguments += [action.option_strings[0], str(tmp_path / action.dest)]
    assert run.main([stage, *arguments]) == 1
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == 1 and not any(record.exc_info for record in caplog.records)
    assert messages[0].startswith("--") and "there is no such file or folder; make it first" in messages[0]
    assert not list(tmp_path.iterdir())


def test_on_the_command_line_there_is_no_traceback(tmp_path):
    done = call("tokenize", "--checkpoint", tmp_path, "--documents", "absent.parquet", "--output", tmp_path / "out")
    assert done.returncode == 1
    assert done.stderr == (
        "ERROR tokenize: --documents absent.parquet: there is no such file or folder; make it first, or correct the "
        "path.\n"
    )


def test_a_folder_without_its_files_is_one_line(tmp_path):
    documents = makers.tiny_corpus(tmp_path / "documents.parquet")
    (tmp_path / "empty").mkdir()
    settings = json.dumps({"model": "m", "corpus": "c"})
    arguments = ["--settings", settings, "--checkpoint", tmp_path / "empty", "--documents", documents]
    done = call("tokenize", *arguments, "--output", tmp_path / "out")
    assert done.returncode == 1
    assert done.stderr == (
        f"ERROR tokenize: {tmp_path / 'empty' / 'provenance.json'} is not there; make anew the input that it belongs "
        "to.\n"
    )
