"""Documents of a corpus: three source formats in, one table ``id, title, text`` out.

A reader yields documents in the order of the source. Empty documents are skipped and of equal texts the first is
kept, so that no text can stand in two splits.
"""

import bz2
import json
import re
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import pandas as pd
import pyarrow as pa

from .errors import UserError
from .tables import read_parquet, write_parquet
from .wikitext import prose

SCHEMA = pa.schema([("id", pa.string()), ("title", pa.string()), ("text", pa.string())])
_TITLE = re.compile(r"= (?!= ).+(?<! =) =")  # = Title =, but not = = Heading = =


class Document(NamedTuple):
    """One text; ``id`` is unique in its corpus, ``title`` may be empty."""

    id: str
    title: str
    text: str


def write_documents(frame: pd.DataFrame, path: str | Path, provenance: dict[str, Any]) -> None:
    """Write a table with the string columns id, title and text."""
    write_parquet(frame, path, provenance, SCHEMA)


def read_documents(path: str | Path) -> tuple[pd.DataFrame, dict[str, Any]]:
    """The documents (string columns id, title, text) and their provenance."""
    return read_parquet(path)


def unique_documents(documents: Iterator[Document], origin: str) -> tuple[pd.DataFrame, dict[str, int]]:
    """The table of non-empty documents with distinct texts, and how many were read, empty, duplicate and kept.

    Raises UserError, naming ``origin``, if two documents share an id or if nothing is left.
    """
    kept: dict[str, Document] = {}
    ids: set[str] = set()
    read = empty = 0
    for document in documents:
        read += 1
        if document.id in ids:
            raise UserError(f"{origin}: two documents have the id {document.id!r}; ids must be unique.")
        ids.add(document.id)
        text = document.text.strip()
        if not text:
            empty += 1
        else:
            kept.setdefault(text, document._replace(text=text))
    if not kept:
        raise UserError(f"{origin} holds no documents: {read} were read and all are empty.")
    counts = {"read": read, "empty": empty, "duplicates": read - empty - len(kept), "documents": len(kept)}
    return pd.DataFrame(list(kept.values()), columns=Document._fields, dtype="str"), counts


def read_mediawiki(path: Path) -> Iterator[Document]:
    """Articles of a MediaWiki XML dump, plain or .bz2, read as a stream: namespace 0, no redirects.

    The id is the page's. Raises UserError with the line for XML that is broken, cut short or not UTF-8.
    """
    try:
        with bz2.open(path) if path.suffix == ".bz2" else path.open("rb") as stream:
            events = ElementTree.iterparse(stream, events=("start", "end"))
            _, root = next(events)
            for event, element in events:
                if event == "end" and _name(element) == "page":
                    yield from _article(element, path)
                    root.clear()
    except ElementTree.ParseError as error:
        line, column = error.position
        raise UserError(f"{path}, line {line}, column {column}: not well-formed XML in UTF-8 ({error}).") from error
    except (EOFError, OSError) as error:
        raise UserError(f"{path} cannot be read: {error}. Is the file whole?") from error


def _name(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2]


def _article(page: ElementTree.Element, path: Path) -> Iterator[Document]:
    """The page as a document, nothing if it is no article."""
    own = {_name(child): child for child in page}  # revision and contributor have an id too
    if not {"id", "ns", "title", "revision"} <= set(own):
        raise UserError(f"{path}: a page lacks its id, ns, title or revision; is it a MediaWiki XML export?")
    markup = next((child.text for child in own["revision"] if _name(child) == "text"), None)
    if own["ns"].text == "0" and "redirect" not in own:
        yield Document(own["id"].text or "", own["title"].text or "", prose(markup or ""))


def read_lines(path: Path) -> Iterator[Document]:
    """A document a line of a UTF-8 file; the id is the line number, from 1."""
    for number, line in enumerate(_utf8_lines(path), start=1):
        yield Document(str(number), "", line)


def _utf8_lines(path: Path) -> Iterator[str]:
    """Lines with their ends. Raises UserError with the line and the byte in it for what is not UTF-8."""
    with path.open("rb") as stream:
        for number, line in enumerate(stream, start=1):
            try:
                yield line.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                raise UserError(f"{path}, line {number}, byte {error.start + 1}: not UTF-8.") from error


