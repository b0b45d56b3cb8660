"""Attacks and mistakes that could give wrong numbers, or let in a client without permission."""

from __future__ import annotations

import json
import socket
import time
from typing import Any

import httpx
import numpy as np

from optimist_client import OptimistError
from tests.support.keys import new_key, optimist_keys

from .hostile import Scale, answer
from .tenants import Outcome, Tenants, two_tenants

GAUSSIAN = (np.zeros(8), np.eye(8))
"""The mean and covariance of the real data."""


def connect(tenants: Tenants) -> socket.socket:
    """A connection to the API with a timeout of ten seconds."""
    return socket.create_connection(("127.0.0.1", tenants.service.port), timeout=10.0)


def more_rows(scale: Scale) -> Outcome:
    """60,000 rows told for a pick of 5, budget 100."""
    outcome = Outcome()
    with two_tenants() as tenants, tenants.sdk() as client:
        experiment = client.create_experiment("rows", ["a"], metric="is", dimension=10, budget=100)
        pick = experiment.ask()
        assert pick is not None
        try:
            pick.tell(np.random.default_rng(0).dirichlet(np.ones(10), 60_000))
            outcome.note("accepted")
        except OptimistError as error:
            outcome.note(f"refused: {error}")
        samples = experiment.report().samples
        outcome.note(f"{samples:,} samples counted", samples=samples)
    return outcome


def absurd_rows(scale: Scale) -> Outcome:
    """Rows at 1e30 after 40 normal ones; one generator at 1e29."""
    outcome, rng = Outcome(), np.random.default_rng(0)
    with two_tenants() as tenants, tenants.sdk() as client:
        client.create_experiment("fid", ["a", "b"], reference=GAUSSIAN, stop=False)
        for shift, generator in enumerate(("a", "b")):
            for _ in range(8):
                tenants.append("fid", generator, rng.standard_normal((5, 8)) + shift)
        before = tenants.report("fid")
        found = tenants.append("fid", "a", np.full((5, 8), 1e30))
        after = tenants.report("fid")
        outcome.note(f"FID, told to the best: {found}; {_standing(before)}, then {_standing(after)}", status=found)
        median = {"name": "gaussian", "sigma": "median", "features": 64}
        client.create_experiment("rke", ["a", "b"], metric="rke", dimension=8, kernel=median, stop=False)
        for _ in range(2):  # 256 samples fix the bandwidth
            tenants.append("rke", "a", rng.standard_normal((100, 8)))
            found = tenants.append("rke", "b", 1e29 * rng.standard_normal((100, 8)))
        outcome.note(f"RKE, median bandwidth: {found}; {_standing(tenants.report('rke'))}")
    return outcome


def _standing(report: dict[str, Any]) -> str:
    scores = ", ".join(
        f"{row['generator']} {'unknown' if row['score'] is None else format(row['score'], '.3g')}"
        for row in report["standings"]
    )
    decision = report["decision"]
    if decision["best"] is None:
        return scores
    return f"{scores}, best {decision['best']} at {decision['confidence']:.4g}{' (decided)' * decision['decided']}"


def copies(scale: Scale) -> Outcome:
    """A worker that tells the same rows each round.

    Its two generators are equal, so any decision for one of them is wrong.
    """
    outcome, decided, warned = Outcome(), [], set()
    with two_tenants() as tenants, tenants.sdk() as client:
        for seed in range(3):
            rng, name = np.random.default_rng(seed), f"copies-{seed}"
            kernel = {"name": "gaussian", "sigma": 3.0, "features": 64}
            experiment = client.create_experiment(name, ["a", "b"], metric="rke", dimension=8, kernel=kernel)
            rows = {generator: rng.standard_normal((5, 8)) for generator in ("a", "b")}
            try:
                for pick in experiment.picks(max_samples=5 * scale.copies, worker="copier"):
                    pick.tell(rows[pick.generator])
            except OptimistError as error:
                outcome.note(f"refused: {error}")
            report = tenants.report(name)
            if report["decision"]["decided"]:
                decided.append(report["samples"])
            warned |= {text for row in report["standings"] for text in row["warnings"]}
            warned |= {report["decision"]["reason"]} if "cop" in report["decision"]["reason"] else set()
    after = f" after {', '.join(map(str, decided))} samples" * bool(decided)
    outcome.note(f"{len(decided)} of 3 decided{after}, though the two generators are equal", decided=decided)
    outcome.note(f"warnings: {'; '.join(sorted(warned)) or 'none'}", warnings=sorted(warned))
    return outcome


def heads(scale: Scale) -> Outcome:
    """Request heads of 100 KiB and 1 MiB; malformed cookies."""
    outcome = Outcome()
    odd = {"brackets": "a[0]=1", "JSON": 'a={"b": 1, "c": [2]}', "no name": "=1", "quotes": 'a="b c', "umlaut": "ä=1"}
    with two_tenants() as tenants:
        for size in (100 * 1024, 2**20):
            with connect(tenants) as connection:
                lines = ["GET /v1/session HTTP/1.1", "host: 127.0.0.1", f"x: {'y' * size}", "", ""]
                connection.sendall("\r\n".join(lines).encode())
                outcome.note(f"head of {size // 1024} KiB: {answer(connection)}")
        signed_out = []
        for what, cookie in odd.items():
            headers = {b"cookie": f"{cookie}; optimist_key={tenants.quiet_key}".encode()}
            if httpx.get(f"{tenants.service.url}/v1/session", headers=headers).status_code != 200:
                signed_out.append(what)
        kept = f"signed out by {', '.join(signed_out)}" if signed_out else "signed in"
        outcome.note(f"with an odd cookie of each of {len(odd)} kinds: {kept}", signed_out=signed_out)
    return outcome


def revoked_key(scale: Scale) -> Outcome:
    """A key is revoked while its request body is sent, which takes 8 s more."""
    outcome = Outcome()
    config = {"name": "late", "generators": ["a"], "metric": {"name": "is", "dimension": 10}}
    body = json.dumps(config).encode()
    with two_tenants() as tenants:
        key = new_key(tenants.directory, "admin", "noisy")
        tenants.noisy.get("/v1/session", headers={"authorization": f"Bearer {key}"}).raise_for_status()
        lines = ["POST /v1/experiments HTTP/1.1", "host: 127.0.0.1", f"authorization: Bearer {key}",
                 "content-type: application/json", f"content-length: {len(body)}", "", ""]  # fmt: skip
        with connect(tenants) as connection:
            connection.sendall("\r\n".join(lines).encode() + body[:-8])
            done = optimist_keys("revoke", key, "--data-dir", str(tenants.directory))
            assert done.exit_code == 0, done.stderr
            for byte in body[-8:]:
                time.sleep(1.0)
                connection.sendall(bytes([byte]))
            outcome.note(f"answered {answer(connection)}")
        acted = tenants.noisy.get("/v1/experiments/late").status_code == 200
        outcome.note("it acted" if acted else "it did nothing", acted=acted)
    return outcome
