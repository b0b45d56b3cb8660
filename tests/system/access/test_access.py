"""Who may do what: every route for every role, in one's own namespace and from another."""

from __future__ import annotations

import asyncio
import re
import uuid
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import unquote

import httpx
import numpy as np
import pytest
from fastapi.routing import iter_route_contexts
from redis import Redis

from optimist.api.app import create_app
from optimist.api.middleware.service import Service as Application
from optimist.settings import Settings
from optimist.store import running_url
from optimist_client import FixError, Optimist, tensors
from tests.support.keys import bearer, client_of, new_key, optimist_keys
from tests.support.processes import TENSORS, Service, serving, until

CONFIG = {"generators": ["a", "b"], "metric": {"name": "is", "dimension": 3}, "seed": 1, "max_wait": 0}
BATCH = tensors.encode({"probabilities": np.eye(3)[:1]})
TOLD = {"content": BATCH, "headers": TENSORS}
MOMENTS = {"content": tensors.encode({"mean": np.zeros(2), "covariance": np.eye(2)}), "headers": TENSORS}
INSIDE = "/v1/experiments/shared"
EXPERIMENT = "/v1/experiments/{name}"
AUDIT = f"{INSIDE}/audits/0123456789abcdef"
PICK, GENERATOR = f"{EXPERIMENT}/picks/{{number}}", f"{EXPERIMENT}/generators/{{generator:path}}"


@dataclass
class Route:
    """What a route needs, and answers: to those who may, and to an admin of a namespace that has no `shared`."""

    role: str | None
    """The lowest role; None: anybody."""
    path: str | Callable[[httpx.Client], str] = ""
    """Or how an admin who may do everything finds it. Empty: its pattern, with usual names."""
    allowed: int = 200
    elsewhere: int = 404
    request: dict[str, Any] = field(default_factory=dict)
    of_all: bool = False
    """Whether a key that is bound to an experiment is good for it."""
    raters: bool = False
    """Whether a rater's key is good for it."""
    operators: bool = False
    """Whether the namespace has to be `default`."""


def open_pick(admin: httpx.Client, part: str = "") -> str:
    (pick,) = admin.post(f"{INSIDE}/picks", json={}).json()["picks"]
    return f"{INSIDE}/picks/{pick['number']}{part}?nonce={pick['nonce']}"


def told_pick(admin: httpx.Client) -> str:
    path = open_pick(admin, "/batch")
    admin.post(path, content=BATCH, headers=TENSORS).raise_for_status()
    return path.partition("?")[0]


def told_position(admin: httpx.Client) -> str:
    path, headers = f"{INSIDE}/generators/a/batches", {**TENSORS, "idempotency-key": uuid.uuid4().hex}
    return f"{path}/{admin.post(path, content=BATCH, headers=headers).json()['position']}"


def spare(admin: httpx.Client) -> str:
    """A generator that may be retired."""
    admin.post(f"{INSIDE}/generators", json={"name": "spare"}).raise_for_status()
    return f"{INSIDE}/generators/spare"


def webhook(admin: httpx.Client) -> str:
    path = f"{INSIDE}/webhook"
    admin.put(path, json={"url": "https://hooks.example.org"}).raise_for_status()
    return path


