"""Two real cells behind the real front: each experiment is in one of them, and requests to the front find it."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import numpy as np
import pytest
from click.testing import Result

from optimist_client import FixError, NotFoundError, Optimist
from optimist_client.metrics import Mean
from tests.support.commands import invoked
from tests.support.keys import bearer, client_of, guarded
from tests.support.places import ROOT
from tests.support.processes import Service, free_port, until

CONFIGURATION = (ROOT / "deploy" / "kubernetes" / "overlays" / "two-cells" / "front" / "nginx.conf").read_text()
NGINX = shutil.which("nginx") or shutil.which("/usr/sbin/nginx")
needs_nginx = pytest.mark.skipif(NGINX is None, reason="needs nginx")


def here(folder: Path, port: int, cells: dict[str, int]) -> Path:
    """The file of the front's configuration, with ports of this machine."""
    text = CONFIGURATION.replace("/tmp/", f"{folder}/").replace("listen 8080", f"listen 127.0.0.1:{port}")
    for cell, at in cells.items():
        text, count = re.subn(rf"optimist\.optimist-{cell}\.svc\.cluster\.local:80", f"127.0.0.1:{at}", text)
        assert count == 1
    file = folder / "nginx.conf"
    user = "user root;\n" if os.geteuid() == 0 else ""  # else its workers could not write into the folder
    file.write_text(f"daemon off;\n{user}{text}")
    return file


@contextmanager
def front(folder: Path, cells: dict[str, int]) -> Iterator[str]:
    """The URL of nginx before these cells."""
    assert NGINX is not None
    port, log = free_port(), folder / "nginx.log"
    process = subprocess.Popen([NGINX, "-e", str(log), "-c", str(here(folder, port, cells))])
    url = f"http://127.0.0.1:{port}"

    def answers() -> bool:
        assert process.poll() is None, log.read_text()
        with contextlib.suppress(httpx.TransportError):
            return httpx.get(f"{url}/healthz").status_code == 200
        return False

    try:
        until(answers)
        yield url
    finally:
        process.terminate()
        process.wait(30)


@contextmanager
def two_cells(folder: Path) -> Iterator[tuple[dict[str, Service], str]]:
    """The cells a and b, and an admin's key that both accept."""
    with guarded(folder / "a") as (first, key):
        second = Service(folder / "b", "--require-keys")
        assert given(key, second).exit_code == 0
        second.start()
        try:
            yield {"a": first, "b": second}, key
        finally:
            second.stop()


def given(key: str, service: Service) -> Result:
    """Store a key of another service in one that does not run yet."""
    command = ["keys", "create", "--given", "--role", "admin", "--data-dir", str(service.directory)]
    return invoked(*command, input=f"{key}\n")


@needs_nginx
def test_nginx_accepts_the_configuration(tmp_path: Path):
    assert NGINX is not None
    file = here(tmp_path, free_port(), {"a": free_port(), "b": free_port()})
    checked = subprocess.run([NGINX, "-t", "-e", "stderr", "-c", str(file)], capture_output=True, text=True, timeout=60)
    assert checked.returncode == 0, checked.stderr
    assert "warn" not in checked.stderr


def test_what_is_no_key_of_another_service_is_refused_and_not_repeated(tmp_path: Path):
    refused = given("optimist_0123456789ab_secret", Service(tmp_path))
    assert refused.exit_code != 0
    assert "optimist keys create" in refused.stderr
    assert "secret" not in refused.stderr


