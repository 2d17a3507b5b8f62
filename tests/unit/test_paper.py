"""No number of the paper is typed: digits stand in code, mathematics, names and labels only."""

import json
import re
from argparse import Namespace
from pathlib import Path

import pytest
import yaml

from headgeom.files import sha256
from headgeom.stages import paper as stage

PAPER = Path(__file__).resolve().parents[2] / "paper"
SOURCES = ("replication.typ", "bounds.typ", "removal.typ")

# What may hold a digit though it is not code: names of things, none of them a result.
NAMES = r"float32|float64|\b[CV]\d+\b|[Ss]ource 0|Theorem \d|Lemma \d|Proposition \d|\b\d+ roundings|LLaMA-[23]"
CODE = (
    r"//[^\n]*",  # comments
    r'"(?:[^"\\]|\\.)*"',  # strings
    r"\$[^$]*\$",  # mathematics
    r"`[^`]*`",
    r"[-\d.]+(?:pt|em|cm|fr)\b|\d+%",  # lengths
    r"@[a-z]+\w+",  # references
    r"digits: \d|level: \d|\(0\)|\.slice\([-\d, ]+\)|\.len\(\) [<>=]+ \d|!= 0\b|< 0\.1\b|\{ \d \}|100 \*",
)  # fmt: skip


def typed_numbers(text):
    """Digits that are left when code, mathematics and names are taken out."""
    for pattern in CODE:
        text = re.sub(pattern, " ", text)
    return re.findall(r"\S*\d\S*", re.sub(NAMES, " ", text))


@pytest.mark.parametrize("name", [name for name in SOURCES if (PAPER / name).is_file()])
def test_no_number_is_typed(name):
    assert typed_numbers((PAPER / name).read_text(encoding="utf-8")) == []


def test_every_figure_is_referred_to():
    text = "".join((PAPER / name).read_text(encoding="utf-8") for name in SOURCES)
    shown = set(re.findall(r'#shown-figure\("(\w+)"\)', text))
    assert shown
    assert shown == set(re.findall(r'(?:#see\("|@fig-)(\w+)', text))


def test_the_file_has_the_title_of_the_paper():
    text = (PAPER / "replication.typ").read_text(encoding="utf-8")
    assert 'document(title: title.join(" ")' in text
    assert '#text(size: 16pt, weight: "bold", title.join(linebreak()))' in text


def test_the_provenance_has_the_hashes_of_all_sources(tmp_path):
    (tmp_path / "paper/run").mkdir(parents=True)
    source, part, claims = tmp_path / "paper/a.typ", tmp_path / "paper/b.typ", tmp_path / "claims.json"
    source.write_text('#import "b.typ": body\n#body\n')
    part.write_text("#let body = [Text]\n")
    claims.write_text("{}")
    output = tmp_path / "paper/run/a.pdf"
    stage.run(Namespace(settings={}, source=source, inputs=[claims], output=output))
    record = json.loads(output.with_suffix(".json").read_text(encoding="utf-8"))
    assert record["inputs"] == {path.name: sha256(path) for path in (source, part, claims)}
    assert output.read_bytes().startswith(b"%PDF")


def test_captions_of_decisions_hold_no_number():
    for decision in yaml.safe_load((PAPER / "decisions.yaml").read_text(encoding="utf-8")):
        assert not re.search(r"\d", re.sub(r"[Ss]ource 0", "", " ".join(decision.values()))), decision["id"]


@pytest.mark.parametrize(
    "sentence",
    ["Mean F is 0.37.", "It falls by 12 %.", "Of 270 heads", "about 4 times", "caption: [Loss at 95 % kept]"],
)
def test_a_typed_number_is_found(sentence):
    text = (PAPER / "replication.typ").read_text(encoding="utf-8")
    assert typed_numbers(text.replace("= Limitations", f"= Limitations\n{sentence}"))