TABLE = {
    ("GET", "/healthz"): Route(None),
    ("GET", "/readyz"): Route(None),
    ("GET", "/openapi.json"): Route(None),
    ("GET", "/docs"): Route(None),
    ("GET", "/metrics"): Route("viewer", operators=True),
    ("GET", "/v1/session"): Route("viewer", elsewhere=200, of_all=True, raters=True),
    ("POST", "/v1/session"): Route("viewer", elsewhere=200, of_all=True, raters=True),
    ("DELETE", "/v1/session"): Route("viewer", allowed=204, elsewhere=204, of_all=True, raters=True),
    ("GET", "/v1/references"): Route("viewer", elsewhere=200),
    ("GET", "/v1/references/{name}"): Route("viewer", "/v1/references/real"),
    ("DELETE", "/v1/references/{name}"): Route("admin", "/v1/references/real", allowed=204),
    ("POST", "/v1/references"): Route("admin", "/v1/references?name=real", elsewhere=200, request=MOMENTS),
    ("PUT", "/v1/references/{name}/rows"): Route(
        "admin", "/v1/references/rows/rows?digest=" + "0" * 64, allowed=422, elsewhere=422, request={"content": b"none"}
    ),
    ("GET", "/v1/experiments"): Route("viewer", elsewhere=200, of_all=True),
    ("GET", "/"): Route(None),
    ("GET", "/dashboard/{version}/{name}"): Route(None, "/dashboard/0/style.css"),
    ("POST", "/v1/experiments"): Route("admin", elsewhere=200, request={"json": {"name": "new", **CONFIG}}),
    ("POST", "/v1/import"): Route("admin", allowed=422, elsewhere=422, request={"content": b"no archive"}),
    ("GET", EXPERIMENT): Route("viewer"),
    ("GET", f"{EXPERIMENT}/report"): Route("viewer"),
    ("GET", f"{EXPERIMENT}/gate"): Route("viewer", path=f"{INSIDE}/gate?candidate=a&baseline=b&margin=1%25"),
    # The generators have no estimates.
    ("GET", f"{EXPERIMENT}/contrast"): Route("viewer", f"{INSIDE}/contrast?generator=a&against=b", 422),
    ("GET", f"{EXPERIMENT}/anomalies"): Route("viewer"),
    ("GET", f"{EXPERIMENT}/export"): Route("admin"),
    ("POST", f"{EXPERIMENT}/corrections"): Route("admin", request={"json": {}}),
    ("POST", f"{EXPERIMENT}/shares"): Route("admin", request={"json": {}}),
    ("GET", f"{EXPERIMENT}/shares"): Route("admin"),
    ("DELETE", f"{EXPERIMENT}/shares/{{id}}"): Route("admin", f"{INSIDE}/shares/0123456789ab", 404),
    ("PUT", f"{EXPERIMENT}/webhook"): Route("admin", request={"json": {"url": "https://hooks.example.org"}}),
    ("GET", f"{EXPERIMENT}/webhook"): Route("admin", webhook),
    ("DELETE", f"{EXPERIMENT}/webhook"): Route("admin", webhook, 204),
    # The metric has no score of mixtures.
    ("GET", f"{EXPERIMENT}/mixture"): Route("viewer", allowed=422),
    ("GET", f"{EXPERIMENT}/routes"): Route("viewer", allowed=422),
    ("POST", f"{EXPERIMENT}/blend"): Route("worker", allowed=422, request={"json": {"size": 5}}),
    ("PATCH", EXPERIMENT): Route("admin", request={"json": {"max_wait": 0.5}}),
    ("DELETE", EXPERIMENT): Route("admin", allowed=204),
    ("POST", f"{EXPERIMENT}/picks"): Route("worker", request={"json": {"worker": "w"}}),
    ("POST", f"{PICK}/batch"): Route("worker", lambda admin: open_pick(admin, "/batch"), request=TOLD),
    ("POST", f"{EXPERIMENT}/picks/batches"): Route(
        "worker", f"{INSIDE}/picks/batches?instance=0&picks=1.0", 404, request=TOLD
    ),
    # The experiment keeps none.
    ("PUT", f"{PICK}/previews"): Route(
        "worker", allowed=422, request={"json": {"previews": [{"place": 0, "text": "a"}]}}
    ),
    # People audit no judge.
    ("POST", f"{EXPERIMENT}/audits"): Route("worker", allowed=422, raters=True, request={"json": {"rater": "anna"}}),
    ("PUT", f"{EXPERIMENT}/audits/{{id}}"): Route(
        "worker", AUDIT, allowed=422, raters=True, request={"json": {"rater": "anna", "scores": [1.0]}}
    ),
    ("DELETE", f"{EXPERIMENT}/audits/{{id}}"): Route("worker", f"{AUDIT}?rater=anna", allowed=422, raters=True),
    ("GET", f"{EXPERIMENT}/audits"): Route("viewer", allowed=422),
    ("GET", f"{EXPERIMENT}/audits/{{id}}/samples/{{place}}"): Route(
        "worker", f"{AUDIT}/samples/0?rater=anna", allowed=422, raters=True
    ),
    ("GET", f"{EXPERIMENT}/previews"): Route("viewer"),
    ("GET", f"{GENERATOR}/records"): Route("viewer"),
    ("GET", f"{EXPERIMENT}/previews/{{id}}"): Route("viewer", f"{INSIDE}/previews/0-1-0", 404),
    ("DELETE", PICK): Route("worker", open_pick, 204),
    ("DELETE", f"{PICK}/batch"): Route("admin", told_pick),
    ("DELETE", f"{GENERATOR}/batches"): Route("admin"),
    ("DELETE", f"{GENERATOR}/batches/{{position}}"): Route("admin", told_position),
    ("PUT", f"{PICK}/batch/acceptance"): Route("admin", lambda admin: f"{told_pick(admin)}/acceptance"),
    ("PUT", f"{GENERATOR}/batches/acceptance"): Route(
        "admin", lambda admin: told_position(admin).rpartition("/")[0] + "/acceptance"
    ),
    ("PUT", f"{GENERATOR}/batches/{{position}}/acceptance"): Route(
        "admin", lambda admin: f"{told_position(admin)}/acceptance"
    ),
    ("POST", f"{EXPERIMENT}/generators"): Route("admin", request={"json": {"name": "c"}}),
    ("PATCH", GENERATOR): Route("admin", spare, request={"json": {"state": "paused"}}),
    ("POST", f"{GENERATOR}/batches"): Route(
        "worker", request={"content": BATCH, "headers": {**TENSORS, "idempotency-key": "k"}}
    ),
    # The metric has no kernel.
    ("GET", f"{GENERATOR}/modes"): Route("viewer", allowed=422),
}
ROLES = ["viewer", "worker", "admin"]


