"""Token windows: one a document, in an order and at offsets drawn by hashes (spec, section 9)."""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

SPLITS = ("geometry", "score", "evaluate")


def hashed(*parts: str | int) -> int:
    """A 64-bit integer from the parts, the same on every machine."""
    text = json.dumps(parts, ensure_ascii=False)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


@dataclass(frozen=True)
class Window:
    """One document's window. ``order`` counts eligible documents in hashed order, ``offset`` content tokens."""

    document: str
    split: str
    order: int
    offset: int
    tokens: list[int]


def hashed_order(seed: int, corpus: str, documents: Iterable[str]) -> list[str]:
    """Document ids in the order of their hashes, whatever their order in the corpus."""
    return sorted(documents, key=lambda document: (hashed(seed, corpus, document), document))


def cut(content: list[int], bos: int, length: int, draw: int) -> tuple[int, list[int]] | None:
    """Offset and window: BOS, then length - 1 content tokens from an offset drawn by ``draw``.

    None where the document is too short.
    """
    spare = len(content) - (length - 1)
    if spare < 0:
        return None
    offset = draw % (spare + 1)
    return offset, [bos, *content[offset : offset + length - 1]]


def windows(
    texts: Mapping[str, str],
    tokenize: Callable[[str], list[int]],
    *,
    seed: int,
    model: str,
    corpus: str,
    bos: int,
    length: int,
    documents: dict[str, int],
) -> Iterator[Window]:
    """Windows of the splits' documents, eligible ones in hashed order: geometry first, then score, then evaluate.

    ``texts`` maps ids to texts, ``documents`` splits to numbers. Fewer windows come out where documents run out.
    """
    splits = [split for split in SPLITS for _ in range(documents.get(split, 0))]
    order = 0
    for document in hashed_order(seed, corpus, texts):
        if order == len(splits):
            return
        found = cut(tokenize(texts[document]), bos, length, hashed(seed, model, corpus, document, length))
        if found is not None:
            yield Window(document, splits[order], order, *found)
            order += 1
