"""The open picks of an experiment: parsed once, and indexed by worker, request and access key."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from optimist.records import OpenPick
from optimist_client.models import AskRequest, Pick


class OpenPicks:
    """Picks whose lease still runs, kept up to date by `add` and `remove`."""

    def __init__(self, stored: Sequence[OpenPick], known: OpenPicks | None = None) -> None:
        """stored: the open picks. known: those of an earlier state, so that picks still open are not parsed again."""
        self.of_key: Counter[str] = Counter()
        """How many picks were asked for with each access key."""
        self.samples: Counter[int] = Counter()
        """Samples of open picks, by ordinal of the generator."""
        self.batches: Counter[int] = Counter()
        """Number of open picks, by ordinal of the generator."""
        self._picks: dict[int, tuple[Pick, OpenPick]] = {}
        self._of_worker: defaultdict[str | None, dict[int, Pick]] = defaultdict(dict)
        self._of_request: defaultdict[str, dict[int, Pick]] = defaultdict(dict)
        before = {} if known is None else known._picks
        for one in stored:
            pick, same = before.get(one.number, (None, None))
            # A nonce identifies a pick, and a pick never changes.
            if pick is None or same is None or one.nonce != same.nonce:
                pick = Pick.model_validate_json(one.record)
            self.add(pick, one)

    def __len__(self) -> int:
        return len(self._picks)

    def __getitem__(self, number: int) -> Pick:
        return self._picks[number][0]

    def add(self, pick: Pick, stored: OpenPick) -> None:
        """Count a pick as open; stored: the same pick in the store's form."""
        self._picks[pick.number] = pick, stored
        self._of_worker[pick.worker][pick.number] = pick
        self._of_request[pick.request_id][pick.number] = pick
        self.of_key[stored.key] += 1
        self.samples[stored.generator] += pick.size
        self.batches[stored.generator] += 1

    def remove(self, number: int) -> tuple[Pick, OpenPick] | None:
        """Stop counting a pick as open, and return it in both forms; None if it was not open."""
        removed = self._picks.pop(number, None)
        if removed is None:
            return None
        pick, stored = removed
        del self._of_worker[pick.worker][number], self._of_request[pick.request_id][number]
        if not self._of_worker[pick.worker]:
            del self._of_worker[pick.worker]
        if not self._of_request[pick.request_id]:
            del self._of_request[pick.request_id]
        self.of_key[stored.key] -= 1
        self.samples[stored.generator] -= pick.size
        self.batches[stored.generator] -= 1
        return removed

    def of_worker(self, worker: str) -> int:
        """How many open picks a worker has."""
        return len(self._of_worker.get(worker, ()))

    def owned(self, request: AskRequest, has_contexts: bool = False) -> list[Pick]:
        """The open picks that this request gets again: those of its worker, and those opened for its request id.

        With contexts these are new prompts, and only the same request gets picks again.
        """
        found = dict(self._of_request.get(request.request_id or "", {}))
        if has_contexts:
            return list(found.values())
        if request.worker is not None:
            found |= self._of_worker.get(request.worker, {})
        return [found[number] for number in sorted(found)][: request.count]
