"""Settings that say where numbers live and how much memory they may keep."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.main import get_command

from optimist.commands.app import app
from optimist.commands.shared import settings_of
from optimist.settings import Settings
from tests.support.commands import invoked


def test_a_scorer_keeps_a_quarter_of_the_memory_unless_told_otherwise(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("OPTIMIST_WARM_BYTES", raising=False)
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert 2**20 < Settings().warm_bytes <= memory // 4
    monkeypatch.setenv("OPTIMIST_WARM_BYTES", "123456")
    assert Settings().warm_bytes == 123456


def test_a_gpu_that_is_not_here_is_said_plainly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    np.save(tmp_path / "a.npy", np.full((5, 2), 0.5))
    scored = invoked("score", tmp_path / "a.npy", "--metric=is", "--device=cuda:99", code=1)
    monkeypatch.setenv("OPTIMIST_DEVICE", "cuda:99")
    # The device is looked for before Redis is waited for.
    for result in (scored, invoked("scorer", "--redis-url=unix:///nowhere", code=1)):
        assert "device 'cuda:99' is not here" in result.stderr
        assert isinstance(result.exception, SystemExit), "no traceback"


@pytest.mark.parametrize(("given", "expected"), [("--version", "0."), ("-h", "Usage: "), ("--help", "Usage: ")])
def test_version_and_help(given: str, expected: str):
    result = invoked(given, code=0)
    assert result.stdout.strip().startswith(expected)


@pytest.mark.parametrize("command", [["serve"], ["keys", "list"]])
def test_two_places_of_the_data_are_refused(command: list[str], tmp_path: Path):
    result = invoked(*command, f"--data-dir={tmp_path}", "--redis-url=redis://127.0.0.1:9", code=2)
    assert "expected --data-dir or --redis-url" in result.stderr


def test_an_option_wins_over_the_variable_of_the_other_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPTIMIST_REDIS_URL", "redis://127.0.0.1:9")
    monkeypatch.setenv("OPTIMIST_DATA_DIR", "/data")
    assert settings_of().redis_url == "redis://127.0.0.1:9"
    chosen = settings_of(data_dir=tmp_path)
    assert (chosen.redis_url, chosen.data_dir) == (None, tmp_path)


@pytest.mark.parametrize("command", ["serve", "scorer"])
def test_every_option_of_a_process_has_its_variable(command: str):
    """`--log-format` and OPTIMIST_LOG_FORMAT: the same words."""
    group: Any = get_command(app)
    own = {"help", "metrics_port", "metrics_host"}  # of a scorer that runs alone
    assert {option.name for option in group.get_command(None, command).params} - own <= set(Settings.model_fields)


def test_a_variable_that_is_wrong_is_said_plainly(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPTIMIST_PORT", "many")
    result = invoked("serve", code=2)
    said = " ".join(result.stderr.replace("│", " ").split())
    assert "OPTIMIST_PORT: expected a whole number, got 'many'" in said


def test_a_scorer_finds_its_redis_in_the_variable(monkeypatch: pytest.MonkeyPatch):
    assert "OPTIMIST_REDIS_URL" in invoked("scorer").stderr
    monkeypatch.setenv("OPTIMIST_REDIS_URL", "http://nowhere")
    assert "expected a redis://" in invoked("scorer").stderr


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("redis://h:6379/2", "redis://:p%40s%2Fw@h:6379/2"),
        ("rediss+cluster://me@h:6379?ssl_ca_certs=a", "rediss+cluster://me:p%40s%2Fw@h:6379?ssl_ca_certs=a"),
        ("unix:///run/redis.sock", "unix://:p%40s%2Fw@/run/redis.sock"),
        ("redis://:other@h:6379", "redis://:other@h:6379"),
        ("redis://h:6379?password=other", "redis://h:6379?password=other"),
    ],
)
def test_the_password_of_redis_is_put_into_its_url(url: str, expected: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPTIMIST_REDIS_PASSWORD", "p@s/w")
    assert settings_of(redis_url=url).redis_url == expected
    monkeypatch.setenv("OPTIMIST_REDIS_URL", url)
    settings = Settings()
    assert settings.redis_url == expected
    assert Settings.model_validate(settings.model_dump(mode="json")).redis_url == expected, "as children get it"
    assert "p@s/w" not in f"{settings.redis_password}"


@pytest.mark.parametrize("command", [["serve"], ["scorer"], ["keys", "list"]])
@pytest.mark.parametrize("url", ["redis://:hush@h:1", "redis://me:hush@h:1", "redis://h:1?password=hush"])
def test_no_password_is_taken_from_a_command_line(command: list[str], url: str):
    result = invoked(*command, f"--redis-url={url}", code=2)
    assert "OPTIMIST_REDIS_PASSWORD" in result.stderr
    assert "hush" not in result.stderr
