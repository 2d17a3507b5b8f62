"""Documents from MediaWiki dumps, lines and tables, and what is kept of an article."""

import argparse
import bz2
import json

import pandas as pd
import pyarrow.parquet as pq
import pytest

import makers
from headgeom import corpora, documents, tables
from headgeom.errors import UserError
from headgeom.files import sha256
from headgeom.stages import convert_corpus, fetch
from headgeom.wikitext import prose

PAGE = """<page><title>{title}</title><ns>{ns}</ns><id>{id}</id>{redirect}
<revision><id>9{id}</id><contributor><id>7</id></contributor><text>{text}</text></revision></page>"""
DUMP = '<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.10/">{}</mediawiki>'


def page(number, text, title="Title", ns=0, redirect=""):
    return PAGE.format(id=number, text=text, title=title, ns=ns, redirect=redirect)


def convert(tmp_path, path, **settings):
    """Fetch ``path``, convert it; the documents and their provenance."""
    source = {"kind": "local", "path": str(path)}
    fetched = {"name": "tiny", "role": "corpus", "source": source}
    fetch.run(argparse.Namespace(settings=fetched, output=tmp_path / "source", pin=None))
    options = argparse.Namespace(
        settings={"name": "tiny", **settings}, source=tmp_path / "source", output=tmp_path / "documents.parquet"
    )
    convert_corpus.run(options)
    return tables.read_parquet(options.output)


@pytest.mark.parametrize("compressed", [False, True])
def test_articles_of_a_dump(tmp_path, compressed):
    pages = [
        page(12, "The ''first'' [[article|one]].", title="First &amp; last"),
        page(13, "#REDIRECT [[First]]", redirect='<redirect title="First"/>'),
        page(14, "Talk about it.", ns=1),
        page(15, "{{stub}}\n[[Category:Empty]]"),
        page(16, "Second."),
    ]
    dump = DUMP.format("".join(pages)).encode()
    path = tmp_path / ("dump.xml.bz2" if compressed else "dump.xml")
    path.write_bytes(bz2.compress(dump) if compressed else dump)
    frame, provenance = convert(tmp_path, path, format="mediawiki")
    assert frame.to_dict("records") == [
        {"id": "12", "title": "First & last", "text": "The first one."},
        {"id": "16", "title": "Title", "text": "Second."},
    ]
    assert {key: provenance[key] for key in ("read", "empty", "duplicates", "documents")} == {
        "read": 3,
        "empty": 1,
        "duplicates": 0,
        "documents": 2,
    }


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"<mediawiki><page>\n<title>caf\xe9</title></page></mediawiki>", "line 2, column 10: not well-formed XML"),
        (b"<mediawiki><page><title>a</title>", "line 1.*no element found"),
        (b"<mediawiki><page><title>a</title></page></mediawiki>", "lacks its id, ns, title or revision"),
    ],
)
def test_a_broken_dump_is_refused(tmp_path, content, message):
    (tmp_path / "dump.xml").write_bytes(content)
    with pytest.raises(UserError, match=rf"dump\.xml.*{message}"):
        list(corpora.read_mediawiki(tmp_path / "dump.xml"))


def test_a_dump_that_is_cut_short_is_refused(tmp_path):
    dump = DUMP.format("".join(page(number, "Words. " * 50) for number in range(99))).encode()
    (tmp_path / "dump.xml.bz2").write_bytes(bz2.compress(dump)[:-20])
    with pytest.raises(UserError, match="Is the file whole"):
        list(corpora.read_mediawiki(tmp_path / "dump.xml.bz2"))


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("'''Bold''' and ''italic''  words&nbsp;here.", "Bold and italic words here."),
        ("A [[dog]], a [[cat (animal)|cat]] and [[:Category:Pets]].", "A dog, a cat and Category:Pets."),
        ("A .NET [http://example.org site] and [http://example.org].", "A .NET site and."),
        ("Seen.<ref>Book, p. 3</ref><ref name=a/> Known.<!-- no -->", "Seen. Known."),
        ("Before\n{| class=wikitable\n| cell || {{a|b}}\n|}\nafter.", "Before\n\nafter."),
        ("[[File:a.jpg|thumb|A [[cat]] with {{lang|fr|mots}}]]\nText.\n[[fr:Chat]]", "Text."),
        ("The [[fr:chat|cat]] sat.", "The cat sat."),
        (
            "Rome ({{IPA|x}}; {{lang-la|Roma}}) is {{convert|3|to|5|km|mi}} wide ({{cite|x}}).",
            "Rome (Roma) is 3 to 5 km wide.",
        ),
        ("It is {{convert|100|km|mi|abbr=on}} away{{citation needed}}.", "It is 100 km away."),
        ("H<sub>2</sub>O <small>is {{lang|de|Wasser}}</small><math>x^2</math>.", "H2O is Wasser."),
        ("{|\n|}, which is {{x}}, a table.", "which is, a table."),
        ("One line\nand the same paragraph.\n\nAnother.", "One line and the same paragraph.\n\nAnother."),
        ("An ''unclosed {{x}} quote, '''here, stays readable.", "An unclosed quote, here, stays readable."),
        ("Fruit:\n* apple\n*# pear\n: indented\n; term\nEnd.", "Fruit:\n\nEnd."),
        ("Lead.\n== A ==\n=== B ===\nText.\n== C ==\n* item\n== See also ==\n{{x}}", "Lead.\n\nA\n\nB\n\nText."),
        ("== A ==\nOne.\n=== B ===\n* item\n== C ==\nTwo.", "A\n\nOne.\n\nC\n\nTwo."),
        ("__NOTOC__\nText <blockquote>quoted</blockquote>", "Text\n\nquoted"),
        ("{{Infobox\n| name = x\n* y\n}}\n", ""),
    ],
)
def test_prose_of_markup(markup, text):
    assert prose(markup) == text


