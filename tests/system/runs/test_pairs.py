"""Scores of pairs, kernels fixed by the first samples, and modes, through the real service."""

from __future__ import annotations

import json

import httpx
import numpy as np
import pytest

from optimist_client import ConflictError, FixError, Optimist, tensors
from tests.support.processes import Service, batch_path

KERNEL = {"name": "gaussian", "sigma": 1.0, "features": 64}
PROMPTS = [f"draw a {thing}" for thing in ("cat", "dog", "house", "tree")]
PAIRS = {
    "dimension": 3,
    "prompt_dimension": 4,
    "kernel": KERNEL,
    "prompt_kernel": {"sigma": 0.5},
    "prompts": PROMPTS,
}


def embed(prompts: list[str]) -> np.ndarray:
    return np.eye(4)[[PROMPTS.index(prompt) for prompt in prompts]]


def answers(generator: str, prompts: list[str], seed: int) -> np.ndarray:
    """Points near the prompt's own: `varied` spreads over six kinds for each, `dull` always makes the same one."""
    rng = np.random.default_rng(seed)
    centres = 10.0 * embed(prompts)[:, :3]
    kinds = rng.integers({"dull": 1, "some": 2, "varied": 6}[generator], size=len(prompts))
    return centres + 3.0 * kinds[:, None] * np.array([0.0, 0.0, 1.0]) + 0.1 * rng.standard_normal((len(prompts), 3))


def test_the_service_names_the_most_varied_answers_and_shows_its_groups_of_prompts(client: Optimist, name: str):
    # Types of prompt that are equally common would share their eigenvectors.
    config = {**PAIRS, "prompts": [*8 * PROMPTS[:1], *4 * PROMPTS[1:2], *PROMPTS[2:]], "prompts_are": "list"}
    experiment = client.create_experiment(
        name, ["dull", "varied", "some"], metric="conditional-vendi", budget=4_000, **config
    )
    for pick in experiment.picks():
        assert len(pick.prompts) == pick.size
        ids = [f"{pick.number}-{row}: {prompt}" for row, prompt in enumerate(pick.prompts)]
        rows = answers(pick.generator, pick.prompts, pick.seed)
        pick.tell(rows, prompts=embed(pick.prompts), ids=ids)
    report = experiment.report()
    assert (report.state, report.decision.best) == ("decided", "varied")
    made = experiment.modes("varied", count=4, samples=3)
    assert (made.generator, made.stale) == ("varied", False)
    assert len(made.modes) == 4
    assert all(len(mode.samples) == 3 for mode in made.modes)
    shares = [mode.share for mode in made.modes]
    assert shares == sorted(shares, reverse=True)
    assert len(made.prompt_groups) == 4
    assert sum(group.share for group in made.prompt_groups) == pytest.approx(1.0, abs=0.1)
    largest = made.prompt_groups[0]
    assert len({shown.id.partition(": ")[2] for shown in largest.prompts}) == 1
    assert largest.score > 2.0


@pytest.mark.parametrize(
    ("arrays", "expected"),
    [
        ({"features": np.zeros((2, 3))}, "prompts"),
        ({"features": np.zeros((2, 3)), "prompts": np.zeros((3, 4))}, "as many rows"),
        ({"features": np.zeros((2, 3)), "prompts": np.zeros((2, 5))}, "(n, 4)"),
        ({"features": np.zeros((2, 3)), "prompts": np.full((2, 4), -np.inf, np.float16)}, "prompts: expected finite"),
        ({"features": np.zeros((2, 3)), "prompts": np.zeros((2, 4)), "ids": np.zeros((1, 4), np.uint8)}, "as many"),
        (
            {"features": np.zeros((2, 3)), "prompts": np.zeros((2, 4)), "ids": np.array([[97, 98], [0, 99]], np.uint8)},
            "zero bytes, got one in row 1",
        ),
        ({"features": np.zeros((2, 3)), "prompts": np.zeros((2, 4)), "ids": np.full((2, 1), 255, np.uint8)}, "UTF-8"),
    ],
)
def test_batches_without_their_prompts_are_refused(
    service: Service, client: Optimist, name: str, arrays: dict, expected: str
):
    experiment = client.create_experiment(name, ["a", "b"], metric="conditional-vendi", **PAIRS)
    path = service.url + batch_path(experiment.ask())
    problem = httpx.post(path, content=tensors.encode(arrays), headers={"content-type": tensors.MEDIA_TYPE})
    assert problem.status_code == 422
    assert expected in problem.json()["detail"]
    assert experiment.report().samples == 0


