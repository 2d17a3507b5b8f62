"""Readers of corpora: four source formats in, documents out, in the order of the source and as a stream."""

import bz2
import csv
import json
import math
import re
from collections.abc import Collection, Iterator
from itertools import chain, count, islice, tee
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pyarrow as pa
import pyarrow.parquet as pq

from .documents import GROUP, LARGEST, Document
from .errors import UserError
from .wikitext import prose

_TITLE = re.compile(r"= (?!= ).+(?<! =) =")  # = Title =, but not = = Heading = =


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
        text = prose(markup or "") if len(markup or "") <= LARGEST else None
        yield Document(own["id"].text or "", own["title"].text or "", text)


def read_lines(path: Path) -> Iterator[Document]:
    """A document a line of a UTF-8 file; the id is the line number, from 1."""
    for number, line in enumerate(_utf8_lines(path), start=1):
        yield Document(str(number), "", line)


def _utf8_lines(path: Path) -> Iterator[str | None]:
    """Lines with their ends, None for one of more than LARGEST bytes, which is never in memory.

    Raises UserError with the line and the byte in it for what is not UTF-8.
    """
    with path.open("rb", buffering=2**20) as stream:
        for number in count(1):
            line = stream.readline(LARGEST + 1)
            if not line:
                return
            if len(line) > LARGEST and not line.endswith(b"\n"):
                while not line.endswith(b"\n") and (line := stream.readline(2**18)):
                    pass
                yield None
                continue
            try:
                yield line.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                raise UserError(f"{path}, line {number}, byte {error.start + 1}: not UTF-8.") from error


def read_rows(path: Path, columns: dict[str, str]) -> Iterator[Document]:
    """Rows of a .jsonl, .csv or .parquet table, as a stream.

    ``columns`` names the table's columns for id, title and text (default: these names). An absent id is the row
    number, from 1; an absent title is empty. Raises UserError for a named column that is not there, and for no text.
    """
    names = {field: columns.get(field, field) for field in Document._fields}
    readers = {".jsonl": _jsonl_rows, ".csv": _csv_rows, ".parquet": _parquet_rows}
    if path.suffix not in readers:
        raise UserError(f"{path} cannot be read as rows: expected a file that ends in {', '.join(readers)}.")
    for number, row in enumerate(readers[path.suffix](path, names), start=1):
        if row is None:
            yield Document(str(number), "", None)
        else:
            value = row.get(names["text"])
            if not isinstance(value, str) and not _is_missing(value):
                raise UserError(
                    f"{path}, row {number}: {names['text']!r} is a {type(value).__name__}, not a string; make it one "
                    "text a row."
                )
            title, text = (_string(row.get(names[field])) for field in ("title", "text"))
            yield Document(_string(row.get(names["id"])) or str(number), title, text)


def read_wikitext(path: Path, columns: dict[str, str]) -> Iterator[Document]:
    """Articles of a table whose rows are lines, as WikiText's: joined, and split at the top-level titles.

    Such a title is a line `` = Title = `` between empty ones; deeper headings have more signs. What precedes the first
    is no article. The id is the article's number, from 1; the text starts with the title's line.
    """
    lines = (row.text if row.text is None else row.text.strip() for row in read_rows(path, columns))
    before, line, after = tee(chain([""], lines, [""]), 3)
    article: list[str | None] = []
    number = length = 0
    for above, here, below in zip(before, islice(line, 1, None), islice(after, 2, None), strict=False):
        if above == below == "" and here and _TITLE.fullmatch(here):
            if article:
                number += 1
                yield _wikitext_article(number, article)
            article, length = [here], 0
        elif article and article[-1] is not None:
            length += len(here or "")
            article.append(here if length <= LARGEST else None)
    if not article:
        raise UserError(f"{path} has no line ` = Title = ` between empty ones; is it WikiText? Else `format: rows`.")
    yield _wikitext_article(number + 1, article)


def _wikitext_article(number: int, lines: list[str | None]) -> Document:
    """A title's line and those under it; the last is None if they are too long."""
    text = None if lines[-1] is None else "\n".join(line for line in lines if line is not None)
    return Document(str(number), lines[0][1:-1].strip(), text)


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def _string(value: Any) -> str:
    """The value as text; what is missing becomes empty."""
    return "" if _is_missing(value) else str(value)


def _require_columns(known: Collection[str], names: dict[str, str], path: Path) -> None:
    """Raise UserError if the text's column, or one that the config names, is not ``known``."""
    for field, name in names.items():
        if name not in known and (field == "text" or name != field):
            listed = ", ".join(map(str, known))
            raise UserError(f"{path} has no column {name!r}; it has: {listed}. Set the corpus's `columns: {field}:`.")


def _parquet_rows(path: Path, names: dict[str, str]) -> Iterator[dict[str, Any]]:
    try:
        with pq.ParquetFile(path) as file:
            _require_columns(file.schema_arrow.names, names, path)
            wanted = [name for name in names.values() if name in file.schema_arrow.names]
            for batch in file.iter_batches(batch_size=GROUP, columns=wanted):
                yield from batch.to_pylist()
    except (ValueError, OSError, pa.ArrowException) as error:
        raise UserError(f"{path} cannot be read as parquet: {error}") from error


def _csv_rows(path: Path, names: dict[str, str]) -> Iterator[dict[str, str]]:
    def lines() -> Iterator[str]:
        for number, line in enumerate(_utf8_lines(path), start=1):
            if line is None:
                raise UserError(f"{path}, line {number}: longer than {LARGEST} bytes.")
            yield line

    csv.field_size_limit(LARGEST)
    reader = csv.reader(lines(), strict=True)
    try:
        header = next(reader, None)
        if header is None:
            raise UserError(f"{path} cannot be read as csv: it is empty; its first line must name the columns.")
        _require_columns(header, names, path)
        for cells in filter(None, reader):
            if len(cells) > len(header):
                raise UserError(f"{path}, line {reader.line_num}: {len(cells)} values for {len(header)} columns.")
            yield dict(zip(header, cells, strict=False))
    except csv.Error as error:
        raise UserError(f"{path} cannot be read as csv: line {reader.line_num}: {error}.") from error


def _jsonl_rows(path: Path, names: dict[str, str]) -> Iterator[dict[str, Any] | None]:
    """Objects, which need not have the same keys; None for a line that is too long."""
    known: dict[str, None] = {}
    for number, line in enumerate(_utf8_lines(path), start=1):
        try:
            row = None if line is None else json.loads(line) if line.strip() else {}
        except (ValueError, RecursionError) as error:
            raise UserError(f"{path}, line {number}: not JSON ({error}).") from error
        if not isinstance(row, dict | None):
            raise UserError(f"{path}, line {number}: expected an object, found {type(row).__name__}.")
        known.update(dict.fromkeys(row or ()))
        if row != {}:
            yield row
    if known:
        _require_columns(known, names, path)
