"""Messages about experiments: destinations, outcomes, and claims by processes that send."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from optimist.store import keys
from optimist.store.index import Index
from optimist.store.scripts import Commands

MessageOutcome = Literal["waits", "sent", "failed"]


class NewestChange(NamedTuple):
    """The newest change of an experiment: two that are equal say that nothing has changed."""

    instance: str
    token: str
    """`ExperimentState.state_token`."""
    noted: float
    """Time of the newest change that picks do not depend on, in Unix seconds; 0 without one."""

    @property
    def at(self) -> float:
        """Time of the change, in Unix seconds; 0 where nothing has changed since the creation."""
        return max(float(self.token.split()[0]) if self.token else 0.0, self.noted)


class MessageClaim(NamedTuple):
    """Outcome of the attempt to claim a message."""

    outcome: Literal["claimed", "waits", "sent", "failed"]
    attempts: int = 0
    """Number of this attempt, where the message was claimed."""
    until: float = 0.0
    """Time of the next attempt, in Unix seconds, where the message waits."""


class KeptMessage(NamedTuple):
    """The newest message of a kind, as it was noted."""

    id: str
    outcome: MessageOutcome
    attempts: int
    note: str
    """Result of the last attempt, in words."""

    def ends(self, id_: str) -> bool:
        """True if the message of this id needs no further attempt."""
        return self.id == id_ and self.outcome != "waits"


class StoredMessages:
    """The part of `Store` about messages. The place of a message is its recipient and its subject."""

    _commands: Commands
    _webhooks: Index

    async def lead(self, who: str, seconds: int) -> bool:
        """True if this process looks for messages to send, for so many seconds more."""
        claim = ("SET", keys.MESSENGER, who, "NX", "EX", seconds)
        _, leader = await self._commands.call_many([claim, ("GET", keys.MESSENGER)])
        if leader is None or leader.decode() != who:
            return False
        await self._commands.call("EXPIRE", keys.MESSENGER, seconds)
        return True

    async def changes(self, experiments: Sequence[str]) -> list[NewestChange | None]:
        """The newest change of each experiment; None for an unknown experiment."""
        facts = ("instance", "state_token", "noted")
        stored = await self._commands.call_many(
            [("HMGET", self._commands.key(name, "counts"), *facts) for name in experiments]
        )
        return [
            None if instance is None else NewestChange(instance.decode(), (token or b"").decode(), float(noted or 0))
            for instance, token, noted in stored
        ]

    async def put_webhook(self, experiment: str, instance: str, record: str, places: Sequence[str], limit: int) -> None:
        """Set the destination of an experiment's messages. places: of the messages that another webhook has not sent.

        Raises Full where `limit` other experiments of the namespace have one; NotFound without the experiment, or where
        the name has another `instance`.
        """
        await self._webhooks.reserve(self._commands.full(experiment), limit)
        await self._commands.experiment_script(
            "put_webhook", experiment, instance=instance, record=record, places=places
        )

    async def webhook(self, experiment: str) -> str | None:
        """The record of an experiment's webhook; None without one."""
        return await self._commands.text("GET", self._commands.key(experiment, "webhook"))

    async def remove_webhook(self, experiment: str, places: Sequence[str]) -> bool:
        """Forget the webhook of an experiment and the messages sent there; False without one."""
        full = self._commands.full(experiment)
        since = await self._webhooks.since(full)
        existed = await self._commands.experiment_script("put_webhook", experiment, record="", places=places)
        await self._webhooks.remove(full, since)
        return bool(existed[0])

    async def with_webhooks(self) -> list[str]:
        """The experiments that have a webhook; some may have been deleted."""
        return await self._webhooks.names()

    async def messages(self, experiment: str) -> Mapping[str, KeptMessage]:
        """Kept messages of an experiment, by their places."""
        stored = await self._commands.call("HGETALL", self._commands.key(experiment, "messages"))
        kept: dict[str, KeptMessage] = {}
        for place, text in stored.items():
            id_, outcome, attempts, _, _, note = text.decode().split("\t", 5)
            kept[place.decode()] = KeptMessage(id_, outcome, int(attempts), note)
        return kept

    async def claim_message(
        self, experiment: str, instance: str, place: str, id_: str, token: str, *, seconds: float, max_attempts: int
    ) -> MessageClaim:
        """Claim the next attempt to send a message for `seconds`, after which another process may claim it.

        token: a word of its own. max_attempts: number that may be begun. Raises NotFound as `put_webhook`.
        """
        outcome, number = await self._commands.experiment_script(
            "claim_message",
            experiment,
            instance=instance,
            place=place,
            id=id_,
            token=token,
            seconds=seconds,
            max_attempts=max_attempts,
        )
        match outcome:
            case b"claimed":
                return MessageClaim("claimed", attempts=int(number))
            case b"waits":
                return MessageClaim("waits", until=float(number))
            case _:
                return MessageClaim(outcome.decode())

    async def end_message(
        self, experiment: str, instance: str, place: str, token: str, outcome: MessageOutcome, note: str, seconds: float
    ) -> bool:
        """Record the result of an attempt; False where another process has claimed the message since.

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
