"""MediaWiki markup to readable prose.

A page is rendered in one walk over the tree that mwparserfromhell parses: the words of links, formatting and a few
templates that stand for words stay; tables, references, other templates, comments, formulas, file and category links
go. What is left is cut into headings, list items and paragraphs. Lists go (they are no prose), and so do headings that
no paragraph follows.
"""

import re

import mwparserfromhell
from mwparserfromhell.nodes import ExternalLink, Heading, HTMLEntity, Tag, Template, Text, Wikilink
from mwparserfromhell.wikicode import Wikicode

DROPPED_TAGS = {
    "gallery", "graph", "imagemap", "math", "pre", "ref", "references", "score", "source", "syntaxhighlight", "table",
    "timeline",
}  # fmt: skip
LINE_TAGS = {"br", "hr", "blockquote", "center", "div", "p", "poem"}
# Templates that stand for words, and the positional parameter that holds them (-1: the last).
WORD_TEMPLATES = {
    "angbr": 1, "as of": 1, "big": 1, "lang": 2, "nihongo": 1, "nobold": 1, "nowrap": 1, "quote": 1, "sc": 1,
    "small": 1, "smaller": 1, "transl": -1, "val": 1, "vanchor": 1, "vr": 1,
}  # fmt: skip
FIXED_TEMPLATES = {"'s": "'s", "mdash": " — ", "mdashb": " — ", "nbsp": " ", "snd": " – ", "spaced ndash": " – "}
_NO_PROSE = tuple("*#:;|!{}")  # starts of list items, indented lines and debris of tables
RANGE_WORDS = {"-": "–", "–": "–", "and": " and ", "by": " by ", "or": " or ", "to": " to ", "x": " × "}

_NOT_TEXT = {"file", "image", "media", "category"}
_SITE_CODE = re.compile(r"[a-z]{2,3}(-[a-z-]+)?")
_HEADING = re.compile(r"(=+)\s*(.*?)\s*\1")
_STYLE = re.compile(r"'{2,5}")
_MAGIC_WORD = re.compile(r"__[A-Z]+__")
_EMPTY_BRACKETS = re.compile(r"\s*[(\[][\s,;:–-]*[)\]]")
_BRACKET_EDGES = (re.compile(r"\(\s*[,;:]?\s+"), re.compile(r"\s*[,;:]\s*\)"))
_SPACE_BEFORE = re.compile(r"\s+([,.;:!?)])(?=[\s,.;:)”\"]|$)")


def prose(markup: str) -> str:
    """The readable paragraphs of a page, headings between them, all separated by blank lines."""
    code = mwparserfromhell.parse(_MAGIC_WORD.sub("", markup), skip_style_tags=True)
    blocks: list[tuple[int, str]] = []
    paragraph_open = False
    for line in _render(code).splitlines():
        heading = _HEADING.fullmatch(line.strip())
        if heading:
            blocks.append((len(heading[1]), heading[2]))
        elif paragraph_open and line.strip() and not line.startswith(_NO_PROSE):
            blocks[-1] = (0, f"{blocks[-1][1]} {line}")
        elif line.strip() and not line.startswith(_NO_PROSE):
            blocks.append((0, line))
        paragraph_open = not heading and bool(line.strip()) and not line.startswith(_NO_PROSE)
    tidy = [(level, _tidied(text)) for level, text in blocks]
    return "\n\n".join(_without_empty_sections([block for block in tidy if any(map(str.isalnum, block[1]))]))


def _without_empty_sections(blocks: list[tuple[int, str]]) -> list[str]:
    """Texts of the ``(level, text)`` blocks (level 0: paragraph), less the headings of sections without a paragraph."""
    kept: list[str] = []
    deepest = 0  # headings above this level head the paragraphs already kept
    for level, text in reversed(blocks):
        if level == 0:
            kept.append(text)
            deepest = 7
        elif level < deepest:
            kept.append(text)
            deepest = level
    return kept[::-1]


def _render(code: Wikicode) -> str:
    """The visible text of parsed markup; list markers and headings stay as markup, for the cut into lines."""
    return "".join(map(_render_node, code.nodes))


def _render_node(node: object) -> str:
    match node:
        case Text():
            return str(node)
        case HTMLEntity():
            return node.normalize() or ""
        case Heading():
            return f"\n{'=' * node.level} {_render(node.title)} {'=' * node.level}\n"
        case Wikilink():
            return "" if _is_furniture(node) else _render(node.text or node.title).lstrip(":")
        case ExternalLink():
            return _render(node.title) if node.title else ""
        case Tag():
            return _render_tag(node)
        case Template():
            return _render_template(node)
    return ""


def _is_furniture(link: Wikilink) -> bool:
    """Whether a link shows a picture, files the page under a category, or names the page in another language."""
    prefix, colon, _ = str(link.title).strip().lower().partition(":")
    return bool(colon) and (prefix in _NOT_TEXT or (link.text is None and _SITE_CODE.fullmatch(prefix) is not None))


def _render_tag(tag: Tag) -> str:
    name = str(tag.tag).strip().lower()
    if name in DROPPED_TAGS:
        return ""
    if tag.wiki_markup and tag.self_closing:
        return tag.wiki_markup
    text = _render(tag.contents) if tag.contents is not None else ""
    return f"\n\n{text}\n\n" if name in LINE_TAGS else text


def _render_template(template: Template) -> str:
    name = str(template.name).strip().lower()
    words = [parameter.value for parameter in template.params if not parameter.showkey]
    if name in FIXED_TEMPLATES:
        return FIXED_TEMPLATES[name]
    if name in ("convert", "cvt"):
        return _measure([_render(word).strip() for word in words])
    position = 1 if name.startswith("lang-") else WORD_TEMPLATES.get(name)
    if position is None or len(words) < max(position, 1):
        return ""
    return _render(words[position if position < 0 else position - 1])


def _measure(words: list[str]) -> str:
    """What {{convert|3|to|5|km|mi}} starts with: the numbers and their unit."""
    if len(words) >= 4 and words[1] in RANGE_WORDS:
        return f"{words[0]}{RANGE_WORDS[words[1]]}{words[2]} {words[3]}"
    return " ".join(words[:2])


def _tidied(line: str) -> str:
    """One line with single spaces, without the quote marks of markup, and brackets and commas that lost their words."""
    line = " ".join(_STYLE.sub("", line).split())
    line = _EMPTY_BRACKETS.sub("", line)
    line = _BRACKET_EDGES[1].sub(")", _BRACKET_EDGES[0].sub("(", line))
    return " ".join(_SPACE_BEFORE.sub(r"\1", line).split()).lstrip(",;: ")