@pytest.fixture(scope="module")
def callers(directory: Path, asking: Service) -> Iterator[dict[str, httpx.Client]]:
    """One of each kind; `red` is the namespace that has `shared` and `real`, the default one has neither."""
    keys = {
        f"{namespace} {role}": new_key(directory, role, namespace) for role in ROLES for namespace in ("red", "default")
    }
    keys |= {"blue admin": new_key(directory, "admin", "blue")}
    keys |= {f"bound {role}": new_key(directory, role, "red", "shared") for role in (*ROLES, "rater")}
    keys |= {"bound elsewhere": new_key(directory, "admin", "red", "another")}
    last = keys["red admin"][-1]
    keys |= {"guesser": keys["red admin"][:-1] + ("B" if last == "A" else "A")}
    with ExitStack() as stack:
        clients = {name: stack.enter_context(client_of(asking, key)) for name, key in keys.items()}
        clients["nobody"] = stack.enter_context(httpx.Client(base_url=asking.url, timeout=30))
        yield clients


def routes() -> set[tuple[str, str]]:
    app = create_app(Settings.model_validate({}), "redis://nowhere")
    contexts = iter_route_contexts(app.routes)
    return {(method, route.path or "") for route in contexts for method in (route.methods or {"?"}) - {"HEAD"}}


def test_every_route_is_in_the_table():
    assert routes() == set(TABLE)


def usual(pattern: str) -> str:
    """A path of this pattern; `name` is that of a reference, of which rows may be sent, or of the experiment."""
    name = "rows" if pattern.startswith("/v1/references") else "shared"
    return pattern.format(name=name, digest="1" * 64, piece=0, number=1, generator="a")


def path_of(admin: httpx.Client, place: tuple[str, str]) -> str:
    """The path of a route of the table that an admin asks for."""
    path = TABLE[place].path
    return path(admin) if callable(path) else path or usual(place[1].replace(":path", ""))


def expected(route: Route, path: str | Callable[[httpx.Client], str], caller: str) -> int:
    """The status that a caller gets."""
    if route.role is None:
        return route.allowed
    if caller in ("nobody", "guesser"):
        return 401
    namespace, role = caller.split(" ")
    if caller == "bound elsewhere":
        role = "admin"
    if not route.raters if role == "rater" else ROLES.index(role) < ROLES.index(route.role):
        return 403
    if route.operators:
        return route.allowed if namespace == "default" else 403
    if namespace == "bound":
        if callable(path) or path.startswith(INSIDE):
            return 404 if caller == "bound elsewhere" else route.allowed
        return route.allowed if route.of_all else 403
    return route.allowed if namespace == "red" else route.elsewhere