def test_ids_are_bytes_and_nothing_else(service: Service, client: Optimist, name: str):
    experiment = client.create_experiment(name, ["a"], metric="rke", dimension=2, kernel=KERNEL)
    shape, halves = {"dtype": "BF16", "shape": [1, 2]}, b"\x80\x3f\x80\x3f"
    header = {"features": {**shape, "data_offsets": [0, 4]}, "ids": {**shape, "data_offsets": [4, 8]}}
    text = json.dumps(header).encode()
    problem = httpx.post(
        service.url + batch_path(experiment.ask()),
        content=len(text).to_bytes(8, "little") + text + 2 * halves,
        headers={"content-type": tensors.MEDIA_TYPE},
    )
    assert problem.status_code == 422
    assert "ids: expected U8" in problem.json()["detail"]
    assert experiment.report().samples == 0


@pytest.mark.parametrize("missing", ["prompts", "prompt_dimension", "prompt_kernel", "kernel"])
def test_an_experiment_without_its_prompts_is_refused(client: Optimist, name: str, missing: str):
    config = {field: value for field, value in PAIRS.items() if field != missing}
    with pytest.raises(FixError, match=missing):
        client.create_experiment(name, ["a"], metric="conditional-vendi", **config)


def clusters(size: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    angles = np.pi / 4 * rng.integers(2, size=size)
    return 40 * np.stack([np.cos(angles), np.sin(angles)], axis=1) + rng.standard_normal((size, 2))


def test_modes_in_json_ids_and_all(service: Service, client: Optimist, name: str):
    kernel = {"sigma": 9.0, "features": 256}
    client.create_experiment(name, ["two / 2"], metric="rke", dimension=2, kernel=kernel, allow_extra=True)
    url = f"{service.url}/v1/experiments/{name}"
    pick = httpx.post(f"{url}/picks").json()["picks"][0]
    assert httpx.get(f"{url}/generators/two%20%2F%202/modes").status_code == 422  # no samples yet
    rows = clusters(200, 0)
    low = rows[:, 1] < 14
    rows = np.concatenate([rows[low][:40], rows[~low][:20]])
    ids = [f"low-{row}" if y < 14 else f"high-{row}" for row, y in enumerate(rows[:, 1])]
    told = httpx.post(
        f"{url}/picks/{pick['number']}/batch?nonce={pick['nonce']}", json={"features": rows.tolist(), "ids": ids}
    )
    assert told.status_code == 200
    made = httpx.get(f"{url}/generators/two%20%2F%202/modes", params={"count": 2}).json()
    assert (made["samples"], made["position"], made["stale"]) == (60, 1, False)
    sides = [{shown["id"].partition("-")[0] for shown in mode["samples"]} for mode in made["modes"]]
    assert sides == [{"low"}, {"high"}]
    assert [mode["share"] for mode in made["modes"]] == pytest.approx([2 / 3, 1 / 3], abs=0.1)
    assert httpx.get(f"{url}/generators/nobody/modes").status_code == 404


def test_samples_without_ids_are_called_by_pick_and_row(client: Optimist, name: str):
    experiment = client.create_experiment(name, ["two"], metric="rke", dimension=2, kernel=KERNEL, batch_size=6)
    experiment.ask().tell(clusters(6, 0))
    shown = {sample.id for mode in experiment.modes("two", count=6).modes for sample in mode.samples}
    assert shown <= {f"1:{row}" for row in range(6)}


def test_other_ids_are_another_batch(client: Optimist, name: str):
    experiment = client.create_experiment(name, ["a"], metric="rke", dimension=2, kernel=KERNEL)
    pick = experiment.ask()
    pick.tell(np.eye(2), ids=["x", "y"])
    assert pick.tell(np.eye(2), ids=["x", "y"]).duplicate
    with pytest.raises(ConflictError):
        pick.tell(np.eye(2), ids=["x", "z"])
