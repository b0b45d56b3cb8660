"""The Dockerfile is linted, compose.yaml keeps the Compose Specification, and both fit what they are made of."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from compose_spec import PyCompose

ROOT = Path(__file__).parents[2]
COMPOSE = ROOT / "docker" / "compose.yaml"


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    return yaml.safe_load(COMPOSE.read_text())


def validated(text: str) -> PyCompose:
    # YAML's merges are PyYAML's to follow: the reader of the specification does not.
    found = PyCompose.from_yaml(yaml.safe_dump(yaml.safe_load(text)))
    found.validate()
    return found


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