@needs_nginx
@pytest.mark.long
def test_each_experiment_is_in_one_cell_and_found_there(tmp_path: Path):
    with two_cells(tmp_path) as (cells, key), front(tmp_path, {cell: each.port for cell, each in cells.items()}) as url:
        with Optimist(url, api_key=key) as optimist:
            names = [f"run-{number}" for number in range(12)]
            for name in names:
                optimist.create_experiment(name, ["old", "new/er"], metric=Mean(range=(0, 1)), budget=40)
            told = {name: _sampled(optimist, name) for name in names}
            _experiments_with_real_data(optimist)
            exported = tmp_path / "run-0.zip"
            optimist.experiment("run-0").export(exported)
            optimist.import_experiment(exported, "copy")
            with pytest.raises(FixError, match="/cells/a/ and /cells/b/"):
                optimist.experiments()
            with pytest.raises(FixError, match="/cells/a/"):
                optimist.create_reference("shared", mean=np.zeros(2), covariance=np.eye(2))
            with pytest.raises(FixError, match="/cells/a/"):
                optimist.import_experiment(exported)
            owners = _listed(url, key)
            assert sorted(owners) == sorted([*names, "copy", "with-moments", "with-rows"])
            assert set(owners.values()) == {"a", "b"}
            for name in names:
                assert optimist.experiment(name).report().samples == told[name]
                other = cells["b" if owners[name] == "a" else "a"]
                with Optimist(other.url, api_key=key) as direct, pytest.raises(NotFoundError):
                    direct.experiment(name)
            _shared_reference(optimist, url, key)
            optimist.delete_experiment("run-1")
            assert "run-1" not in _listed(url, key)
        _pages(url, cells, key)
        _one_cell_is_gone(url, cells, key, owners)


def _sampled(optimist: Optimist, name: str) -> int:
    """Ask and tell until the budget is spent, and change a generator whose name is escaped; return the samples."""
    experiment, rng = optimist.experiment(name), np.random.default_rng(0)
    for pick in experiment.picks():
        pick.tell(rng.random(pick.size))
    experiment.set_cost("new/er", 2.0)
    return experiment.report().samples


def _experiments_with_real_data(optimist: Optimist) -> None:
    """Their references come to the cell of their experiment, in one request or in pieces."""
    rows = np.random.default_rng(0).standard_normal((50_000, 4))  # more than nginx keeps in memory
    for name, metric in (("with-moments", "fid"), ("with-rows", "kid")):
        experiment = optimist.create_experiment(name, ["old", "new"], metric=metric, reference=rows)
        again = optimist.create_experiment(name, ["old", "new"], metric=metric, reference=rows)
        assert again.info.instance == experiment.info.instance


def _listed(url: str, key: str) -> dict[str, str]:
    """The cell of every experiment, by asking each."""
    found: dict[str, str] = {}
    for cell in ("a", "b"):
        with Optimist(f"{url}/cells/{cell}", api_key=key) as optimist:
            names = optimist.experiments()
            assert not found.keys() & set(names)
            found |= dict.fromkeys(names, cell)
    return found


def _shared_reference(optimist: Optimist, url: str, key: str) -> None:
    """A reference with a name of its own is uploaded to each cell; then experiments of all cells use it."""
    for cell in ("a", "b"):
        with Optimist(f"{url}/cells/{cell}", api_key=key) as one:
            one.create_reference("shared", mean=np.zeros(2), covariance=np.eye(2))
    for number in range(6):
        optimist.create_experiment(f"shares-{number}", ["x", "y"], reference="shared")
    assert {owner for name, owner in _listed(url, key).items() if name.startswith("shares-")} == {"a", "b"}


def _pages(url: str, cells: dict[str, Service], key: str) -> None:
    """The page of an experiment works at the front, the list at each cell; nothing else is open."""
    assert "<html" in httpx.get(f"{url}/").text
    assert httpx.get(f"{url}/cells/b", follow_redirects=True).text == httpx.get(f"{cells['b'].url}/").text
    assert httpx.get(f"{url}/v1/session", headers=bearer(key)).json()["role"] == "admin"
    assert httpx.get(f"{url}/v1/session").status_code == 401
    for path in ("/metrics", "/cells/c/v1/experiments", "/cells/a/../c/"):
        assert httpx.get(f"{url}{path}", headers=bearer(key)).status_code in (404, 421)
    with client_of(cells["a"], key) as client:
        refused = client.post("/v1/experiments?name=other", json={"name": "one", "generators": ["x", "y"]})
        assert refused.status_code == 422
        assert client.get("/v1/experiments/one").status_code == 404


def _one_cell_is_gone(url: str, cells: dict[str, Service], key: str, owners: dict[str, str]) -> None:
    """The experiments of the other cell go on; those of this one are postponed, and none is looked for elsewhere."""
    cells["a"].stop()
    with httpx.Client(base_url=url, headers=bearer(key), timeout=30) as client:
        for name, owner in owners.items():
            status = client.get(f"/v1/experiments/{name}").status_code
            assert status == (502 if owner == "a" else 404 if name == "run-1" else 200)
