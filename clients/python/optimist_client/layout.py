"""Tables and sentences as lines of text, by one rule for all commands and displays.

In a terminal, a table that is too wide first breaks its heads into lines, then loses the columns that it names as the
first to go, and then continues below, with its first column again; a name that leaves no room for any other column is
broken where the line ends. Elsewhere nothing is left out: each row is one line.
Sentences end at the width of the terminal, elsewhere at COLUMNS, or `PIPED`.
"""

from __future__ import annotations

import os
import sys
import textwrap
import unicodedata
from collections.abc import Collection, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, TextIO

PIPED = 120
"""Columns of text of a sentence where the output is no terminal."""
_NARROWEST = 40
"""A narrower terminal breaks the lines itself."""
_GAP = "  "
_FEWEST = 24
"""A column of sentences is at least so wide: narrower ones are hard to read."""


def width_of(file: TextIO | None = None) -> int | None:
    """Columns of the terminal that a file writes to, by default standard output; None where it writes to none."""
    out: TextIO | None = sys.stdout if file is None else file
    if out is None or not out.isatty():  # a program without a console has no standard output
        return None
    try:
        columns = _asked_for() or os.get_terminal_size(out.fileno()).columns
    except (OSError, ValueError):
        columns = 0
    return max(columns or 80, _NARROWEST)


def _asked_for() -> int:
    """The columns that COLUMNS asks for; 0 without it."""
    asked = os.environ.get("COLUMNS", "")
    return max(int(asked), _NARROWEST) if asked.isdecimal() else 0


def wrapped(sentence: str, width: int | None) -> list[str]:
    """A sentence as lines, whose words stay whole."""
    width = width or _asked_for() or PIPED
    return textwrap.wrap(sentence, width, break_long_words=False, break_on_hyphens=False) or [""]