def read_rows(path: Path, columns: dict[str, str]) -> Iterator[Document]:
    """Rows of a .jsonl, .csv or .parquet table.

    ``columns`` names the table's columns for id, title and text (default: these names). An absent id is the row
    number, from 1; an absent title is empty. Raises UserError for a named column that is not there, and for no text.
    """
    frame = _table(path)
    names = {field: columns.get(field, field) for field in Document._fields}
    for field, name in names.items():
        if name not in frame.columns and (field == "text" or name != field):
            known = ", ".join(map(str, frame.columns))
            raise UserError(f"{path} has no column {name!r}; it has: {known}. Set the corpus's `columns: {field}:`.")
    _require_strings(frame[names["text"]], path)
    texts = _strings(frame[names["text"]])
    titles = _strings(frame[names["title"]]) if names["title"] in frame.columns else [""] * len(frame)
    ids = _strings(frame[names["id"]]) if names["id"] in frame.columns else map(str, range(1, len(frame) + 1))
    return map(Document, ids, titles, texts)


def read_wikitext(path: Path, columns: dict[str, str]) -> Iterator[Document]:
    """Articles of a table whose rows are lines, as WikiText's: joined, and split at the top-level titles.

    Such a title is a line `` = Title = `` between empty ones; deeper headings have more signs. What precedes the first
    is no article. The id is the article's number, from 1; the text starts with the title's line.
    """
    lines = [row.text.strip() for row in read_rows(path, columns)]
    empty = [True, *(not line for line in lines), True]  # of the line before each, the line, the line after it
    starts = [
        number
        for number, line in enumerate(lines)
        if empty[number] and empty[number + 2] and (_TITLE.fullmatch(line) is not None)
    ]
    if not starts:
        raise UserError(f"{path} has no line ` = Title = ` between empty ones; is it WikiText? Else `format: rows`.")
    for number, (start, end) in enumerate(zip(starts, [*starts[1:], len(lines)], strict=True), start=1):
        yield Document(str(number), lines[start][1:-1].strip(), "\n".join(lines[start:end]))


def _require_strings(column: pd.Series, path: Path) -> None:
    """Refuse texts of another type: a list's or a number's repr would be measured as if it were prose."""
    for number, value in enumerate(column, start=1):
        if not isinstance(value, str) and not (pd.api.types.is_scalar(value) and pd.isna(value)):
            kind = type(value).__name__
            raise UserError(f"{path}, row {number}: {column.name!r} is a {kind}, not a string; make it one text a row.")


def _table(path: Path) -> pd.DataFrame:
    readers = {".jsonl": _read_jsonl, ".csv": _read_csv, ".parquet": pd.read_parquet}
    if path.suffix not in readers:
        raise UserError(f"{path} cannot be read as rows: expected a file that ends in {', '.join(readers)}.")
    try:
        return readers[path.suffix](path)
    except (ValueError, pa.ArrowException) as error:
        raise UserError(f"{path} cannot be read as {path.suffix[1:]}: {error}") from error


def _read_csv(path: Path) -> pd.DataFrame:
    return pd.read_csv(StringIO("".join(_utf8_lines(path))), dtype=str, keep_default_na=False)


def _read_jsonl(path: Path) -> pd.DataFrame:
    """Values keep their JSON type: an integer id beside a missing one does not become a float."""
    rows = []
    for number, line in enumerate(_utf8_lines(path), start=1):
        try:
            row = json.loads(line) if line.strip() else {}
        except ValueError as error:
            raise UserError(f"{path}, line {number}: not JSON ({error}).") from error
        if not isinstance(row, dict):
            raise UserError(f"{path}, line {number}: expected an object, found {type(row).__name__}.")
        if row:
            rows.append(row)
    return pd.DataFrame(rows, dtype=object)


def _strings(column: pd.Series) -> list[str]:
    """The column as text; what is missing becomes empty."""
    return ["" if missing else str(value) for value, missing in zip(column, column.isna(), strict=True)]
