"""Services that die while people score samples, and what is there afterwards of what they said."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import NamedTuple

from optimist.archive.file import Archive
from optimist.estimates.audited import AuditedMean
from optimist.records import Said, codec
from optimist_client import Experiment
from tests.support.processes import Service
from tests.support.replay import replay


def kill_next(service: Service, turn: int) -> bool:
    """Kill an API process, or the scorer in odd turns; False where there is no scorer now."""
    pid = service.scorer_pid() if turn % 2 else service.api_pids()[0]
    if pid is not None:
        os.kill(pid, signal.SIGKILL)
    return pid is not None


class Heard(NamedTuple):
    """What is there of one generator's audits."""

    said: list[Said]
    mean: AuditedMean
    """The statistic of the newest estimate."""
    until: int
    """The position in the generator's log up to which this estimate goes: answers after it are not due yet."""

    @property
    def people(self) -> dict[int, float]:
        """People's scores by index, which the estimate rests on."""
        assert len({*self.mean.audits.tolist()}) == len(self.mean.audits)
        return dict(zip(self.mean.audits.tolist(), self.mean.people.tolist(), strict=True))


def heard_of(experiment: Experiment, path: Path) -> dict[str, Heard]:
    """What people said, by generator, from an export at `path`. Picks and estimates must be a serial replay's, bit by
    bit."""
    experiment.export(path)
    replayed, heard = replay(path), dict[str, Heard]()
    assert all(pick.is_reproduced for pick in replayed.picks)
    with path.open("rb") as file:
        archive = Archive(file)
        all_said = list(archive.said)
        for ordinal, archived in enumerate(archive.contents.generators):
            (unit,) = archived.units.values()
            until = unit.estimate_position
            made = replayed.estimates[archived.name][until]
            assert unit.estimate == codec.encode(made)
            assert made.audited is not None
            said = [one for one in all_said if one.generator == ordinal]
            heard[archived.name] = Heard(said, made.audited, until)
    return heard
