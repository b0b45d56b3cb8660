"""Audits whose leases have run out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from redis import Redis

from optimist.store import running_url


def let_lapse(directory: Path, experiment: str) -> int:
    """End the leases of all audits of an experiment, in the service of this directory; how many there were."""
    url = running_url(directory)
    assert url is not None
    with Redis.from_url(url) as redis:
        key = f"optimist:{{{experiment}}}:audit_leases"
        leases: Any = redis.zrange(key, 0, -1)
        redis.zadd(key, dict.fromkeys(leases, 1.0))
    return len(leases)
