"""The ranks of generators: intervals that hold for all of them together."""

from __future__ import annotations

from itertools import groupby

from pydantic import computed_field

from optimist_client.errors import FixError
from optimist_client.layout import Page, Table
from optimist_client.models.decisions import joined
from optimist_client.wire import Answer


class Rank(Answer):
    """The rank of one generator: from `first`, if all that may be better are, to `last`, if all that may be are not."""

    generator: str
    first: int
    """1 + the number of generators that are surely better."""
    last: int
    """The number of generators that are not surely worse, itself included."""

    @computed_field
    @property
    def text(self) -> str:
        """The rank as it is shown everywhere, such as "1st" or "3rd to 5th"."""
        return _nth(self.first) if self.first == self.last else f"{_nth(self.first)} to {_nth(self.last)}"


class Ranking(Answer):
    """The ranks of all generators, best first. `print` shows them.

    With probability 1 − `delta` all intervals hold together, however often somebody looks.
    """

    delta: float
    ranks: list[Rank]
    decided: list[int]
    """The numbers k for which it is sure which generators are the k best ones: with probability 1 − `delta` for one k
    that was chosen before."""

    def top(self, k: int) -> list[str] | None:
        """The k best generators, best first by their scores so far; None while it is not sure which they are.

        Raises FixError unless k is from 1 to the number of generators less 1.
        """
        if not 1 <= k < len(self.ranks):
            raise FixError(f"k: expected 1 to {len(self.ranks) - 1}, for {len(self.ranks)} generators; got {k}")
        return [rank.generator for rank in self.ranks[:k]] if k in self.decided else None

    @computed_field
    @property
    def text(self) -> str:
        """The ranks as a sentence, such as "big is 1st, mid and base 2nd to 3rd, small 4th."."""
        named = [(joined([rank.generator for rank in ranks]), text) for text, ranks in groupby(self.ranks, _text)]
        (first, first_rank), *others = named
        verb = "is" if sum(rank.text == first_rank for rank in self.ranks) == 1 else "are"
        return f"{', '.join([f'{first} {verb} {first_rank}', *(f'{names} {text}' for names, text in others)])}."

    @property
    def says_more(self) -> bool:
        """True if it says more than which one of two generators is the best."""
        return len(self.ranks) > 2 and any(rank.last - rank.first < len(self.ranks) - 1 for rank in self.ranks)

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        return f"{self.page}"

    @property
    def page(self) -> Page:
        """The ranks as a table, and in a sentence."""
        return Page([Table(("generator", "rank"), [(rank.generator, rank.text) for rank in self.ranks]), self.text])


def known_ranks(ranking: Ranking | None) -> Ranking:
    """These ranks. Raises FixError where there are none."""
    if ranking is None:
        raise FixError("no ranks: expected 2 to 20 generators with a score, and no router")
    return ranking


def _text(rank: Rank) -> str:
    return rank.text


def _nth(number: int) -> str:
    """An ordinal number, such as "3rd"."""
    endings = {1: "st", 2: "nd", 3: "rd"}
    is_teen = number % 100 in (11, 12, 13)
    return f"{number}{'th' if is_teen else endings.get(number % 10, 'th')}"
