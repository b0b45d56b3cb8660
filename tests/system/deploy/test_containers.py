"""The Dockerfile is linted, compose.yaml keeps the Compose Specification, and both fit what they are made of."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from redis import Redis
from redis.exceptions import AuthenticationError

from tests.support.places import ROOT

COMPOSE = ROOT / "docker" / "compose.yaml"


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    return yaml.safe_load(COMPOSE.read_text())


def validated(text: str) -> Any:
    from compose_spec import PyCompose

    # YAML's merges are PyYAML's to follow: the reader of the specification does not.
    found = PyCompose.from_yaml(yaml.safe_dump(yaml.safe_load(text)))
    found.validate()
    return found


@pytest.mark.long
def test_the_dockerfile_is_clean():
    hadolint = Path(sys.executable).parent / "hadolint"
    found = subprocess.run([hadolint, ROOT / "docker" / "Dockerfile"], capture_output=True, text=True, timeout=60)
    assert (found.returncode, found.stdout) == (0, "")


def test_what_the_image_is_built_from_is_sent_to_the_builder():
    """A file that is copied must be there, and the ignore file must let it through."""
    dockerfile = (ROOT / "docker" / "Dockerfile").read_text()
    allowed = re.findall(r"^!(.+)$", (ROOT / "docker" / "Dockerfile.dockerignore").read_text(), re.M)
    sources = [name for line in re.findall(r"^COPY (?!--from)(.+)$", dockerfile, re.M) for name in line.split()[:-1]]
    assert set(sources) == set(allowed)
    assert all((ROOT / name).exists() for name in sources)


def test_every_image_runs_as_nobody_in_particular():
    stages = re.split(r"^FROM ", (ROOT / "docker" / "Dockerfile").read_text(), flags=re.M)[1:]
    by_name = {re.match(r"\S+ AS (\S+)", stage)[1]: stage for stage in stages}  # type: ignore[index]
    assert re.search(r"^USER 10001:10001$", by_name["runtime"], re.M)
    for target in ("api", "cpu", "cuda"):
        assert by_name[target].startswith("runtime AS")
        assert "USER" not in by_name[target]


@pytest.mark.long
def test_compose_is_valid_and_the_check_would_notice():
    text = COMPOSE.read_text()
    assert {"api-1", "api-2", "scorer", "proxy", "redis", "prometheus"} == set(validated(text).service_names())
    for right, wrong in [
        ("stop_grace_period: 60s", "stop_grace_period: soon"),
        ("read_only: true", "readonly: true"),
        ("networks: [back]", "networks: [bakc]"),
    ]:
        with pytest.raises(ValueError):
            validated(text.replace(right, wrong))


def test_containers_have_no_more_than_they_need(compose: dict[str, Any]):
    for name, service in compose["services"].items():
        assert service["read_only"], name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
    ports = [port for service in compose["services"].values() for port in service.get("ports", [])]
    assert all(port.startswith("127.0.0.1:") for port in ports)
    assert "front" not in compose["services"]["redis"]["networks"]


def test_mounted_files_exist(compose: dict[str, Any]):
    mounted = [volume for service in compose["services"].values() for volume in service.get("volumes", [])]
    files = [volume.partition(":")[0] for volume in mounted if volume.startswith(".")]
    assert files
    for file in files:
        assert (COMPOSE.parent / file).exists(), file


def test_both_deployments_give_redis_the_same_settings():
    def settings(path: str) -> dict[str, str]:
        lines = (ROOT / path).read_text().splitlines()
        return dict(line.split(maxsplit=1) for line in lines if line and not line.startswith("#"))

    first = settings("docker/redis/redis.conf")
    second = settings("deploy/kubernetes/components/redis/redis.conf")
    assert {**first, "maxmemory": ""} == {**second, "maxmemory": ""}
    assert first["appendonly"] == "yes"
    assert first["appendfsync"] == "always"
    assert first["maxmemory-policy"] == "noeviction"


def test_the_password_of_redis_is_on_no_command_line(compose: dict[str, Any]):
    password = "${OPTIMIST_REDIS_PASSWORD:?write it into docker/.env (docs/deploy.md)}"
    services = compose["services"]
    assert services["redis"]["environment"] == {"REDISCLI_AUTH": password}
    for name in ("api-1", "api-2", "scorer"):
        assert services[name]["environment"]["OPTIMIST_REDIS_PASSWORD"] == password
        assert "--redis-url" not in services[name].get("command", [])
    assert "docker/.env" in (ROOT / ".gitignore").read_text().splitlines()


@pytest.mark.long
@pytest.mark.skipif(shutil.which("redis-server") is None, reason="needs redis-server")
@pytest.mark.parametrize("deployment", ["compose", "kubernetes"])
def test_redis_starts_with_its_password_and_shows_it_nowhere(deployment: str, compose: dict[str, Any], tmp_path: Path):
    """The very command of the container, with a port and a directory of the test."""
    if deployment == "compose":
        command = [word.replace("$$", "$") for word in compose["services"]["redis"]["command"]]
        conf = ROOT / "docker" / "redis" / "redis.conf"
    else:
        folder = ROOT / "deploy" / "kubernetes" / "components" / "redis"
        documents = [one for one in yaml.safe_load_all((folder / "redis.yaml").read_text()) if one]
        [stateful] = [one for one in documents if one["kind"] == "StatefulSet"]
        command = stateful["spec"]["template"]["spec"]["containers"][0]["command"]
        conf = folder / "redis.conf"
    own = tmp_path / "redis.conf"
    own.write_text(f"{conf.read_text()}\nport 0\nunixsocket {tmp_path}/socket\ndir {tmp_path}\n")
    *shell, script = command
    process = subprocess.Popen(
        [*shell, script.replace("/etc/redis/redis.conf", f"{own}")],
        env={**os.environ, "REDISCLI_AUTH": "0123456789abcdef"},
        stdout=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + 60
        while not (tmp_path / "socket").exists():
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.02)
        with Redis(unix_socket_path=f"{tmp_path}/socket") as stranger, pytest.raises(AuthenticationError):
            stranger.ping()
        with Redis(unix_socket_path=f"{tmp_path}/socket", password="0123456789abcdef") as redis:
            assert redis.ping()
            assert redis.config_get("appendfsync") == {"appendfsync": "always"}
        listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
        assert "redis-server" in listed
        assert "0123456789abcdef" not in listed
    finally:
        process.terminate()  # it reaches Redis, which took the shell's place
        assert process.wait(60) == 0