@pytest.mark.parametrize(("method", "pattern"), TABLE, ids=" ".join)
def test_every_role_on_every_route(callers: dict[str, httpx.Client], method: str, pattern: str):
    route, admin = TABLE[method, pattern], callers["red admin"]
    known = route.path or usual(pattern.replace(":path", ""))
    statuses = {caller: expected(route, known, caller) for caller in callers}
    refused = [caller for caller in callers if statuses[caller] >= 400]

    def ask(caller: str, path: str) -> int:
        return callers[caller].request(method, path, **route.request).status_code

    def path() -> str:
        admin.post("/v1/experiments", json={"name": "shared", **CONFIG}).raise_for_status()
        admin.post("/v1/references?name=real", **MOMENTS).raise_for_status()
        return known(admin) if callable(known) else known

    there = path()
    before = admin.get(f"{INSIDE}/report").headers["etag"]
    found = {caller: ask(caller, there) for caller in refused}
    assert admin.get(f"{INSIDE}/report").headers["etag"] == before
    # Those who may come last: what they do is done, and what it is done to may have to be made again.
    found |= {caller: ask(caller, path()) for caller in callers if caller not in refused}
    assert found == statuses


INSERTED = ("%0a", "%0d", "%00", "%7f", "%c2%85", "/", "//", "%2f", ";x", ";%0a", ".", "/.", "/..", "%2e", "%20")
INSERTED += ("%250a", "%252f", "%5c")


def spellings(path: str) -> Iterator[str]:
    """Other texts of a path: with something at its end, at its start, and around each slash; and in other cases."""
    place = [0, len(path), *(at + i for at, letter in enumerate(path) if letter == "/" for i in (0, 1))]
    for inserted in INSERTED:
        yield from (path[:at] + inserted + path[at:] for at in {*place})
    yield from {path.upper(), path.title(), path.swapcase()} - {path}


@dataclass
class Direct:
    """The application in this process, asked without a server: a path comes to it as uvicorn would decode it."""

    app: Application
    key: str

    async def status(self, request: httpx.Request, path: str) -> int:
        answer: list[int] = []
        headers = [(name.lower(), value) for name, value in request.headers.raw]
        headers += [(b"authorization", f"Bearer {self.key}".encode())] if self.key else []
        scope = {"type": "http", "method": request.method, "path": unquote(path), "raw_path": path.encode()}
        scope |= {"headers": headers, "query_string": request.url.query, "scheme": "http", "root_path": ""}

        messages = iter([{"type": "http.request", "body": request.content}])

        async def receive() -> dict[str, Any]:
            return next(messages, None) or await asyncio.Future()  # the client stays

        async def send(message: MutableMapping[str, Any]) -> None:
            answer.extend([message["status"]] if "status" in message else [])

        await self.app(scope, receive, send)
        return answer[0]


async def openings(url: str, keys: Mapping[str, str], paths: Mapping[tuple[str, str], str], share: float) -> list[str]:
    """The requests by which a caller gets an answer under another spelling of a path that is refused to it.

    share: of the spellings, drawn at random for each caller, beside a newline at the end.
    """
    chance, opened, tried = Random(0), list[str](), 0
    app = create_app(Settings.model_validate({"require_keys": True}), url)
    async with app.router.lifespan_context(app):
        for caller, key in keys.items():
            direct = Direct(app, key)
            for (method, pattern), path in paths.items():
                request = httpx.Request(method, f"http://localhost{path}", **TABLE[method, pattern].request)
                path = request.url.path
                if await direct.status(request, path) not in (401, 403, 404):
                    continue
                for other in [f"{path}%0a", *(other for other in spellings(path) if chance.random() < share)]:
                    tried += 1
                    if (status := await direct.status(request, other)) < 400:
                        opened.append(f"{caller}: {method} {other} {status}")
    assert tried > 20_000 * share
    return opened


