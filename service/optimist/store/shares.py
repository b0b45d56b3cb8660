"""Shares of experiments: records of keys that stand with the experiment, and are deleted with it."""

from __future__ import annotations

from collections.abc import Sequence

from optimist.store.scripts import Commands


class StoredShares:
    """The part of `Store` about shares. Their records are texts, of which it reads nothing."""

    _commands: Commands

    async def put_share(
        self, experiment: str, instance: str, id_: str, record: str, seconds: float, max_shares: int
    ) -> None:
        """Store a share that lasts for `seconds`.

        Raises Full where the experiment has `max_shares`; NotFound without it, or where it is another `instance` now.
        """
        await self._commands.experiment_script(
            "put_share", experiment, instance=instance, id=id_, record=record, seconds=seconds, max=max_shares
        )

    async def share(self, experiment: str, id_: str) -> str | None:
        """The record of a share; None if the experiment has none of this id."""
        return await self._commands.text("HGET", self._commands.key(experiment, "share_keys"), id_)

    async def shares(self, experiment: str) -> dict[str, str]:
        """Records of all shares of an experiment by id, including expired ones."""
        records = await self._commands.call("HGETALL", self._commands.key(experiment, "share_keys"))
        return {id_.decode(): record.decode() for id_, record in records.items()}

    async def remove_shares(self, experiment: str, ids: Sequence[str]) -> bool:
        """Forget shares; False if there were none of these ids."""
        return bool(await self._commands.call("HDEL", self._commands.key(experiment, "share_keys"), *ids))
