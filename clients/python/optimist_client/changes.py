"""The operations of an experiment that change its state, its generators, or which batches count."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from optimist_client import models
from optimist_client.errors import FixError
from optimist_client.operations import operation
from optimist_client.results import ResultOperations


class ChangeOperations(ResultOperations):
    """The operations of `Experiment` and `AsyncExperiment` that change it."""

    @operation
    async def stop(self) -> models.Report:
        """Stop the experiment: no more picks are opened until `resume`."""
        return await self._change("", state="stopped")

    @operation
    async def resume(
        self, *, budget: int | None = None, max_cost: float | None = None, stop: bool | None = None
    ) -> models.Report:
        """Continue after `stop`, a decision or a spent budget. Optionally set a new `budget` (samples) or `max_cost`.

        After a decision it continues without deciding again, unless `stop` is True. Raises `FixError` for `max_cost` if
        a generator has no cost.
        """
        return await self._change("", state="running", budget=budget, max_cost=max_cost, stop=stop)

    @operation
    async def annotate(self, *, tags: Sequence[str] | None = None, note: str | None = None) -> models.Report:
        """Replace the tags, the note, or both, by which people find the experiment. They do not change what it asks.

        tags: at most 32 of at most 64 characters each, without commas. note: at most 10,000 characters.
        """
        report = await self._change("", tags=tags if tags is None or isinstance(tags, str) else list(tags), note=note)
        config = self.info.config.model_copy(update={"tags": report.tags, "note": report.note})
        self.info = self.info.model_copy(update={"config": config})
        return report

    @operation
    async def add_generator(
        self, generator: str, cost: float | None = None, *, seeds: bool | None = None
    ) -> models.Report:
        """Add a generator, optionally with its cost per sample. An existing generator is not changed.

        seeds: False if it ignores seeds, as in `create_experiment`; None: as if it had been left out there.
        Raises `FixError` without a cost if the experiment has `max_cost`.
        """
        wanted: dict[str, Any] = {"name": generator} | ({} if cost is None else {"cost": cost})
        wanted |= {} if seeds is None else {"seeds": seeds}
        answer = await self._transport.call("POST", f"/v1/experiments/{self.name}/generators", json=wanted)
        return models.Report.model_validate(answer)

    @operation
    async def set_cost(self, generator: str, cost: float) -> models.Report:
        """Set the cost per sample of a generator. It applies to all its samples, including earlier ones."""
        return await self._change(f"/generators/{quote(generator, safe='')}", cost=cost)

    @operation
    async def set_state(self, generator: str, state: models.GeneratorStatus) -> models.Report:
        """Pause a generator, activate it again, or retire it permanently.

        Raises `ConflictError` for the last active one.
        """
        return await self._change(f"/generators/{quote(generator, safe='')}", state=state)

    @operation
    async def retract(
        self,
        *,
        pick: int | None = None,
        generator: str | None = None,
        position: int | None = None,
        until: int | None = None,
        reason: str = "",
    ) -> models.RetractReply:
        """Retract a batch that should not count, on record with who, when and why. Needs a key of role admin.

        pick: number of the pick whose batch it is. generator, position: the batch at this position of the generator's
            log, as in `TellReply` and `report().anomalies`. generator without a position: all its batches so far.
        until: with the goal "route", only the generator's batches up to this position of its log, such as those from
            before its answers changed (`report().changes`).
        reason: why, at most 1,024 bytes of printable text.

        The batch leaves the scores, and a decision that rested on it is reopened. Its samples stay in the budget and
        the cost. A retraction cannot be undone; a second one changes nothing and returns `already`. Raises
        `NotFoundError` for an unknown pick, generator or position; `ConflictError` if the service no longer has the
        batch, which says what can be retracted instead; `FixError` for another combination of arguments.
        """
        path = self._batches(pick, generator, position)
        if until is not None and (generator is None or position is not None):
            raise FixError("until: expected a generator without a position")
        path += "" if until is None else f"?until={until}"
        answer = await self._transport.call("DELETE", path, json={"reason": reason})
        return models.RetractReply.model_validate(answer)

    @operation
    async def accept(
        self, *, pick: int | None = None, generator: str | None = None, position: int | None = None, reason: str = ""
    ) -> models.AcceptReply:
        """Accept a batch on another scale as it is, on record with who, when and why. Needs a key of role admin.

        pick, generator, position: as of `retract`. generator without a position: all its batches so far, and that the
            generator is on a scale of its own. reason: why, at most 1,024 bytes of printable text.

        A decision that rests on it is no longer provisional, unless it rests on others, too. A second call changes
        nothing and returns `already`. Raises `NotFoundError` for an unknown pick, generator or position; `StopError`
        for a batch that was retracted; `ConflictError` for a pick without one; `FixError` for another combination
        of arguments.
        """
        path = self._batches(pick, generator, position)
        answer = await self._transport.call("PUT", f"{path}/acceptance", json={"reason": reason})
        return models.AcceptReply.model_validate(answer)

    def _batches(self, pick: int | None, generator: str | None, position: int | None) -> str:
        """The path of one batch, or of all batches of a generator. Raises FixError unless it is named in one way."""
        if (pick is None) == (generator is None) or (position is not None and generator is None):
            raise FixError("expected a pick, or a generator, or a generator and a position")
        what = f"picks/{pick}/batch" if generator is None else f"generators/{quote(generator, safe='')}/batches"
        return f"/v1/experiments/{self.name}/{what}" + ("" if position is None else f"/{position}")

    async def _change(self, path: str, **fields: Any) -> models.Report:
        given = {name: value for name, value in fields.items() if value is not None}
        answer = await self._transport.call("PATCH", f"/v1/experiments/{self.name}{path}", json=given)
        self._seen = models.Report.model_validate(answer)
        return self._seen
