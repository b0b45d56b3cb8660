"""Messages of a service of three API processes, which are killed in the middle of sending: each arrives once."""

from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from optimist_client import Optimist
from tests.support.processes import append_batch, serving, until
from tests.support.receivers import SECRET, Sent, receiving

EXPERIMENTS = 12
KILLED_AT = (4, 9)
"""The numbers of the messages in whose middle all API processes are killed."""


@pytest.mark.long
@pytest.mark.faults
def test_each_message_is_answered_once_though_their_senders_are_killed(tmp_path: Path):
    with receiving() as receiver:

        def answer(sent: Sent) -> int | None:
            return None if len(receiver.arrived) in KILLED_AT else 204

        receiver.answer = answer
        options = "--workers=3", "--no-scoring", f"--webhook={receiver.url}"
        secrets = {"OPTIMIST_WEBHOOK_SECRET": SECRET, "OPTIMIST_WEBHOOK_NETWORKS": "127.0.0.0/8"}
        with serving(tmp_path, *options, environment=secrets) as service:
            with Optimist(service.url, patience=60) as client:
                for number in range(EXPERIMENTS):
                    client.create_experiment(f"x{number}", ["a", "b"], metric="is", dimension=3, budget=5)
                    rows = {"probabilities": np.eye(3)[[0, 1, 2, 0, 1]]}
                    append_batch(service.url, f"x{number}", "a", rows).raise_for_status()
            for number in KILLED_AT:
                until(lambda number=number: len(receiver.arrived) == number)
                killed = service.api_pids()
                for pid in killed:
                    os.kill(pid, signal.SIGKILL)
                until(lambda killed=killed: len({*service.api_pids()} - {*killed}) == 3)
            until(lambda: len(receiver.answered()) == EXPERIMENTS)
            log = service.log()
    by_id = Counter(one.id for one in receiver.answered())
    assert {*by_id.values()} == {1}, "no id was answered twice"
    assert len(by_id) == EXPERIMENTS
    assert {one.id for one in receiver.arrived} == {*by_id}, "what was cut off came again under its id"
    assert len(receiver.arrived) == EXPERIMENTS + len(KILLED_AT)
    assert {one.json["data"]["experiment"] for one in receiver.answered()} == {f"x{n}" for n in range(EXPERIMENTS)}
    assert SECRET[6:] not in log