def test_equal_lines_are_kept_once_and_counted(tmp_path):
    (tmp_path / "news.cor").write_bytes("First café.\r\n\nSecond.\n First café. \nThird.".encode())
    frame, provenance = convert(tmp_path, tmp_path / "news.cor", format="lines")
    assert list(frame["id"]) == ["1", "3", "5"]
    assert list(frame["text"]) == ["First café.", "Second.", "Third."]
    assert (frame["title"] == "").all()
    assert (provenance["read"], provenance["empty"], provenance["duplicates"]) == (5, 1, 1)
    assert provenance["source"]["files"][0]["sha256"] == sha256(tmp_path / "news.cor")


@pytest.mark.parametrize("name", ["a.cor", "a.csv", "a.jsonl"])
def test_text_that_is_not_utf8_is_refused_with_its_line(tmp_path, name):
    first = b"text" if name == "a.csv" else b'{"text": "good"}'
    (tmp_path / name).write_bytes(first + b'\n{"text": "caf\xe9"}\n')
    reader = corpora.read_lines if name == "a.cor" else lambda path: corpora.read_rows(path, {})
    with pytest.raises(UserError, match=rf"{name}, line 2, byte 14: not UTF-8"):
        list(reader(tmp_path / name))


def write_rows(path, frame):
    if path.suffix == ".csv":
        frame.to_csv(path, index=False)
    elif path.suffix == ".jsonl":
        frame.to_json(path, orient="records", lines=True)
    else:
        frame.to_parquet(path)


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_rows_with_named_columns(tmp_path, suffix):
    frame = pd.DataFrame({"key": [7, 8], "name": ['A, "B"', None], "body": ["One\ntwo", "NA"], "other": [0.5, 1]})
    write_rows(tmp_path / f"texts{suffix}", frame)
    columns = {"id": "key", "title": "name", "text": "body"}
    frame, _ = convert(tmp_path, tmp_path / f"texts{suffix}", format="rows", columns=columns)
    assert frame.to_dict("records") == [
        {"id": "7", "title": 'A, "B"', "text": "One\ntwo"},
        {"id": "8", "title": "", "text": "NA"},
    ]


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_rows_without_id_and_title(tmp_path, suffix):
    write_rows(tmp_path / f"texts{suffix}", pd.DataFrame({"text": ["One", "Two"]}))
    found = list(corpora.read_rows(tmp_path / f"texts{suffix}", {"id": "id", "title": "title", "text": "text"}))
    assert found == [("1", "", "One"), ("2", "", "Two")]


def test_numbers_as_ids_stay_as_they_are(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"id": 7, "text": "a"}\n\n{"text": "b"}\n{"id": 8, "text": "c"}\n')
    assert [document.id for document in corpora.read_rows(tmp_path / "a.jsonl", {})] == ["7", "2", "8"]


