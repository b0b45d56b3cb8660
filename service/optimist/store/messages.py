"""Messages about experiments: where they go, which of them were sent, and who sends the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from optimist.store import keys
from optimist.store.index import Index
from optimist.store.scripts import Commands

Outcome = Literal["waits", "sent", "failed"]


class Change(NamedTuple):
    """The newest change of an experiment: two that are equal say that nothing has changed."""

    instance: str
    token: str
    """`ExperimentState.state_token`."""
    noted: float
    """When something was changed that picks do not depend on, in Unix seconds; 0: never."""

    @property
    def at(self) -> float:
        """When it was, in Unix seconds; 0 where nothing has changed since the creation."""
        return max(float(self.token.split()[0]) if self.token else 0.0, self.noted)


class MessageClaim(NamedTuple):
    """What became of the attempt to claim a message."""

    outcome: Literal["claimed", "waits", "sent", "failed"]
    attempts: int = 0
    """Of a claimed one: the number of this attempt."""
    until: float = 0.0
    """Of one that waits: when to try again, in Unix seconds."""


class KeptMessage(NamedTuple):
    """The newest message of a kind, as it was noted."""

    id: str
    outcome: Outcome
    attempts: int
    note: str
    """How the last attempt ended, in words."""

    def ends(self, id_: str) -> bool:
        """Whether nothing more is to be done for the message of this id."""
        return self.id == id_ and self.outcome != "waits"


class Messages:
    """The part of `Store` about messages. A message has a place: whom it is for, and what it tells."""

    _commands: Commands
    _webhooks: Index

    async def lead(self, who: str, seconds: int) -> bool:
        """Whether this process is the one that looks for what messages have to tell, for so many seconds more."""
        claim = ("SET", keys.MESSENGER, who, "NX", "EX", seconds)
        _, leader = await self._commands.call_many([claim, ("GET", keys.MESSENGER)])
        if leader is None or leader.decode() != who:
            return False
        await self._commands.call("EXPIRE", keys.MESSENGER, seconds)
        return True

    async def changes(self, experiments: Sequence[str]) -> list[Change | None]:
        """The newest change of each experiment; None for one that is not there."""
        facts = ("instance", "state_token", "noted")
        found = await self._commands.call_many(
            [("HMGET", self._commands.key(name, "counts"), *facts) for name in experiments]
        )
        return [
            None if instance is None else Change(instance.decode(), (token or b"").decode(), float(noted or 0))
            for instance, token, noted in found
        ]

    async def put_webhook(self, experiment: str, instance: str, record: str, places: Sequence[str], most: int) -> None:
        """Set where messages of an experiment go. places: of those that another webhook knows nothing of.

        Raises Full where `most` others of the namespace have one; NotFound without the experiment, or where it is
        another `instance` now.
        """
        await self._webhooks.reserve(self._commands.full(experiment), most)
        await self._commands.experiment_script(
            "put_webhook", experiment, instance=instance, record=record, places=places
        )

    async def webhook(self, experiment: str) -> str | None:
        """The record of an experiment's webhook; None without one."""
        record = await self._commands.call("GET", self._commands.key(experiment, "webhook"))
        return None if record is None else record.decode()

    async def remove_webhook(self, experiment: str, places: Sequence[str]) -> bool:
        """Forget the webhook of an experiment, and what was sent there; False if it has none."""
        full = self._commands.full(experiment)
        since = await self._webhooks.since(full)
        existed = await self._commands.experiment_script("put_webhook", experiment, record="", places=places)
        await self._webhooks.remove(full, since)
        return bool(existed[0])

    async def with_webhooks(self) -> list[str]:
        """The experiments that have a webhook; some may have been deleted."""
        return await self._webhooks.names()

    async def messages(self, experiment: str) -> Mapping[str, KeptMessage]:
        """What is noted of the messages of an experiment, by their places."""
        found = await self._commands.call("HGETALL", self._commands.key(experiment, "messages"))
        kept: dict[str, KeptMessage] = {}
        for place, text in found.items():
            id_, outcome, attempts, _, _, note = text.decode().split("\t", 5)
            kept[place.decode()] = KeptMessage(id_, outcome, int(attempts), note)
        return kept

    async def claim_message(
        self, experiment: str, instance: str, place: str, id_: str, token: str, *, seconds: float, most: int
    ) -> MessageClaim:
        """Claim the next attempt to send a message for `seconds`, after which another one may claim it.

        token: a word that no other claim has. most: the attempts that may be begun. Raises NotFound as `put_webhook`.
        """
        outcome, number = await self._commands.experiment_script(
            "claim_message",
            experiment,
            instance=instance,
            place=place,
            id=id_,
            token=token,
            seconds=seconds,
            most=most,
        )
        match outcome:
            case b"claimed":
                return MessageClaim("claimed", attempts=int(number))
            case b"waits":
                return MessageClaim("waits", until=float(number))
            case _:
                return MessageClaim(outcome.decode())

    async def end_message(
        self, experiment: str, instance: str, place: str, token: str, outcome: Outcome, note: str, seconds: float
    ) -> bool:
        """Note how an attempt ended; False where another one has claimed the message since.

        seconds: until the next attempt, where it waits. note: in words, without tabs. Raises NotFound as `put_webhook`.
        """
        ended = await self._commands.experiment_script(
            "end_message",
            experiment,
            instance=instance,
            place=place,
            token=token,
            outcome=outcome,
            seconds=seconds,
            note=note,
        )
        return bool(ended[0])