@dataclass(frozen=True)
class Table:
    """A table of texts. Its first column begins at the left."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    _: KW_ONLY
    title: str = ""
    first_to_go: Sequence[str] = ()
    """The columns that are left out where a terminal is too narrow, in this order."""
    left: Collection[str] = ()
    """Further columns that begin at the left."""
    sentences: str = ""
    """The column whose cells are broken into lines where a terminal is too narrow."""
    strong: Collection[int] = ()
    """The rows that are emphasised."""

    def styled(self, width: int | None) -> Iterator[tuple[str, str]]:
        """The lines, each with its style in the language of rich. width: of the terminal; None: there is none."""
        cells = [[_clean(cell) for cell in row] for row in (self.head, *self.rows)]
        widths = [max(map(_cells, column)) for column in zip(*cells, strict=True)]
        if self.title:
            yield from ((line, "") for line in wrapped(self.title, width))
        if width is not None and self._needed(widths, range(len(widths))) > width:
            longest = [max(map(_cells, head.split()), default=0) for head in cells[0]]
            bodies = [max(map(_cells, column), default=0) for column in zip(*cells[1:], strict=True)] or longest
            widths = [*map(max, longest, bodies)]
        kept, gone = self._kept(widths, width)
        if width is not None and (sentences := self._of_sentences) in kept:
            others = self._needed(widths, [other for other in kept if other != sentences])
            widths[sentences] = min(widths[sentences], max(width - others - len(_GAP), _FEWEST))
        if width is not None and len(kept) > 1:  # the first column stands beside each of the others
            widest = max(widths[index] for index in kept[1:])
            widths[0] = min(widths[0], max(width - len(_GAP) - widest, _FEWEST))
        for number, part in enumerate(_parts(widths, kept, width)):
            if number:
                yield "", ""
            yield from self._block(cells, part, widths, width)
        if gone:
            yield from ((line, "dim") for line in wrapped(f"Not shown for want of room: {', '.join(gone)}.", width))

    def lines(self, width: int | None) -> list[str]:
        """The lines. width: of the terminal; None: there is none."""
        return [line for line, _ in self.styled(width)]

    def _kept(self, widths: Sequence[int], width: int | None) -> tuple[list[int], list[str]]:
        """The columns that are shown, and the names of the others."""
        kept, gone = [*range(len(self.head))], list[str]()
        for name in self.first_to_go:
            if width is None or self._needed(widths, kept) <= width:
                break
            if name in self.head:
                kept.remove(self.head.index(name))
                gone.append(name)
        return kept, gone

    @property
    def _of_sentences(self) -> int:
        """The index of the column of sentences; -1 without one."""
        return self.head.index(self.sentences) if self.sentences else -1

    def _needed(self, widths: Sequence[int], columns: Sequence[int]) -> int:
        """The width that these columns need, a column of sentences at its narrowest."""
        of = self._of_sentences
        needed = (min(widths[index], _FEWEST) if index == of else widths[index] for index in columns)
        return sum(needed) + len(_GAP) * (len(columns) - 1)

    def _block(
        self, cells: Sequence[Sequence[str]], part: Sequence[int], widths: Sequence[int], width: int | None
    ) -> Iterator[tuple[str, str]]:
        """The lines of these columns."""
        for number, row in enumerate(cells):
            broken = [self._broken(row[column], column, widths[column], is_head=number == 0) for column in part]
            style = "bold" if number == 0 else "bold green" if number - 1 in self.strong else ""
            for at in range(max(map(len, broken))):
                shown = (texts[at] if at < len(texts) else "" for texts in broken)
                padded = (self._padded(text, column, widths[column]) for text, column in zip(shown, part, strict=True))
                yield _GAP.join(padded).rstrip(), style
            if number == 0 and width is not None:
                yield "─" * (sum(widths[column] for column in part) + len(_GAP) * (len(part) - 1)), "dim"

    def _broken(self, text: str, column: int, width: int, *, is_head: bool) -> list[str]:
        """The lines of a cell. A name without spaces that is too long is broken where the line ends."""
        if column == self._of_sentences or is_head:
            return wrapped(text, width)
        return textwrap.wrap(text, width, break_on_hyphens=False) if column == 0 and _cells(text) > width else [text]

    def _padded(self, text: str, column: int, width: int) -> str:
        room = " " * (width - _cells(text))
        is_left = column in (0, self._of_sentences) or self.head[column] in self.left
        return text + room if is_left else room + text


def _parts(widths: Sequence[int], kept: Sequence[int], width: int | None) -> list[list[int]]:
    """The columns that stand beside one another, the first of all in each part."""
    first, *others = kept
    parts, used = [[first]], widths[first]
    for column in others:
        if width is not None and len(parts[-1]) > 1 and used + len(_GAP) + widths[column] > width:
            parts.append([first])
            used = widths[first]
        parts[-1].append(column)
        used += len(_GAP) + widths[column]
    return parts


def _clean(cell: str) -> str:
    """A text in one line, without characters that move a terminal's cursor."""
    text = " ".join(cell.split())
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)


def _cells(text: str) -> int:
    """The columns that a text takes: two for a wide character, none for one that joins the one before."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(character) else 2 if unicodedata.east_asian_width(character) in "WF" else 1
        for character in text
    )


@dataclass(frozen=True)
class Page:
    """Tables and sentences, one below the other; an empty sentence is an empty line. Both `print` and rich show it."""

    parts: Sequence[Table | str]

    def styled(self, width: int | None) -> Iterator[tuple[str, str]]:
        """The lines, each with its style in the language of rich. width: of the terminal; None: there is none."""
        for part in self.parts:
            if isinstance(part, Table):
                yield from part.styled(width)
            else:
                yield from ((line, "") for text in part.split("\n") for line in wrapped(text, width))

    def text(self, width: int | None) -> str:
        """The lines as one text. width: of the terminal; None: there is none."""
        return "\n".join(line for line, _ in self.styled(width))

    def __str__(self) -> str:
        return self.text(width_of())

    def __rich_console__(self, console: Any, options: Any) -> Iterator[Any]:
        from rich.text import Text

        for line, style in self.styled(options.max_width if console.is_terminal else None):
            yield Text(line, style, no_wrap=True, overflow="ignore")
