"""Previews of samples: a bounded number for each generator, beside the log and no part of any score."""

from __future__ import annotations

from collections.abc import Sequence

from optimist.records import NewPreview, StoredPreview
from optimist.store.commands import Commands


class Previews:
    """The part of `Store` about previews."""

    _commands: Commands

    async def put_previews(
        self, experiment: str, pick: int, previews: Sequence[NewPreview], most: int, *, instance: str, nonce: str = ""
    ) -> tuple[int, int]:
        """Keep previews of a pick that was told; those that are kept already, or were replaced, change nothing.

        most: how many are kept of a generator: the newest, and half of them a sample of all, by indices that are the
        same for every generator. nonce: of the pick; "": of any with this number. Samples that do not count have none.
        Returns the generator, and how many of these are kept. Raises Conflict for a pick without a batch that counts,
        Retracted for one whose batch counts no longer, Gone for one that is not known (any more), Refused for a place
        beyond the batch, NotFound without the experiment, or where it is another `instance` by now.
        """
        generator, kept = await self._commands.experiment_script(
            "put_previews",
            experiment,
            instance=instance,
            number=pick,
            nonce=nonce,
            most=most,
            items=[
                {
                    "place": one.place,
                    "index": "" if one.index is None else one.index,
                    "about": one.about,
                    "body": one.body,
                }
                for one in previews
            ],
        )
        return int(generator), kept

    async def previews(self, experiment: str) -> list[tuple[str, StoredPreview]]:
        """The previews that are kept with the names of their generators, in their order, of each the newest first."""
        names = await self._commands.call("HGETALL", self._commands.key(experiment, "generators"))
        ordinals = sorted(map(int, names))
        found = await self._commands.call_many([("HGETALL", self._key(experiment, g)) for g in ordinals])
        return [
            (names[b"%d" % g].decode(), one)
            for g, stored in zip(ordinals, found, strict=True)
            for one in _parsed(g, stored)
        ]

    async def preview(
        self, experiment: str, generator: int, pick: int, place: int
    ) -> tuple[StoredPreview, bytes] | None:
        """A preview with its bytes; None if it is not kept (any more)."""
        name = f"{pick}-{place}"
        key = self._key(experiment, generator)
        entry, body = await self._commands.call_many([("HGET", key, name), ("HGET", f"{key}:bodies", name)])
        if entry is None or body is None:
            return None
        return _parsed(generator, {name.encode(): entry})[0], body

    def _key(self, experiment: str, generator: int) -> str:
        return f"{self._commands.key(experiment, 'previews')}:{generator}"


def _parsed(generator: int, stored: dict[bytes, bytes]) -> list[StoredPreview]:
    found: list[StoredPreview] = []
    for name, entry in stored.items():
        pick, _, place = name.decode().partition("-")
        head, _, about = entry.decode().partition("\t")
        position, _, index = head.split(" ")
        number = int(index) if index else None
        found.append(StoredPreview(generator, int(pick), int(place), int(position), number, about))
    return sorted(found, key=lambda one: (-one.position, one.place))
