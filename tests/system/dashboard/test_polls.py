"""What dashboards poll, through HTTP: reports since a cursor, the list of experiments, and a million rounds."""

from __future__ import annotations

import re
import time
from pathlib import Path

import httpx
import numpy as np
import pytest
from redis import Redis

from optimist.store import start_embedded
from optimist_client import Experiment, Optimist
from optimist_client.metrics import Mean
from optimist_client.models import ExperimentPage, Report
from tests.support.processes import serving

SHIFTS = {"good": 0.0, "bad": 1.0, "worse": 2.0}


def work(experiment: Experiment, samples: int) -> None:
    for pick in experiment.picks(samples):
        rng = np.random.default_rng(pick.seed)
        pick.tell(rng.standard_normal((pick.size, 4)) + SHIFTS[pick.generator])


def poll(http: httpx.Client, name: str, after: int, told: int) -> Report:
    """The report once it knows of so many batches: it may be a second old."""
    deadline = time.monotonic() + 30
    while True:
        report = Report.model_validate(http.get(f"/v1/experiments/{name}/report?after={after}").json())
        if report.rounds == told:
            return report
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.05)


@pytest.fixture
def experiment(client: Optimist) -> Experiment:
    reference = (np.zeros(4), np.eye(4))
    return client.create_experiment(f"polled-{time.monotonic_ns()}", list(SHIFTS), reference=reference, stop=False)


def test_a_poll_brings_what_came_since_its_cursor(http: httpx.Client, experiment: Experiment):
    work(experiment, 200)
    first = poll(http, experiment.name, 0, 40).progress
    assert first is not None
    assert (first.told, first.stride, first.rounds[-1], first.samples[-1]) == (40, 1, 40, 200)
    assert [known.generator for known in first.generators] == list(SHIFTS)
    assert sum(known.batches[-1] for known in first.generators) == 40
    assert all(0 < known.curve.samples[0] <= 5 * known.batches[-1] for known in first.generators)
    curve = first.generators[0].curve
    assert all(lower <= score for lower, score in zip(curve.lower, curve.scores, strict=True))
    held = experiment.ask(worker="somebody")
    work(experiment, 50)
    report = poll(http, experiment.name, first.told, 50)
    second = report.progress
    assert second is not None
    assert second.rounds == list(range(40, 51)), "the last that was known comes again"
    assert [(pick.number, pick.worker) for pick in second.picks] == [(held.number, "somebody")]
    assert report.regret is not None
    leader = next(standing for standing in report.standings if standing.generator == report.decision.best)
    gaps = [abs(standing.score - leader.score) for standing in report.standings]
    told = [known.batches[-1] for known in second.generators]
    assert sum(gap * batches for gap, batches in zip(gaps, told, strict=True)) == pytest.approx(report.regret.total)
    assert experiment.report().progress is None, "only where it is asked for"


def test_polls_of_a_moment_are_made_once_and_tagged(http: httpx.Client, experiment: Experiment):
    work(experiment, 30)
    poll(http, experiment.name, 0, 6)
    path = f"/v1/experiments/{experiment.name}/report?after=0"
    experiment.stop()
    reply = http.get(path)
    assert reply.json()["state"] == "stopped", "whoever changes something sees it at once"
    tag = reply.headers["etag"]
    assert http.get(path, headers={"if-none-match": tag}).status_code == 304
    assert http.get(f"{path.removesuffix('0')}6", headers={"if-none-match": tag}).status_code == 200, "another cursor"
    beyond = http.get(f"{path.removesuffix('0')}99999").json()
    assert beyond["progress"]["rounds"] == [1, 2, 3, 4, 5, 6], "a cursor of another experiment of this name"
    assert http.get("/v1/experiments/nobody/report?after=0").status_code == 404
    assert http.get(f"{path.removesuffix('0')}-1").status_code == 422


