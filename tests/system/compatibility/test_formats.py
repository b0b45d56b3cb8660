"""Redis data of every format open in this version, and go on to the same numbers; those of a newer one are refused."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from optimist.records import CannotStart
from optimist.store import start_embedded
from optimist.store.connection import wait_for_server
from optimist.store.store import FORMAT
from optimist_client import Experiment, Optimist
from tests.support.processes import serving
from tests.support.stored import QUESTIONS, play, standing

FIXTURES = sorted((Path(__file__).parent / "data").glob("v*.json.gz"))


@pytest.fixture(scope="module", params=FIXTURES, ids=lambda file: file.name)
def fixture(request: pytest.FixtureRequest) -> dict[str, Any]:
    return json.loads(gzip.decompress(request.param.read_bytes()))


@contextmanager
def opened(fixture: dict[str, Any], directory: Path) -> Iterator[Optimist]:
    """A service with these data."""
    with start_embedded(directory) as embedded, Redis.from_url(embedded.url) as redis:
        for key, dump in fixture["keys"].items():
            redis.restore(key, 0, base64.b64decode(dump))
    with serving(directory) as service, Optimist(service.url) as connected:
        yield connected


@pytest.fixture(scope="module")
def client(fixture: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Optimist]:
    with opened(fixture, tmp_path_factory.mktemp("old")) as connected:
        yield connected


def alike(found: dict[str, Any], expected: dict[str, Any]) -> None:
    """The same answers, the same counts, and the same numbers but for other machines' last bits."""
    numbers = {"generators": None, "watched": None, "mixture": None, "routes": None}
    assert {**found, **numbers} == {**expected, **numbers}
    for made in ("mixture", "routes"):
        assert found.get(made, []) == pytest.approx(expected.get(made, []), rel=1e-6, abs=1e-9)
    by_metric = {"": expected["generators"], **expected.get("watched", {})}
    found_by_metric = {"": found["generators"], **found["watched"]}
    assert found_by_metric.keys() == by_metric.keys()
    for metric, rows in by_metric.items():
        assert found_by_metric[metric].keys() == rows.keys()
        for name, row in rows.items():
            assert found_by_metric[metric][name][0] == row[0], (metric, name)
            assert found_by_metric[metric][name][1:] == pytest.approx(row[1:], rel=1e-9), (metric, name)


def test_every_format_has_its_fixture():
    assert [file.name for file in FIXTURES] == [f"v{number}.json.gz" for number in range(1, FORMAT + 1)]
    assert all(file.stat().st_size < 420 * 1024 for file in FIXTURES)


def test_every_redis_reads_the_fixtures(fixture: dict[str, Any]):
    # A dump ends with the version of its format, which is 9 in Redis 6.2, and a checksum of eight bytes.
    ends = {base64.b64decode(dump)[-10:-8] for dump in fixture["keys"].values()}
    assert ends == {(9).to_bytes(2, "little")}


def test_all_that_was_there_is_there(fixture: dict[str, Any], tmp_path: Path):
    with opened(fixture, tmp_path) as client:
        assert set(client.experiments()) == set(fixture["before"])
        assert [reference.name for reference in client.references()] == ["standard"]
        for name in fixture["before"]:
            alike(standing(client.experiment(name)), fixture["before"][name])


@pytest.mark.long
@pytest.mark.parametrize("name", QUESTIONS)
def test_an_experiment_goes_on_and_can_be_taken_along(
    name: str, client: Optimist, fixture: dict[str, Any], tmp_path: Path
):
    experiment: Experiment = client.experiment(name)
    picks = play(experiment, 8)
    assert [list(pick) for pick in picks] == fixture["picks"][name]
    alike(standing(experiment), fixture["after"][name])
    experiment.export(tmp_path / "file.zip")
    imported = client.import_experiment(tmp_path / "file.zip", f"{name}-again")
    # Archives hold no mixture: it is made anew, of all samples.
    again, expected = standing(imported), fixture["after"][name]
    assert ("mixture" in again) == ("mixture" in expected)
    alike(again, expected | {name: again[name] for name in ("mixture", "decided", "best") if "mixture" in again})


async def test_data_of_a_newer_service_are_refused(tmp_path: Path):
    with start_embedded(tmp_path) as embedded, Redis.from_url(embedded.url) as redis:
        await wait_for_server(embedded.url)
        assert redis.get("optimist:format") == str(FORMAT).encode()
        await wait_for_server(embedded.url)
        redis.set("optimist:format", FORMAT + 1)
        with pytest.raises(CannotStart, match=f"format {FORMAT + 1}, and this service knows format {FORMAT}"):
            await wait_for_server(embedded.url)
        redis.set("optimist:format", "x")
        with pytest.raises(CannotStart, match="another program"):
            await wait_for_server(embedded.url)
