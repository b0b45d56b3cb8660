"""Exports by clients that read slowly, or go: one file at a time for each access key, closed with its client."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from tests.support.keys import client_of, guarded, new_key
from tests.support.processes import append_batch, until
from tests.system.archives.test_hostile_archives import temporary

PATH = "/v1/experiments/x/export"
CONFIG = {"name": "x", "generators": ["a"], "metric": {"name": "mean"}, "keep_log": True, "stop": False}


def test_one_export_a_key_whose_file_goes_with_its_client(tmp_path: Path):
    with ExitStack() as stack:
        service, key = stack.enter_context(guarded(tmp_path, "--no-scoring"))
        http = stack.enter_context(client_of(service, key))
        other = stack.enter_context(client_of(service, new_key(tmp_path, "admin")))
        http.post("/v1/experiments", json=CONFIG).raise_for_status()
        records = np.full((2048, 8192), ord("1"), np.uint8)
        content = {"values": np.ones((2048, 1)), "records": records}
        append_batch(service.url, "x", "a", content, headers=http.headers).raise_for_status()
        before = temporary(service)
        slow = stack.enter_context(socket.create_connection(("127.0.0.1", service.port)))
        slow.sendall(f"GET {PATH} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {key}\r\n\r\n".encode())
        assert slow.recv(12) == b"HTTP/1.1 200"
        assert len(temporary(service)) == len(before) + 1
        refused = http.get(PATH)
        assert (refused.status_code, refused.json()["action"]) == (429, "retry")
        assert int(refused.headers["retry-after"]) >= 1
        assert "another archive is exported" in refused.json()["detail"]
        whole = other.get(PATH).raise_for_status().content
        assert len(whole) > 2**24
        slow.close()
        until(lambda: temporary(service) == before)
        assert http.get(PATH).raise_for_status().content == whole
        until(lambda: temporary(service) == before)
