"""Which service clients and commands talk to: the one that is named, else OPTIMIST_URL, else this machine's."""

from __future__ import annotations

import pytest

from optimist_client import AsyncOptimist, FixError, Optimist
from optimist_client.transport import DEFAULT_URL
from tests.support.commands import invoked
from tests.support.processes import Service


def test_clients_and_commands_ask_the_service_that_the_variable_names(shared: Service, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPTIMIST_URL", shared.url)
    with Optimist() as optimist:
        optimist.create_experiment("by-variable", ["a", "b"], metric="mean")
    assert "by-variable" in invoked("list", code=0).stdout
    assert "by-variable" in invoked("show", "by-variable", code=0).stdout
    assert "begins with http:// or https://" in invoked("list", "--url", "ftp://127.0.0.1", code=1).stderr


@pytest.mark.long
def test_a_command_tries_again_for_seconds_and_says_how_a_service_is_started():
    stderr = invoked("list", "--url", "http://127.0.0.1:9", code=1).stderr
    assert "Is it running? `optimist serve` starts a service here" in " ".join(stderr.split())


async def test_the_asyncio_client_reads_it_too(shared: Service, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPTIMIST_URL", shared.url)
    async with AsyncOptimist() as optimist:
        assert isinstance(await optimist.list_experiments(), list)


def test_an_empty_variable_names_none_and_a_wrong_one_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPTIMIST_URL", "")
    monkeypatch.setenv("OPTIMIST_API_KEY", "")
    with Optimist() as optimist:
        assert optimist._transport._urls == [DEFAULT_URL]
    monkeypatch.setenv("OPTIMIST_URL", "localhost:8000")
    with pytest.raises(FixError, match="begins with http:// or https://"):
        Optimist()
