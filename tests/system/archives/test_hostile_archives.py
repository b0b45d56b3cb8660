"""Archives that no service made are refused and change nothing; those that it made are accepted, whatever was done."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from redis import Redis

from optimist.records import SLICES
from optimist.store import running_url
from optimist_client import Experiment, Optimist, Pick
from optimist_client.errors import ConflictError
from tests.support.begun import begun
from tests.support.edited import Edit, changed, setting, slices, with_directory_of
from tests.support.keys import client_of, guarded, new_key
from tests.support.processes import Service, scored, serving, until


def asked(experiment: Experiment) -> Pick:
    pick = experiment.ask()
    assert pick is not None
    return pick


def exported(client: Optimist, name: str) -> bytes:
    """The archive of an experiment with two batches of "a", one estimate, and a pick that was given up."""
    experiment = client.create_experiment(name, ["a", "b"], metric="is", dimension=2, policy="uniform")
    for seed in range(4):
        asked(experiment).tell(np.random.default_rng(seed).dirichlet(np.ones(2), size=5))
    asked(experiment).give_up()
    scored(experiment)
    return httpx.get(f"{client._transport._http.base_url}/v1/experiments/{name}/export").content


def estimate(**fields: Any) -> Edit:
    """Changes the estimate of a generator; a field of its pairing begins with "pairing_"."""

    def edit(found: dict[str, Any]) -> None:
        known = json.loads(found["units"]["is"]["estimate"])
        for name, value in fields.items():
            inner = known["pairing"] if name.startswith("pairing_") else known
            inner[name.removeprefix("pairing_")] = value
        found["units"]["is"]["estimate"] = json.dumps(known)

    return edit


def text(estimate: str) -> Edit:
    """Replaces the estimate of a generator."""
    return lambda found: found["units"]["is"].update(estimate=estimate)


def entry(**fields: Any) -> Edit:
    """Changes the first entry of a page of a log."""
    return lambda page: page[0]["entry"].update(fields)


def zeros(count: int) -> str:
    """So many influences, as they are stored."""
    return base64.b64encode(bytes(4 * count)).decode()


COUNTS = {"generator": 0, "seq": 1, "position": 0, "until": 1, "pick": 0, "samples": 0, "batches": 1, "told": 0}
RETRACTION = COUNTS | {"who": "", "when": 1, "reason": "", "reopened": False, "digest": "0" * 40}
ACCEPTANCE = {"generator": 0, "position": 1, "until": 1, "who": "", "when": 1, "reason": ""}
A, B, ALL, PAGE = "generators/0.json", "generators/1.json", "experiment.json", "logs/1.json"
INVALID = "an estimate of 'a' is not valid"
HOSTILE: dict[str, tuple[dict[str, Edit], str]] = {
    "400,000 slices": (
        {A: lambda found: found.update(returned=slices(400_000), handed=10**6)},
        "expected at most 131,072 values",
    ),
    "slices": ({A: setting(returned=slices(SLICES + 1), handed=10**6)}, "at most 512"),
    "slices of one of two": ({A: setting(returned=slices(SLICES), handed=10**6)}, "expected at most 256 runs"),
    "slices of no size": ({A: setting(returned=[[0, 0]])}, "expected at least 1"),
    "slices that touch": ({A: setting(returned=[[0, 2], [2, 2]])}, "expected runs that do not touch"),
    "slices out of order": ({A: setting(returned=[[4, 2], [0, 2]])}, "expected runs that do not touch"),
    "told": ({A: setting(told=[[2 * n, 2 * n + 1] for n in range(16_385)])}, "told: expected at most 16384"),
    "told twice": ({A: setting(told=[[0, 5], [3, 8]])}, "not disjoint intervals in order"),
    "told out of order": ({A: setting(told=[[6, 8], [0, 5]])}, "not disjoint intervals in order"),
    "levels": ({A: setting(levels=[[0, 1, [1, 1, 1.0], 0.0]] * 8_193)}, "levels: expected at most 8192"),
    "acceptances": ({A: setting(acceptances=[ACCEPTANCE] * 1026)}, "acceptances: expected at most 1025"),
    "no acceptances": ({A: setting(acceptances=[{}])}, "acceptances.0.generator: expected a value"),
    "indices": ({PAGE: entry(indices=[0] * (2**17 + 1))}, "expected at most 131,072"),
    "indices without a length": ({PAGE: entry(indices=[0, 2, 4])}, "expected the first and the length of each run"),
    "indices out of order": ({PAGE: entry(indices=[4, 1, 0, 1])}, "expected ascending runs that do not overlap"),
    "indices twice": ({PAGE: entry(indices=[0, 2, 1, 1])}, "do not overlap"),
    "indices of more rows": ({PAGE: entry(indices=[0, 99])}, "as many rows that count"),
    "fewer rows that count": ({PAGE: entry(counted=[0, 1])}, "as many rows that count"),
    "numbers": ({A: setting(handed=2**60)}, "handed: expected at most 2.8"),
    "unreadable": ({A: setting(quarantined=[[n, ""] for n in range(1, 258)])}, "quarantined: expected at most 256"),
    "unreadable, counted": ({A: setting(quarantined_count=10**6)}, "expected no more than the"),
    "unreadable, twice": ({A: setting(quarantined=[[1, "torn"]] * 2)}, "in order"),
    "unreadable, later": ({A: setting(quarantined=[[99, "torn"]])}, "expected no more than the"),
    "named_copies": (
        {A: setting(named_copies=[[n, [0, 1, 1.0], 1] for n in range(1, 258)])},
        "named_copies: expected at most 256",
    ),
    "duplicates": ({A: setting(duplicates={str(n): 1 for n in range(33)})}, "duplicates: expected at most 32"),
    "duplicates of none": ({A: setting(duplicates={"7": 1})}, "expected later generators"),
    "retractions": ({A: setting(retractions=[RETRACTION] * 2049)}, "retractions: expected at most 2048"),
    "retractions of what comes later": (
        {A: setting(retractions=[RETRACTION | {"until": 9}])},
        "the retraction at 1 of 'a' does not fit its batches",
    ),
    "no retractions": ({A: setting(retractions=[[] * 9])}, "retractions.0"),
    "retractions of another generator": (
        {A: setting(retractions=[RETRACTION | {"generator": 1}])},
        "are of another generator",
    ),
    "pages": ({A: setting(pages=["logs/1"] * 2**16 + ["logs/1"])}, "pages: expected at most 65536"),
    "a long estimate": ({A: text("1" * (2**20 + 1))}, "estimate: expected text of at most 1.04858e+06"),
    "no estimate": ({A: text("[" * 10**5)}, "the archive is inconsistent"),
    "many warnings": ({A: estimate(warnings=["odd"] * 65)}, INVALID),
    "samples": ({A: estimate(samples=10**9)}, INVALID),
    "influences": ({A: estimate(pairing_influence="AAAA" * 10**5)}, INVALID),
    "intervals": ({A: estimate(pairing_told=[end for n in range(65) for end in (2 * n, 2 * n + 1)])}, INVALID),
    "intervals out of order": ({A: estimate(pairing_told=[3, 4, 0, 2])}, INVALID),
    "intervals of more samples": ({A: estimate(pairing_told=[0, 999])}, INVALID),
    "an interval of text": ({A: estimate(pairing_told=["0", "2"])}, "the archive is inconsistent"),
    "enormous indices": ({A: estimate(pairing_told=[10**30, 10**30 + 1])}, INVALID),
    "later influences": (
        {A: estimate(pairing_later=zeros(257), pairing_later_told=[256, 513], pairing_told=[0, 2, 256, 513])},
        INVALID,
    ),
    "later influences of indices that were not told": (
        {A: estimate(pairing_later=zeros(200), pairing_later_told=[256, 456])},
        INVALID,
    ),
    "later influences of no index": ({A: estimate(pairing_later=zeros(1))}, INVALID),
    "influences twice": ({A: estimate(pairing_later=zeros(1), pairing_later_told=[255, 256])}, INVALID),
    "not finite": ({A: estimate(value=float("nan"))}, INVALID),
    "wrong values": ({A: setting(returned=[[]] * 50_000)}, "returned.0.0: expected a value"),
    "millions of values": ({A: setting(x=[[]] * 10**6)}, "expected at most 131,072 values"),
    "fields": ({ALL: setting(controls={f"x{n}": "" for n in range(1017)})}, "controls: expected at most 1016"),
    "controls": ({ALL: setting(controls={"cost:z": "1"})}, "controls: expected the controls of the experiment"),
    "waiting": ({ALL: setting(controls={"max_wait": "1e9"})}, "less than or equal to 60"),
    "budget": ({ALL: setting(controls={"budget": "-5"})}, "greater than or equal to 1"),
    "cost": ({ALL: setting(controls={"cost:a": "nan"})}, "the archive is inconsistent"),
    "a note": ({ALL: setting(controls={"note": json.dumps("x" * 10_001)})}, "at most 10000 characters"),
    "tags": ({ALL: setting(controls={"tags": json.dumps([f"t{n}" for n in range(33)])})}, "at most 32"),
    "generators inside": ({ALL: setting(generators=[{}])}, "generators.0"),
    "a later log, after others were written": ({"logs/2.json": lambda page: page.reverse()}, "the log of 'b' lacks"),
    "references": ({ALL: lambda found: found["experiment"].update(references={"other": "0"})}, "expected the digests"),
    "scales": ({ALL: lambda found: found["experiment"].update(scales={"other": 1.0})}, "scales do not match"),
    "many batches in a page": ({PAGE: lambda page: page.extend(page[:1] * 257)}, "at most 256"),
}


def everything(service: Service, name: str) -> dict[str, object]:
    """All keys that the service's Redis holds, apart from what scorers write of themselves, and `/readyz`, with their
    values, except those of other experiments: scorers may still be at work on what other tests told."""
    url = running_url(service.directory)
    assert url is not None
    with Redis.from_url(url) as redis:
        passing = (":claims'", ":claimed_until'", ":probe'", ":scorers'")
        names = [key for key in map(repr, redis.keys()) if not key.endswith(passing)]
        others = {key for key in names if "{" in key and f"{{{name}" not in key}
        return {key: None if key in others else redis.dump(key[2:-1]) for key in names}


def test_each_is_refused_with_what_was_expected_and_changes_nothing(service: Service, client: Optimist, name: str):
    whole = exported(client, name)
    before = everything(service, name)
    bodies = {case: (changed(whole, edits), said) for case, (edits, said) in HOSTILE.items()}
    many = changed(whole, {}, {f"logs/{n}.{'x' * 40}": b"" for n in range(100, 45_000)})
    bodies["a directory"] = many, "expected a directory of at most 4194304 bytes"
    bodies["a second directory"] = with_directory_of(whole, 2**40), f"of at most 4194304 bytes, found {2**40}"
    for member, body, said in (
        ("format", b"1" * 2**20, "format: expected at most 16 bytes, found 1048576"),
        ("format", b"2", "expected an archive of format 1, found '2'"),
        ("history", whole[:7], "does not exist"),
        ("experiment.json", b"{}", "experiment: expected a value"),
    ):
        bodies[f"{member}: {said}"] = changed(whole, {}, {member: body}, without=member), said
    for columns in ({"probabilities": 3}, {"features": 2}, {}):
        wrong_columns = {ALL: lambda found, columns=columns: found["experiment"].update(columns=columns)}
        said = "expected columns {'probabilities': 2}, found"
        bodies[f"columns {columns}"] = changed(whole, wrong_columns), said
    bodies |= {"nothing": (b"", "expected an archive"), "JSON alone": (b"{}", "expected an archive")}
    bodies |= {f"{size} bytes": (whole[:size], "truncated") for size in (len(whole) - 1, len(whole) // 2, 50)}
    bodies["a byte more"] = whole + b"\0", "digest"
    bodies["JSON"] = changed(whole, {A: setting(estimate="1" * 2**24)}), "expected at most 16777216 bytes"
    with pytest.warns(UserWarning, match="Duplicate name"):
        bodies["a name twice"] = changed(whole, {}, {"history": b""}), "each of a name of its own"
    wrong: dict[str, str] = {}
    with httpx.Client(base_url=service.url, timeout=60) as http:
        for case, (body, said) in bodies.items():
            # After a large one others of the same sender must wait.
            until(lambda: http.post("/v1/import", content=b"").status_code == 422)
            answer = http.post("/v1/import", params={"name": f"{name}-again"}, content=body)
            found = answer.json()
            is_refused = answer.status_code == 422 and said in found["detail"] and found["action"] == "fix"
            if not is_refused or len(answer.content) > 3000:
                wrong[case] = f"expected {said!r}, got {answer.status_code}: {answer.text[:500]}"
            assert everything(service, name) == before, case
        assert not wrong, "\n".join(map(str, wrong.items()))
        until(lambda: http.post("/v1/import", content=b"").status_code == 422)
        assert http.post("/v1/import", params={"name": f"{name}-again"}, content=changed(whole, {})).is_success


def temporary(service: Service) -> list[str]:
    """The open files of the API process that have no name."""
    assert service.process is not None
    found: list[str] = []
    for descriptor in Path(f"/proc/{service.process.pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found.append(os.readlink(descriptor))
    return [path for path in found if path.endswith("(deleted)") and "tmp" in path]


@pytest.mark.long
def test_an_import_that_was_refused_or_breaks_off_lets_the_next_one_in(client: Optimist, tmp_path: Path, name: str):
    """After a large one that was refused its sender waits for a while."""
    small = exported(client, name)
    large = changed(small, HOSTILE["400,000 slices"][0])
    with (
        guarded(tmp_path, "--no-scoring") as (service, key),
        client_of(service, key) as http,
        client_of(service, new_key(service.directory, "admin", "elsewhere")) as elsewhere,
    ):
        assert http.post("/v1/import", content=small[:-1]).status_code == 422
        assert http.post("/v1/import", content=large).status_code == 422, "a small one may be followed at once"
        refused = http.post("/v1/import", content=small)
        assert (refused.status_code, refused.json()["action"]) == (429, "retry")
        assert elsewhere.post("/v1/import", content=small).is_success
        until(lambda: http.post("/v1/import", content=small).is_success)

        before, open_before = set(everything(service, "none")), len(temporary(service))
        connection = begun(service, "/v1/import", 2**22, bytes(2**21), access=key)
        until(lambda: len(temporary(service)) > open_before)
        refused = http.post("/v1/import", content=b"")
        assert (refused.status_code, refused.json()["action"]) == (429, "retry")
        assert "another archive is imported" in refused.json()["detail"]
        assert elsewhere.post("/v1/import", content=b"").status_code == 422, "of another key one at a time, too"
        connection.close()
        until(lambda: len(temporary(service)) == open_before)
        assert set(everything(service, "none")) == before
        until(lambda: http.post("/v1/import", content=b"").status_code == 422)


@pytest.mark.long
def test_only_archives_are_refused_where_the_disk_has_little_room(tmp_path: Path, client: Optimist, name: str):
    whole = exported(client, name)
    least = str(shutil.disk_usage(tmp_path).free * 6 // 10)
    settings = {"OPTIMIST_MIN_FREE_BYTES": least, "TMPDIR": str(tmp_path)}
    with serving(tmp_path / "data", "--no-scoring", environment=settings) as full, Optimist(full.url) as other:
        answer = httpx.post(f"{full.url}/v1/import", content=whole)
        assert (answer.status_code, answer.json()["action"]) == (507, "retry")
        assert "temporary directory" in answer.json()["detail"]
        made = other.create_experiment(name, ["a"], metric="is", dimension=2)
        asked(made).tell(np.full((5, 2), 0.5))
        assert other.experiments() == [name]
        url = f"{full.url}/v1/experiments/{name}"
        for answer in (httpx.get(f"{url}/export"), httpx.post(f"{url}/corrections?trial=true", json={})):
            assert (answer.status_code, answer.json()["action"]) == (507, "retry")
            assert "temporary directory" in answer.json()["detail"]
        assert "Traceback" not in full.log()


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
def test_whatever_was_done_to_an_experiment_its_export_is_accepted(client: Optimist, name: str, seed: int):
    draw, rng = random.Random(seed), np.random.default_rng(seed)
    names = ["a", "b", "c"]
    experiment = client.create_experiment(
        name, names, metric="is", dimension=3, policy=draw.choice(["ucb", "uniform"]), keep_log=seed % 2 == 0,
        lease=1.0, stop=False, allow_extra=True, costs=dict.fromkeys(names, 1.0), max_wait=0.0,
    )  # fmt: skip
    base, picks, told = str(client._transport._http.base_url), [], []

    def tell() -> None:
        if picks:
            pick = picks.pop(draw.randrange(len(picks)))
            pick.tell(rng.dirichlet(np.ones(3), size=draw.randint(1, pick.size)))
            told.append(pick)

    def ask() -> None:
        if (pick := experiment.ask()) is not None:
            picks.append(pick)

    def copy() -> None:
        path = f"{base}/v1/experiments/{name}/generators/{draw.choice(names)}/batches"
        headers = {"idempotency-key": f"{rng.integers(2**60)}"}
        httpx.post(path, json={"probabilities": [[0.2, 0.3, 0.5]] * 5}, headers=headers).raise_for_status()

    def retract() -> None:
        if told:
            experiment.retract(pick=told.pop().number)

    deeds: list[Callable[[], object]] = [
        *(ask, ask, ask, ask, tell, tell, tell, copy, retract),
        lambda: picks and picks.pop().give_up(),
        lambda: experiment.retract(generator=draw.choice(names)),
        lambda: experiment.resume(budget=draw.randint(1, 500), stop=draw.random() < 0.5),
        lambda: experiment.set_state(draw.choice(names), draw.choice(["active", "paused"])),
        lambda: experiment.annotate(tags=["é" * 9], note="n\n" * 99),
        lambda: time.sleep(0.3),  # leases run out
    ]
    for _ in range(120):
        with contextlib.suppress(ConflictError):  # such as pausing the last one
            draw.choice(deeds)()
    made = httpx.get(f"{base}/v1/experiments/{name}/export")
    assert made.is_success, made.text
    answer = httpx.post(f"{base}/v1/import", params={"name": f"{name}-again"}, content=made.content)
    assert answer.status_code == 200, answer.text
    one, two = (client.experiment(each).report() for each in (name, f"{name}-again"))
    assert [row.samples for row in one.standings] == [row.samples for row in two.standings]
