"""`optimist list`, `show`, `open`, `annotate`, `delete`, `backup` on a service."""

from __future__ import annotations

import json
import re
import threading
import webbrowser
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from redis import Redis

from optimist.store import running_url
from optimist_client import NotFoundError, Optimist
from tests.support.commands import invoked
from tests.support.keys import new_key
from tests.support.processes import Service, scored, serving

TERMINAL = {"FORCE_COLOR": "1", "COLUMNS": "80"}
LONG = "a-generator-with-a-name-that-is-longer-than-half-of-a-line-of-a-terminal"


@pytest.fixture
def made(client: Optimist, name: str) -> str:
    """The name of a decided experiment with tags and a generator of a long name."""
    experiment = client.create_experiment(
        name, [LONG, "near"], reference=(np.zeros(4), np.eye(4)), tags=["paper", name], batch_size=10
    )
    for pick in experiment.picks():
        shift = 2.0 * (pick.generator == LONG)
        pick.tell(np.random.default_rng(pick.seed).standard_normal((pick.size, 4)) + shift)
    return name


def run(service: Service, *arguments: object, env: dict[str, str] | None = None, code: int = 0) -> str:
    done = invoked(*arguments, "--url", service.url, env=env, code=code)
    return re.sub(r"\x1b\[[0-9;]*m", "", done.stdout if code == 0 else done.output)


def test_a_list_is_aligned_lines_or_a_table_of_80_columns(service: Service, client: Optimist, made: str):
    report = client.experiment(made).report()
    head, line = (re.split("  +", row) for row in run(service, "list", "--tag", made).splitlines())
    assert head == ["experiment", "state", "best", "metric", "score", "samples", "tags"]
    assert line[:4] == [made, "decided", f"near {report.decision.confidence_text}", "FID"]
    assert line[4:] == [report.in_order[0].score_text, f"{report.samples:,}", f"paper, {made}"]
    shown = run(service, "list", "--tag", made, env=TERMINAL).splitlines()
    assert max(map(len, shown)) <= 80
    assert "near" in " ".join(shown)
    (one,) = json.loads(run(service, "list", "--search", made, "--json"))
    assert (one["name"], one["samples"]) == (made, report.samples)
    assert run(service, "list", "--tag", "nobody has this tag").count("\n") == 1


def test_an_experiment_is_shown_as_print_shows_it(service: Service, client: Optimist, made: str):
    report = client.experiment(made).report()
    assert run(service, "show", made) == f"{report}\n"
    assert json.loads(run(service, "show", made, "--json")) == report.to_dict()
    shown = run(service, "show", made, env=TERMINAL)
    assert max(map(len, shown.splitlines())) <= 80
    assert report.answer in " ".join(shown.split())
    assert client.experiment(made).url in shown.replace("\n", "")
    assert "no experiment" in run(service, "show", "nothing-of-this-name", code=1)


def test_it_is_watched_until_it_has_ended(service: Service, client: Optimist, name: str):
    experiment = client.create_experiment(name, ["a", "b"], reference=(np.zeros(2), np.eye(2)), budget=40)

    def work() -> None:
        for pick in experiment.picks():
            pick.tell(np.random.default_rng(pick.seed).standard_normal((pick.size, 2)))

    worker = threading.Thread(target=work)
    worker.start()
    shown = run(service, "show", name, "--watch")
    worker.join()
    assert "FID, 40 samples, out of budget" in shown.splitlines()[0]


def test_its_page_is_opened(service: Service, client: Optimist, made: str, monkeypatch: pytest.MonkeyPatch):
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    assert run(service, "open", made) == f"{client.experiment(made).url}\n"
    assert opened == [client.experiment(made).url]


def test_tags_and_notes_are_replaced(service: Service, client: Optimist, made: str):
    assert "tags b, c; note: none" in run(service, "annotate", made, "--tag", "b", "--tag", "c")
    assert "tags b, c; note: of Tuesday" in run(service, "annotate", made, "--note", "of Tuesday")
    assert "tags none; note: of Tuesday" in run(service, "annotate", made, "--tag", "")
    assert client.experiment(made).info.config.note == "of Tuesday"
    assert "expected --tag or --note" in run(service, "annotate", made, code=2)


