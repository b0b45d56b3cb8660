"""The mixtures of an exported experiment, made anew at the log positions that its picks name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from optimist.archive.file import Archive
from optimist.evaluation import Track
from optimist.evaluation.blends import mixture_of
from optimist.evaluation.stored import Logged, take
from optimist.numerics.mixtures.mixture import Mixture
from optimist_client.models import Pick


def generators_of(pick: Pick, names: Sequence[str]) -> list[str]:
    """The generators that the lists of a pick are about. Generators are only ever added behind the others."""
    return [name for name in names if name not in pick.retired][: len(pick.positions)]


class ReplayedMixtures:
    """Goes through the logs of all generators once, as far as the picks ask for, in their order."""

    def __init__(self, archive: Archive, tracks: Mapping[str, Track]) -> None:
        """tracks: of all generators in order, begun anew; none where nothing could be scored."""
        self._tracks = tracks
        self._logs: dict[str, Iterator[Logged]] = {
            name: (entry for page in archive.log(ordinal) for entry in page) for ordinal, name in enumerate(tracks)
        }
        self._read = dict.fromkeys(tracks, 0)
        self._made: tuple[dict[str, int], Mixture] | None = None

    def of(self, pick: Pick, *, published: bool) -> Mixture | None:
        """The mixture that a pick was made from, at its positions; None without one. published: as of `mixture_of`.

        Picks must come in order, so that no position is smaller than one before.
        """
        named = zip(generators_of(pick, list(self._tracks)), pick.positions, strict=True)
        positions = {name: position for name, position in named if position}
        if not positions:
            return None
        if self._made is None or self._made[0] != positions:
            for name, position in positions.items():
                while self._read[name] < position:
                    entry = next(self._logs[name])
                    take(self._tracks[name], entry)
                    self._read[name] = entry.seq
            made = mixture_of({name: self._tracks[name] for name in positions}, published=published)
            self._made = positions, made
        return self._made[1]