def test_the_list_has_summaries_with_the_newest_first(http: httpx.Client, experiment: Experiment):
    work(experiment, 100)
    deadline = time.monotonic() + 30
    while True:
        page = ExperimentPage.model_validate(http.get("/v1/experiments?limit=1").json())
        summary = page.experiments[0]
        if summary.name == experiment.name and summary.samples == 100 and summary.score is not None:
            break
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.05)
    report = experiment.report()
    assert (summary.decision.best, summary.state, summary.generators) == (report.decision.best, report.state, 3)
    assert not summary.incomplete
    assert (summary.decision.verdicts, summary.decision.hardest) == ((), None)
    assert len(report.decision.verdicts) == 2


@pytest.mark.long
def test_a_million_rounds_are_a_small_report(http: httpx.Client, million: str):
    reply = http.get(f"/v1/experiments/{million}/report?after=0")
    report = Report.model_validate(reply.json())
    assert report.progress is not None
    assert len(reply.content) < 250_000
    assert len(report.progress.rounds) <= 256
    assert (report.rounds, report.progress.rounds[-1], report.progress.samples[-1]) == (10**6, 10**6, 5 * 10**6)
    assert [known.batches[-1] for known in report.progress.generators] == [one.batches for one in report.standings]
    known = http.get(f"/v1/experiments/{million}/report?after=1000000")
    assert len(known.content) < 10_000


def test_the_page_may_run_no_scripts_but_its_own(http: httpx.Client):
    page = http.get("/")
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert "<script>" not in page.text
    assert "onclick" not in page.text
    version = re.search(r'src="dashboard/(\w+)/page.js"', page.text)
    assert version is not None
    for name in ("page.js", "svg.js"):
        script = http.get(f"/dashboard/{version[1]}/{name}")
        assert script.headers["content-type"].startswith("text/javascript")
        assert script.headers["content-encoding"] == "gzip"
        assert "immutable" in script.headers["cache-control"]
        assert http.get(f"/dashboard/other/{name}").headers["cache-control"] == "no-cache"
    assert http.get(f"/dashboard/{version[1]}/..%2F..%2Fpyproject.toml").status_code == 404
    assert http.get("/dashboard/0/nothing.js").status_code == 404
    plain = http.get(f"/dashboard/{version[1]}/page.js", headers={"accept-encoding": "identity"})
    assert (plain.headers.get("content-encoding"), plain.text) == (None, http.get("/dashboard/0/page.js").text)


@pytest.mark.long
def test_a_line_is_made_anew_when_its_experiment_has_changed(tmp_path: Path):
    with (
        start_embedded(tmp_path / "redis") as server,
        serving(tmp_path / "service", f"--redis-url={server.url}", "--no-scoring") as service,
        Optimist(service.url) as client,
        httpx.Client(base_url=service.url) as http,
        Redis(unix_socket_path=server.url.removeprefix("unix://")) as redis,
    ):
        made = [client.create_experiment(name, ["a", "b"], metric=Mean(), max_wait=0.0) for name in ("x", "y", "z")]
        for experiment in made:
            experiment.ask().tell(np.ones((5, 1)))

        def listed() -> tuple[dict[str, tuple[int, list[str]]], int]:
            """Samples and tags by name, and how many states were read for it."""
            before = states()
            lines = ExperimentPage.model_validate(http.get("/v1/experiments").json()).experiments
            return {line.name: (line.samples, line.tags) for line in lines}, states() - before

        def states() -> int:
            return redis.info("commandstats").get("cmdstat_evalsha", {"calls": 0})["calls"]

        before = {name: (5, []) for name in "xyz"}
        assert listed() == (before, 3)
        assert listed() == (before, 0)
        made[0].ask().tell(np.zeros((5, 1)))
        assert listed() == (before | {"x": (10, [])}, 1)
        made[1].annotate(tags=["new"])
        assert listed() == (before | {"x": (10, []), "y": (5, ["new"])}, 1)
        client.delete_experiment("z")
        client.create_experiment("z", ["a", "b", "c"], metric=Mean())
        assert listed()[0]["z"] == (0, [])
