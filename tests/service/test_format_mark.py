"""Everything in Redis is removed under a running service: what is written next has its format marked again."""

from __future__ import annotations

import json
from pathlib import Path

from processes import serving, until
from redis import Redis

from optimist.store.formats import USUAL


def test_the_format_is_marked_again_after_all_was_removed(tmp_path: Path):
    with serving(tmp_path, "--no-scoring"):
        runtime = json.loads((tmp_path / "lock").read_text())["runtime"]
        with Redis(unix_socket_path=f"{runtime}/redis.sock") as redis:
            assert redis.get("optimist:format") == b"%d" % USUAL
            redis.flushall()
            until(lambda: redis.get("optimist:format") == b"%d" % USUAL, 20)