# FastAPI makes the schemas of bodies when the first one comes, and pydantic then warns of what FastAPI wrote.
@pytest.mark.filterwarnings("ignore:The 'alias' attribute")
@pytest.mark.parametrize("share", [0.05, pytest.param(0.3, marks=pytest.mark.long)])
def test_no_spelling_of_a_path_opens_what_is_refused(asking: Service, directory: Path, share: float):
    """For every route of the API and every kind of caller."""
    with client_of(asking, new_key(directory, "admin", "red")) as admin:
        admin.post("/v1/experiments", json={"name": "shared", **CONFIG}).raise_for_status()
        admin.post("/v1/references?name=real", **MOMENTS).raise_for_status()
        guest = admin.post(f"{INSIDE}/shares", json={}).json()["key"]
        paths = {
            (method, pattern): route.path(admin)
            if callable(route.path)
            else route.path or usual(pattern.replace(":path", ""))
            for (method, pattern), route in TABLE.items()
        }
    keys = {role: new_key(directory, role, "red") for role in ("viewer", "worker")}
    keys |= {"nobody": "", "share": guest, "bound elsewhere": new_key(directory, "admin", "red", "another")}
    keys |= {"rater": new_key(directory, "rater", "red", "shared")}
    keys |= {"other namespace": new_key(directory, "admin", "blue")}
    assert asyncio.run(openings(running_url(directory), keys, paths, share)) == []


@pytest.mark.parametrize("letter", ["%0a", "%0d", "%00", "%1f", "%7f", "%c2%85"])
def test_a_control_character_in_a_path_is_refused(callers: dict[str, httpx.Client], letter: str):
    """To everybody, and before anything else is looked at."""
    paths = "/healthz", "/metrics", f"{INSIDE}/export", f"{INSIDE}/generators/a{letter}b/records"
    answers = [callers[who].get(path + letter) for who in ("nobody", "red viewer", "red admin") for path in paths]
    assert {answer.status_code for answer in answers} == {400}
    assert "control characters" in answers[0].json()["detail"]


def test_an_answer_that_holds_data_is_kept_by_nobody(callers: dict[str, httpx.Client]):
    """Or by the browser alone, which asks whether it is still so by the fingerprint."""
    admin = callers["red admin"]
    admin.post("/v1/experiments", json={"name": "shared", **CONFIG}).raise_for_status()
    for method, pattern in TABLE:
        if method == "GET" and TABLE[method, pattern].role:
            path = TABLE[method, pattern].path or usual(pattern.replace(":path", ""))
            answer = admin.get(path(admin) if callable(path) else path)
            kept = "private, no-cache" if "etag" in answer.headers else "private, no-store"
            assert (pattern, answer.headers["cache-control"]) == (pattern, kept)
            assert answer.headers["x-content-type-options"] == "nosniff"


def test_lists_show_no_more_than_a_key_is_good_for(callers: dict[str, httpx.Client]):
    admin = callers["red admin"]
    for name in ("shared", "private"):
        admin.post("/v1/experiments", json={"name": name, **CONFIG}).raise_for_status()
    admin.post("/v1/references?name=reds-own", **MOMENTS).raise_for_status()
    callers["blue admin"].post("/v1/experiments", json={"name": "theirs", **CONFIG}).raise_for_status()

    def listed(caller: str, kind: str = "experiments") -> set[str]:
        return {item["name"] for item in callers[caller].get(f"/v1/{kind}?limit=200").json()[kind]}

    assert {"shared", "private"} <= listed("red viewer")
    assert "theirs" not in listed("red viewer")
    assert listed("bound viewer") == {"shared"}
    assert not {"shared", "private"} & (listed("blue admin") | listed("default admin"))
    assert "reds-own" in listed("red viewer", "references")
    assert "reds-own" not in listed("blue admin", "references") | listed("default viewer", "references")


