"""The receiver on the page about messages: it takes what is signed, once, and nothing else."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
import time
from ipaddress import ip_network
from pathlib import Path

import httpx

from optimist.api.messages.outgoing import Webhook, body_of, post, signed
from optimist.experiments.events import Event
from tests.support.places import ROOT
from tests.support.processes import free_port, until
from tests.support.receivers import SECRET
from tests.support.reports import report
from tests.support.snippets import snippets

LOOPBACK = [ip_network("127.0.0.0/8")]


def listens(port: int) -> bool:
    with contextlib.suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port), 10):
        return True
    return False


def test_the_receiver_of_the_page_takes_each_genuine_message_once(tmp_path: Path):
    (program,) = [one.code for one in snippets(ROOT / "docs" / "messages.md") if one.language == "python"]
    (tmp_path / "receiver.py").write_text(program)
    port = free_port()
    environment = {**os.environ, "WEBHOOK_SECRET": SECRET, "PORT": str(port)}
    command = [sys.executable, tmp_path / "receiver.py"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        until(lambda: listens(port))
        url = f"http://127.0.0.1:{port}/"
        webhook = Webhook(url=url, format="json", secret=SECRET)
        body = body_of(webhook, Event("decided", time.time(), "one"), "default", report())
        for id_ in ("one", "one", "two"):
            assert asyncio.run(post(webhook, id_, body, LOOPBACK)) == (True, "answered 204")
        forged = signed(f"{SECRET[:-8]}AAAAAAA=", "three", int(time.time()), body)
        old = signed(SECRET, "three", int(time.time()) - 3600, body)
        assert [httpx.post(url, content=body, headers=one).status_code for one in (forged, old)] == [401, 401]
        process.terminate()
        assert process.stdout is not None
        said = process.stdout.read().decode().splitlines()
    assert len(said) == 2
    assert all(line.startswith("digits is decided Best: b <i>") for line in said)
