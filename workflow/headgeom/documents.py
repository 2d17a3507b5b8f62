"""The documents of a corpus as a table ``id, title, text``: written, and read again, as a stream.

A corpus need not fit in memory. Skipped, and counted in the provenance, are documents that are

    empty          of white space alone
    too_large      longer than LARGEST: no text, and one line can be a whole file without line ends
    control        with control characters other than white space, or with half a surrogate pair: no text either
    duplicates     of a text that was there before: no text can stand in two splits
"""

import hashlib
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from .errors import UserError
from .files import replacing
from .provenance import canonical
from .tables import KEY

LARGEST = 2**24
"""Most bytes of a line and characters of a text."""
GROUP = 256
"""Most documents of a row group."""
SKIPPED = ("empty", "too_large", "control", "duplicates")

SCHEMA = pa.schema([("id", pa.string()), ("title", pa.string()), ("text", pa.string())])
_NO_TEXT = re.compile(r"[\x00-\x08\x0e-\x1f\x7f\ud800-\udfff]")


class Document(NamedTuple):
    """One text; ``id`` is unique in its corpus, ``title`` may be empty. The text is None if it is too large to read."""

    id: str
    title: str
    text: str | None


def write(documents: Iterable[Document], path: str | Path, origin: str, provenance: dict[str, Any]) -> dict[str, int]:
    """Write what ``unique`` keeps; return its counts, which the provenance gets too.

    Raises UserError, naming ``origin``, if nothing is left.
    """
    counts: Counter[str] = Counter(dict.fromkeys((*SKIPPED, "read", "documents"), 0))
    with replacing(path) as temporary, pq.ParquetWriter(temporary, SCHEMA) as writer:
        for group in _groups(unique(documents, origin, counts)):
            columns = (pa.array(values, pa.string()) for values in zip(*group, strict=True))
            writer.write_table(pa.table(list(columns), schema=SCHEMA))
        if not counts["documents"]:
            skipped = ", ".join(f"{counts[reason]} {reason}" for reason in SKIPPED if counts[reason])
            raise UserError(f"{origin} holds no documents: {counts['read']} were read{skipped and f', {skipped}'}.")
        writer.add_key_value_metadata({KEY: canonical({**provenance, **counts})})
    return dict(counts)


def _groups(documents: Iterable[Document]) -> Iterator[list[Document]]:
    """Documents by the row group: together not much longer than the longest may be."""
    group: list[Document] = []
    length = 0
    for document in documents:
        group.append(document)
        length += len(document.text or "")
        if length >= LARGEST or len(group) == GROUP:
            yield group
            group, length = [], 0
    if group:
        yield group


class Texts(Mapping[str, str]):
    """The texts of a documents.parquet by id; in memory are the ids, and one row group at a time."""

    def __init__(self, path: str | Path):
        """Read the ids."""
        self._file = pq.ParquetFile(path)
        self._rows = {row: number for number, row in enumerate(self._file.read(["id"])["id"].to_pylist())}
        metadata = self._file.metadata
        sizes = (metadata.row_group(group).num_rows for group in range(metadata.num_row_groups))
        self._ends = list(accumulate(sizes))

    def __getitem__(self, document: str) -> str:
        """The text, read anew each time."""
        row = self._rows[document]
        group = bisect_right(self._ends, row)
        start = self._ends[group - 1] if group else 0
        return self._file.read_row_group(group, ["text"])["text"][row - start].as_py()

    def __iter__(self) -> Iterator[str]:
        """Ids, in the order of the file."""
        return iter(self._rows)

    def __len__(self) -> int:
        """Number of documents."""
        return len(self._rows)


def unique(documents: Iterable[Document], origin: str, counts: Counter[str]) -> Iterator[Document]:
    """The documents that are kept, with stripped texts; ``counts`` gets how many were read, kept, or skipped and why.

    Remembered are hashes, not texts. Raises UserError, naming ``origin``, if two documents share an id.
    """
    ids: set[bytes] = set()
    texts: set[bytes] = set()
    for document in documents:
        counts["read"] += 1
        if _is_known(document.id, ids):
            raise UserError(f"{origin}: two documents have the id {document.id!r}; ids must be unique.")
        document = document._replace(text=document.text and document.text.strip())
        reason = _reason_to_skip(document) or ("duplicates" if _is_known(document.text, texts) else None)
        counts[reason or "documents"] += 1
        if reason is None:
            yield document


def _reason_to_skip(document: Document) -> str | None:
    if document.text is None or len(document.text) > LARGEST:
        return "too_large"
    if not document.text:
        return "empty"
    return "control" if any(map(_NO_TEXT.search, document)) else None


def _is_known(text: str, digests: set[bytes]) -> bool:
    """Whether the set has the text's digest, which it has from now on."""
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
    if digest in digests:
        return True
    digests.add(digest)
    return False