def test_the_same_name_in_two_namespaces_is_two_experiments(callers: dict[str, httpx.Client], directory: Path):
    """And nothing that is done in one names a key in Redis of the other."""
    red, blue = callers["red admin"], callers["blue admin"]
    for client, classes in ((red, 3), (blue, 5)):
        config = {"name": "twin", "generators": ["a"], "metric": {"name": "is", "dimension": classes}}
        client.post("/v1/experiments", json=config).raise_for_status()
    url = running_url(directory)
    with Redis.from_url(url) as redis, redis.monitor() as monitor:
        pick = red.post("/v1/experiments/twin/picks", json={}).json()["picks"][0]
        path = f"/v1/experiments/twin/picks/{pick['number']}/batch?next=1&nonce={pick['nonce']}"
        told = red.post(path, content=BATCH, headers=TENSORS)
        assert (pick["experiment"], told.json()["samples"]) == ("twin", 1)
        assert red.get("/v1/experiments/twin/report").json()["samples"] == 1
        archive = red.get("/v1/experiments/twin/export").content
        copy = red.post("/v1/import", params={"name": "copy"}, content=archive)
        assert copy.json()["config"]["name"] == "copy"
        assert red.delete("/v1/experiments/copy").status_code == 204
        redis.set("optimist:the-end", 1)
        seen = []
        while "the-end" not in (command := monitor.next_command()["command"]):
            seen += re.findall(r"optimist:\{([^}]*)\}", command)
        redis.delete("optimist:the-end")
    assert {"red/twin", "red/copy"} <= set(seen)
    assert all(name.startswith("red/") for name in seen)
    assert blue.get("/v1/experiments/twin/report").json()["samples"] == 0
    assert blue.get("/v1/experiments/copy").status_code == 404


@pytest.mark.long
def test_scorers_find_experiments_of_every_namespace(shared: Service):
    with Optimist(shared.url, api_key=new_key(shared.directory, "admin", "red")) as optimist:
        reference = (np.zeros(2), np.eye(2))
        experiment = optimist.create_experiment("fid", ["good", "bad"], reference=reference, budget=200, stop=False)
        for pick in experiment.picks():
            rng = np.random.default_rng(pick.seed)
            pick.tell(rng.standard_normal((pick.size, 2)) + (0.0 if pick.generator == "good" else 3.0))
        report = experiment.report()
        assert report.decision.best == "good"
        assert all(row.score is not None for row in report.standings)


@pytest.mark.long
def test_a_revoked_key_is_worthless_within_five_seconds_and_a_new_one_good_at_once(asking: Service, directory: Path):
    made = optimist_keys("create", "--role", "viewer", "--note", "a passer-by", "--data-dir", str(directory))
    key = made.stdout.strip()
    with client_of(asking, key) as client:
        assert client.get("/v1/experiments").status_code == 200
        listed = optimist_keys("list", "--json", "--data-dir", str(directory)).stdout
        assert "a passer-by" in listed
        assert "digest" not in listed
        secret = key.split("_", 2)[2]  # which may contain "_", too
        assert secret not in listed
        revoked = optimist_keys("revoke", key.split("_")[1], "--data-dir", str(directory))
        assert revoked.exit_code == 0, revoked.stderr
        until(lambda: client.get("/v1/experiments").status_code == 401, 10.0)
    assert optimist_keys("revoke", key, "--data-dir", str(directory)).exit_code == 1
    assert secret not in asking.log()


def test_a_rater_has_a_key_for_named_experiments_alone(directory: Path):
    """The page for raters offers the experiments that the key names, and no list."""
    create = ("create", "--role", "rater", "--data-dir", str(directory))
    refused = optimist_keys(*create)
    assert refused.exit_code == 1
    assert "expected --experiment NAME" in " ".join(refused.stderr.split())
    assert optimist_keys(*create, "--experiment", "shared").exit_code == 0


def test_the_sdk_takes_the_key_from_the_environment(asking: Service, directory: Path, monkeypatch: pytest.MonkeyPatch):
    with Optimist(asking.url) as optimist, pytest.raises(FixError, match="expected an access key"):
        optimist.experiments()
    monkeypatch.setenv("OPTIMIST_API_KEY", new_key(directory, "viewer", "green"))
    with Optimist(asking.url) as optimist:
        assert optimist.experiments() == []
        with pytest.raises(FixError, match="role admin"):
            optimist.create_experiment("x", ["a"], metric="is", dimension=3)


