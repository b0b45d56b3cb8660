"""Requests whose bodies have begun, and have not ended."""

from __future__ import annotations

import socket

import httpx

from optimist_client import tensors
from tests.support.keys import bearer
from tests.support.processes import Service


def begun(
    service: Service, path: str, length: int, part: bytes = b"", *, access: str = "", key: str = "k"
) -> socket.socket:
    """A connection on which a body of so many bytes is announced, and has begun with `part`.

    access: the access key, if any. key: the idempotency key.
    """
    connection = socket.create_connection(("127.0.0.1", service.port), timeout=60)
    head = f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nidempotency-key: {key}\r\n"
    head += f"authorization: Bearer {access}\r\n" if access else ""
    connection.sendall(f"{head}content-type: {tensors.MEDIA_TYPE}\r\ncontent-length: {length}\r\n\r\n".encode() + part)
    return connection


def held(service: Service, access: str = "") -> float:
    """Bytes of memory that a service has for bodies."""
    reply = httpx.get(f"{service.url}/metrics", headers=bearer(access) if access else {}, timeout=60)
    [line] = [line for line in reply.text.splitlines() if line.startswith("optimist_body_bytes ")]
    return float(line.split()[1])
