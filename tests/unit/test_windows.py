"""Token windows and splits."""

from collections import Counter

import pytest

from headgeom import windows

TEXTS = {f"d{k}": "x" * (20 + k) for k in range(40)} | {"short": "x" * 8, "just": "x" * 9}
SETTINGS = {
    "seed": 1, "model": "m", "corpus": "c", "bos": 7, "length": 10,
    "documents": {"geometry": 5, "score": 3, "evaluate": 2},
}  # fmt: skip


def tokenize(text):
    return [100 + k for k in range(len(text))]


def cut(texts=TEXTS, **changes):
    return list(windows.windows(texts, tokenize, **SETTINGS | changes))


def test_windows_have_the_length_and_hold_bos_once_and_then_adjacent_tokens():
    for window in cut():
        assert len(window.tokens) == 10
        assert window.tokens[0] == 7
        first = 100 + window.offset
        assert window.tokens[1:] == list(range(first, first + 9))


def test_splits_are_disjoint_and_have_their_sizes():
    found = cut()
    assert Counter(window.split for window in found) == {"geometry": 5, "score": 3, "evaluate": 2}
    assert len({window.document for window in found}) == 10
    assert [window.order for window in found] == list(range(10))


def test_the_order_of_the_corpus_does_not_matter():
    assert cut(dict(reversed(TEXTS.items()))) == cut()


def test_documents_and_offsets_depend_on_what_they_are_drawn_from():
    base = cut()
    assert [w.document for w in cut(model="other")] == [w.document for w in base]
    for changes in ({"seed": 2}, {"model": "other"}, {"corpus": "other"}):
        assert [(w.document, w.offset) for w in cut(**changes)] != [(w.document, w.offset) for w in base]
    for changes in ({"seed": 2}, {"corpus": "other"}):
        assert [w.document for w in cut(**changes)] != [w.document for w in base]


def test_short_documents_are_skipped_and_one_that_just_fits_is_not():
    found = cut(documents={"geometry": 100})
    assert len(found) == 41
    assert "short" not in {window.document for window in found}
    assert next(window for window in found if window.document == "just").offset == 0


def test_offsets_reach_both_ends():
    texts = {str(k): "x" * 11 for k in range(200)}
    offsets = Counter(window.offset for window in cut(texts, documents={"geometry": 200}))
    assert set(offsets) == {0, 1, 2}
    assert min(offsets.values()) > 40


def test_hashes_are_the_same_everywhere():
    assert windows.hashed(1, "c", "d") == 760394789499205999
    assert windows.hashed("ab", "c") != windows.hashed("a", "bc")


@pytest.mark.parametrize("spare", [0, 1, 5])
def test_cut_takes_any_offset_of_the_spare_tokens(spare):
    content = list(range(9 + spare))
    offsets = {windows.cut(content, 7, 10, draw)[0] for draw in range(100)}
    assert offsets == set(range(spare + 1))
    assert windows.cut(content[: 9 - 1], 7, 10, 3) is None