def test_a_browser_signs_in_with_a_cookie_that_scripts_do_not_see(asking: Service, directory: Path):
    key = new_key(directory, "admin", "green")
    with httpx.Client(base_url=asking.url) as browser:
        signed_in = browser.post("/v1/session", headers=bearer(key))
        caller = {"namespace": "green", "role": "admin", "experiments": [], "key": key.split("_")[1]}
        assert signed_in.json() == {**caller, "previews": True, "image_hosts": []}
        cookie = signed_in.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        assert browser.get("/v1/experiments").status_code == 200
        own, other = {"origin": asking.url}, {"origin": "https://example.org"}
        body = {"name": "made-by-the-page", **CONFIG}
        assert browser.post("/v1/experiments", json=body, headers=other).status_code == 403
        assert browser.post("/v1/experiments", json=body, headers=own).status_code == 200
        assert browser.delete("/v1/session", headers=own).status_code == 204
        assert browser.get("/v1/experiments").status_code == 401


@pytest.mark.parametrize(
    "shown", ["", "Bearer", "Bearer x", "Token eDp5", "Bearer optimist_000000000000_" + 43 * "A", "é"]
)
def test_what_is_no_key_is_refused(asking: Service, shown: str):
    reply = httpx.get(f"{asking.url}/v1/experiments", headers={"authorization": shown.encode()})
    assert reply.status_code == 401
    assert ("got another scheme" in reply.json()["detail"]) == (shown.partition(" ")[0] != "Bearer")
    assert reply.headers["www-authenticate"] == "Bearer"
    assert reply.json()["type"] == "urn:optimist:problem:unauthorized"


def test_an_open_service_answers_to_its_own_names_and_pages_alone(shared: Service, name: str):
    url = f"{shared.url}/v1/experiments"
    assert httpx.get(url).status_code == 200
    assert httpx.get(url, headers={"host": f"localhost:{shared.port}"}).status_code == 200
    assert httpx.get(url, headers={"host": "rebound.example.org"}).status_code == 403
    body = {"name": name, **CONFIG}
    assert httpx.post(url, json=body, headers={"origin": "https://example.org"}).status_code == 403
    assert httpx.post(url, json=body, headers={"origin": shared.url}).status_code == 200
    assert httpx.get(f"{shared.url}/v1/session").json()["key"] is None
    # A key works here, too, and nothing is passed off as one.
    with Optimist(shared.url, api_key=new_key(shared.directory, "viewer", "of-nobody-else")) as optimist:
        assert optimist.experiments() == []
    assert httpx.get(url, headers=bearer("x")).status_code == 401


@pytest.mark.long
def test_beyond_loopback_the_service_does_not_start_without_keys_unless_it_is_told_so(tmp_path: Path):
    service = Service(tmp_path, "--host=0.0.0.0", "--no-scoring").start(wait=False)
    assert service.process.wait(60) == 1
    assert "optimist keys create --role admin" in " ".join(service.log().split())
    key = optimist_keys("create", "--role", "admin", "--data-dir", str(tmp_path)).stdout.strip()
    service.start()
    try:
        assert httpx.get(f"{service.url}/v1/experiments").status_code == 401
        assert httpx.get(f"{service.url}/v1/experiments", headers=bearer(key)).status_code == 200
    finally:
        service.stop()
    with serving(tmp_path, "--host=0.0.0.0", "--no-scoring", "--insecure") as service:
        assert httpx.get(f"{service.url}/v1/experiments", headers={"host": "any.example.org"}).status_code == 200


@pytest.mark.parametrize("path", ["/v1/experiments", "/healthz"])
def test_a_header_that_says_who_calls_comes_once(asking: Service, directory: Path, path: str):
    """Of two, a proxy may go by the one and the service by the other."""
    values = {"Host": f"127.0.0.1:{asking.port}", "Origin": asking.url, **bearer(new_key(directory, "viewer"))}
    values["Authorization"] = values.pop("authorization")

    def status(*more: str) -> tuple[int, bytes]:
        connection = HTTPConnection("127.0.0.1", asking.port, timeout=60)
        with closing(connection):
            connection.putrequest("GET", path, skip_host=True)
            for header in (*values, *more):
                connection.putheader(header.lower() if header in more else header, values[header])
            connection.endheaders()
            reply = connection.getresponse()
            return reply.status, reply.read()

    assert status()[0] == 200
    for name in values:
        refused, problem = status(name)
        assert refused == 400
        assert f"expected at most one {name.lower()} header".encode() in problem