def test_all_are_backed_up_and_come_back(service: Service, client: Optimist, made: str, tmp_path: Path):
    report = client.experiment(made).report()
    said = run(service, "backup", tmp_path / "new" / "folder", "--tag", made)
    file = tmp_path / "new" / "folder" / f"{made}.zip"
    assert said == f"{made}: {file.stat().st_size:,} bytes in {file}\n"
    assert "Aborted" in run(service, "delete", made, code=1)
    assert client.experiment(made).report().samples == report.samples
    run(service, "delete", made, "--yes")
    with pytest.raises(NotFoundError):
        client.experiment(made)
    run(service, "import", file)
    assert client.experiment(made).report().standings == report.standings
    (tmp_path / "file").write_text("")
    assert "file" in run(service, "backup", tmp_path / "file", code=1)


def admin(service: Service, namespace: str) -> Optimist:
    return Optimist(service.url, api_key=new_key(service.directory, "admin", namespace))


@pytest.fixture
def apart(tmp_path: Path) -> Iterator[Service]:
    """A service without the experiments of other tests, some of which are damaged."""
    with serving(tmp_path / "data") as service:
        yield service


def test_every_namespace_is_backed_up_and_comes_back(apart: Service, name: str, tmp_path: Path):
    """Of two teams, whose experiments and references have the same names and other contents."""
    teams, folder = [f"{name}-{team}" for team in ("red", "blue")], tmp_path / "backup"
    reports = {}
    for shift, team in enumerate(teams):
        with admin(apart, team) as client:
            experiment = client.create_experiment(name, ["a", "b"], reference=(np.full(2, shift), np.eye(2)), budget=40)
            for pick in experiment.picks():
                rows = np.random.default_rng(pick.seed).standard_normal((pick.size, 2))
                pick.tell(rows * (1.0 + (pick.generator == "b")))
            reports[team] = scored(experiment)
    data_dir = f"--data-dir={apart.directory}"
    said = invoked("backup", folder, data_dir, code=0).output
    for team in teams:
        assert f"{team}/{name}: " in said
    assert {path.parent.name for path in folder.glob(f"*/{name}.zip")} == {*teams}
    assert not [*folder.rglob(".*")]
    invoked("backup", tmp_path / "one", data_dir, "--namespace", teams[0], code=0)
    assert [path.relative_to(tmp_path / "one") for path in (tmp_path / "one").rglob("*.zip")] == [
        Path(teams[0], f"{name}.zip")
    ]
    for team in teams:
        with admin(apart, team) as client:
            client.delete_experiment(name)
            key = new_key(apart.directory, "admin", team)
            run(apart, "import", folder / team / f"{name}.zip", env={"OPTIMIST_API_KEY": key})
            assert scored(client.experiment(name)).standings == reports[team].standings


def test_a_backup_of_nothing_fails_and_says_why(service: Service, made: str, tmp_path: Path):
    """With the key of a namespace without experiments, of a tag or namespace that is not there, and of no Redis."""
    key = new_key(service.directory, "admin", "nobody-is-here")
    said = run(service, "backup", tmp_path, env={"OPTIMIST_API_KEY": key}, code=1)
    assert "nothing was saved: this key sees no experiment: a key sees one namespace" in said
    assert "--data-dir or --redis-url saves all" in said
    data_dir = f"--data-dir={service.directory}"
    tagged = invoked("backup", tmp_path, data_dir, "--tag", "of nobody", code=1).output
    assert "nothing was saved: Redis has no experiment with the tag 'of nobody'" in tagged
    empty = invoked("backup", tmp_path, data_dir, "--namespace", "nobody-is-here", code=1).output
    assert "nothing was saved: the namespace 'nobody-is-here' has no experiment" in empty
    missing = invoked("backup", tmp_path, f"--data-dir={tmp_path / 'nothing'}", code=1).output
    assert "nothing: expected --data-dir, --redis-url or --url" in missing
    assert not (tmp_path / "nothing").exists()
    both = run(service, "backup", tmp_path, data_dir, code=2)
    assert "expected --url alone" in both
    assert not [*tmp_path.iterdir()]


def test_what_cannot_be_saved_is_said_and_the_rest_is_saved(
    service: Service, client: Optimist, name: str, tmp_path: Path
):
    for which in ("damaged", "sound"):
        client.create_experiment(f"{name}-{which}", ["a"], metric="is", dimension=3, tags=[name])
    with Redis.from_url(running_url(service.directory) or "") as redis:
        redis.set(f"optimist:{{{name}-damaged}}:config", "{}")
        done = invoked("backup", tmp_path, f"--data-dir={service.directory}", code=1)
        assert f"{name}-damaged: not saved" in done.output
        assert re.search(r"\d of \d+ experiments were not saved", done.output)
        assert (tmp_path / "default" / f"{name}-sound.zip").exists()
        redis.delete(f"optimist:{{{name}-damaged}}:config")