@pytest.mark.parametrize(
    ("name", "content", "columns", "message"),
    [
        ("a.csv", "body\nx", {}, r"no column 'text'; it has: body\. Set the corpus's `columns: text:`"),
        ("a.csv", "text\nx", {"title": "name"}, "no column 'name'"),
        ("a.jsonl", '{"text": "x"}\n{"text": ', {}, "line 2: not JSON"),
        ("a.jsonl", '["x"]', {}, "line 1: expected an object, found list"),
        ("a.txt", "x", {}, r"expected a file that ends in \.jsonl, \.csv, \.parquet"),
        ("a.parquet", "x", {}, "cannot be read as parquet"),
        ("a.csv", "", {}, "cannot be read as csv"),
    ],
)
def test_rows_that_cannot_be_read_are_refused(tmp_path, name, content, columns, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(UserError, match=message):
        list(corpora.read_rows(tmp_path / name, columns))


def test_ids_are_unique_and_something_is_left(tmp_path):
    def twice(text):
        return iter([documents.Document("1", "", text), documents.Document("1", "", "b")])

    path = tmp_path / "documents.parquet"
    with pytest.raises(UserError, match="origin: two documents have the id '1'"):
        documents.write(twice("a"), path, "origin", {})
    with pytest.raises(UserError, match=r"origin holds no documents: 1 were read, 1 empty\."):
        documents.write([documents.Document("1", "", " ")], path, "origin", {})
    assert not list(tmp_path.iterdir())


def test_the_format_needs_one_file(tmp_path):
    makers.tiny_rows(tmp_path / "folder" / "a.jsonl")
    makers.tiny_rows(tmp_path / "folder" / "b.jsonl")
    with pytest.raises(UserError, match=r"must name one file, but it gave: a\.jsonl, b\.jsonl"):
        convert(tmp_path, tmp_path / "folder", format="rows")


def test_the_file_is_the_same_on_a_rerun_and_has_its_provenance(tmp_path):
    path = makers.tiny_rows(tmp_path / "words.jsonl")
    frame, provenance = convert(tmp_path, path, format="rows")
    first = sha256(tmp_path / "documents.parquet")
    convert(tmp_path, path, format="rows")
    assert sha256(tmp_path / "documents.parquet") == first
    assert [dict(row) for row in frame.to_dict("records")] == makers.tiny_documents()
    schema = pq.read_schema(tmp_path / "documents.parquet")
    assert [str(field.type) for field in schema] == ["string"] * 3
    assert json.loads(pq.read_metadata(tmp_path / "documents.parquet").metadata[b"provenance"]) == provenance
    assert provenance["settings"] == {"name": "tiny", "format": "rows"}


def test_a_table_without_provenance_is_refused(tmp_path):
    pd.DataFrame({"id": ["1"]}).to_parquet(tmp_path / "other.parquet")
    with pytest.raises(UserError, match=r"other\.parquet has no provenance"):
        tables.read_parquet(tmp_path / "other.parquet")


@pytest.mark.parametrize(("value", "kind"), [(["a", "b"], "list"), (5, "int"), ({"a": 1}, "dict"), (True, "bool")])
def test_text_that_is_no_string_is_refused_with_its_row(tmp_path, value, kind):
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in ("fine", None, value)))
    with pytest.raises(UserError, match=f"row 3: 'text' is a {kind}, not a string"):
        list(corpora.read_rows(path, {}))


def test_articles_of_wikitext_are_split_at_top_level_titles_alone(tmp_path):
    lines = [
        "stray", "", " = Robert Boulter = ", "", " Robert is an actor . ", "", " = = Career = = ", "",
        " = = = Film = = = ", "", " In 2000 a = b = c . ", " = not alone = ", "", "",
        " = E = mc ² = ", "", " An equation . ", "", " = = Uses = = ", "", " Many . ", "",
    ]  # fmt: skip
    write_rows(tmp_path / "rows.parquet", pd.DataFrame({"text": [f"{line}\n" if line else "" for line in lines]}))
    frame, provenance = convert(tmp_path, tmp_path / "rows.parquet", format="wikitext")
    assert frame.to_dict("records") == [
        {
            "id": "1",
            "title": "Robert Boulter",
            "text": "= Robert Boulter =\n\nRobert is an actor .\n\n= = Career = =\n\n= = = Film = = =\n\n"
            "In 2000 a = b = c .\n= not alone =",
        },
        {"id": "2", "title": "E = mc ²", "text": "= E = mc ² =\n\nAn equation .\n\n= = Uses = =\n\nMany ."},
    ]
    assert (provenance["read"], provenance["documents"]) == (2, 2)


def test_wikitext_without_titles_is_refused(tmp_path):
    write_rows(tmp_path / "rows.jsonl", pd.DataFrame({"text": ["One.", "", "= = Heading = =", "", "Two."]}))
    with pytest.raises(UserError, match=r"rows\.jsonl has no line ` = Title = `.*format: rows"):
        convert(tmp_path, tmp_path / "rows.jsonl", format="wikitext")
