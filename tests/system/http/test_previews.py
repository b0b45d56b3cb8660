"""Previews by HTTP and in the SDK: brought after a tell, read by whoever may read the experiment, run by nobody."""

from __future__ import annotations

import base64
import io
import warnings
from typing import Any

import httpx
import numpy as np
import pytest
from PIL import Image

from optimist_client import Experiment, NotFoundError, Optimist, Pick
from tests.support.processes import Service

KERNEL = {"sigma": 1.0, "features": 16}


def created(client: Optimist, name: str, previews: int = 8) -> Experiment:
    config: dict[str, Any] = {"metric": "rke", "dimension": 2, "kernel": KERNEL, "policy": "uniform", "batch_size": 4}
    return client.create_experiment(name, ["a", "b"], stop=False, previews=previews, **config)


def drawn(experiment: Experiment, is_told: bool = False) -> Pick:
    pick = experiment.ask()
    if is_told:
        pick.tell(rows(pick))
    return pick


def rows(pick: Pick) -> np.ndarray:
    return np.random.default_rng(pick.seed).standard_normal((pick.size, 2))


def listed(service: Service, name: str) -> list[dict[str, Any]]:
    answer = httpx.get(f"{service.url}/v1/experiments/{name}/previews")
    return answer.raise_for_status().json()["previews"]


def put(service: Service, name: str, number: int, *previews: dict[str, Any], **given: Any) -> httpx.Response:
    path = f"{service.url}/v1/experiments/{name}/picks/{number}/previews"
    return httpx.put(path, json={"previews": previews, **given})


def test_run_shows_images_and_texts_as_they_are(client: Optimist, service: Service, name: str):
    experiment = created(client, name)

    def images(size: int, seed: int) -> list[Any]:
        return [Image.new("RGB", (64, 48), (seed % 256, place, 0)) for place in range(size)]

    def texts(size: int, seed: int) -> list[str]:
        return [f"<b>text</b> {seed} {place}" for place in range(size)]

    def embed(samples: list[Any]) -> np.ndarray:
        return np.random.default_rng(len(samples)).standard_normal((len(samples), 2))

    experiment.run({"a": images, "b": texts}, embed, max_samples=40, progress=False)
    kept = listed(service, name)
    kinds = {(one["generator"], one["kind"]) for one in kept}
    assert kinds == {("a", "image/png"), ("b", "text/plain")}
    assert all(sum(one["generator"] == generator for one in kept) <= 8 for generator in "ab")
    for one in kept:
        answer = httpx.get(f"{service.url}/v1/experiments/{name}/previews/{one['id']}")
        assert answer.headers["content-type"].split(";")[0] == one["kind"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "sandbox" in answer.headers["content-security-policy"]
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert len(answer.content) == one["bytes"]
        if one["generator"] == "a":
            assert (one["width"], one["height"]) == Image.open(io.BytesIO(answer.content)).size == (64, 48)
        else:
            assert answer.text == one["text"]
            assert answer.text.startswith("<b>text</b>")
    again = httpx.get(
        f"{service.url}/v1/experiments/{name}/previews/{kept[0]['id']}",
        headers={"if-none-match": f'"{kept[0]["digest"]}"'},
    )
    assert again.status_code == 304


def test_a_told_pick_has_its_indices_and_prompts(client: Optimist, service: Service, name: str):
    experiment = client.create_experiment(
        *(name, ["a", "b"]),
        **{"metric": "conditional-vendi", "dimension": 2, "prompt_dimension": 2, "kernel": KERNEL},
        **{"prompt_kernel": KERNEL, "prompts": ["a cat", "a dog"], "policy": "uniform", "batch_size": 4, "previews": 8},
        stop=False,
    )
    for pick in experiment.picks(max_samples=16):
        pick.tell(rows(pick), prompts=rows(pick), previews=[f"{pick.generator}: {text}" for text in pick.prompts])
    kept = listed(service, name)
    assert {one["generator"]: sum(o["generator"] == one["generator"] for o in kept) for one in kept} == {"a": 8, "b": 8}
    prompts = {(one["generator"], one["index"]): one["prompt"] for one in kept}
    assert all(prompts["a", index] == prompts["b", index] for index in range(8))
    assert all(one["text"] == f"{one['generator']}: {one['prompt']}" for one in kept)


def test_previews_that_are_lost_change_nothing(client: Optimist, service: Service, name: str):
    experiment = created(client, name, previews=0)
    pick = drawn(experiment)
    with pytest.warns(UserWarning, match="were not kept: .*create it with `previews`"):
        reply = pick.tell(rows(pick), previews=["text"] * 4)
    assert reply.samples == 4
    assert listed(service, name) == []
    experiment = created(client, f"{name}-on")
    pick = drawn(experiment)
    with pytest.raises(ValueError, match="expected 4, one for each sample"):
        pick.tell(rows(pick), previews=["text"])
    with pytest.warns(UserWarning, match="were not kept"):
        assert not pick.tell(rows(pick), previews=[object()] * 4).duplicate
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert pick.tell(rows(pick), previews=["text", None, None, None]).duplicate
    assert [one["place"] for one in listed(service, f"{name}-on")] == [0]


def test_kept_samples_have_modes_across_generators_and_near_copies_are_told(client: Optimist, name: str):
    experiment = created(client, name, previews=32)
    kinds = {"a": [0, 1, 2, 0], "b": [0, 1, 1, 1]}  # b lacks a kind, and makes one over and over
    for pick in experiment.picks(max_samples=64):
        rng = np.random.default_rng(pick.seed)
        of = kinds[pick.generator]
        spread = np.array([0.001 if pick.generator == "b" and kind == 1 else 2.5 for kind in of])
        noise = spread[:, None] * rng.standard_normal((4, 2))
        told = np.array([[0.0, 0.0], [20.0, 0.0], [0.0, 20.0]])[of] + noise
        pick.tell(told, previews=[f"kind {kind}" for kind in of])
    assert {one.mode for one in experiment.previews()} == {None}
    kept = experiment.previews(modes=True)
    assert len({(one.mode, one.text) for one in kept}) == 3
    found: dict[tuple[str, str | None], set[tuple[int | None, int | None]]] = {}
    for one in kept:
        found.setdefault((one.generator, one.text), set()).add((one.mode, one.alike))
    assert ("b", "kind 2") not in found
    assert {mode for mode, _ in found["a", "kind 1"]} == {mode for mode, _ in found["b", "kind 1"]}
    assert len(found["b", "kind 1"]) == 1, "they are one and the same"
    assert len(found["a", "kind 1"]) > 1
    assert experiment.preview(kept[0].id) == kept[0].text
    with pytest.raises(NotFoundError):
        experiment.preview("0-999-0")


def test_a_sample_without_features_is_in_no_mode(client: Optimist, service: Service, name: str):
    experiment = created(client, name)
    pick = drawn(experiment, is_told=True)
    sent = [[0.0, 0.0], [9.0, 9.0], [], [1.0]]
    previews = [{"place": place, "text": "text", "features": features} for place, features in enumerate(sent)]
    assert put(service, name, pick.number, *previews).json()["kept"] == 4
    modes = [one.mode for one in experiment.previews(modes=True)]
    assert [mode is None for mode in modes] == [False, False, True, True]


def test_a_router_shows_answers_with_their_prompts(client: Optimist, service: Service, name: str):
    experiment = client.create_experiment(name, ["a", "b"], metric="mean", goal="route", context=3, previews=4)
    for text in ("first", "second"):
        pick = experiment.ask(context=[1.0, 0.0, float(len(text))], prompt=text)
        pick.tell(0.5, previews=[f"answer to {text}"])
    found = {(one["prompt"], one["text"], one["index"]) for one in listed(service, name)}
    assert found == {("first", "answer to first", None), ("second", "answer to second", None)}


def png(width: int, height: int) -> bytes:
    file = io.BytesIO()
    Image.new("1", (width, height)).save(file, "PNG")
    return file.getvalue()


SVG = b'<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"/>'
HOSTILE = [
    (SVG, "expected a PNG, JPEG or WebP image"),
    (b"<script>alert(1)</script>", "expected a PNG, JPEG or WebP image"),
    (b"GIF89a" + SVG, "expected a PNG, JPEG or WebP image"),
    (png(20_000, 8), "at most 2048 pixels a side, got 20000 × 8"),
    (b"\x89PNG\r\n\x1a\n" + SVG, "no header that can be read"),
    (b"\xff\xd8\xff\xe0", "no header that can be read"),  # a short JPEG
    (b"\xff\xd8" + b"\xff" * 1000, "no header that can be read"),  # an endless one
    (b"RIFF\x00\x00\x00\x00WEBPVP8L", "no header that can be read"),
]
WRONG = [
    {},
    {"text": "a", "image": "aaaa"},
    {"text": "€" * 30_000},
    {"text": "a" * 70_000},
    {"image": "no base64!"},
    {"place": 4, "text": "beyond the batch"},
    {"place": -1, "text": "before it"},
    {"text": "a", "features": [0.0] * 65},
    {"text": "a", "features": [1e31]},
]


def test_wrong_previews_and_what_is_no_image_are_refused(client: Optimist, service: Service, name: str):
    pick = drawn(created(client, name))
    assert put(service, name, pick.number, {"place": 0, "text": "early"}).status_code == 409
    pick.tell(rows(pick))
    for body, expected in HOSTILE:
        answer = put(service, name, pick.number, {"place": 0, "image": base64.b64encode(body).decode()})
        assert (answer.status_code, expected in answer.json()["detail"]) == (422, True), answer.text
    for preview in WRONG:
        assert put(service, name, pick.number, {"place": 0, **preview}).status_code == 422, preview
    assert listed(service, name) == []


def test_a_picture_that_is_a_page_as_well_is_served_as_a_picture(client: Optimist, service: Service, name: str):
    pick = drawn(created(client, name), is_told=True)
    both = png(1, 1) + b"<script>alert(1)</script>"
    assert put(service, name, pick.number, {"place": 0, "image": base64.b64encode(both).decode()}).status_code == 200
    assert put(service, name, pick.number, {"place": 1, "text": SVG.decode()}, start=7).json()["kept"] == 1
    kept = {one["place"]: one for one in listed(service, name)}
    path = f"{service.url}/v1/experiments/{name}/previews"
    assert httpx.get(f"{path}/{kept[0]['id']}").headers["content-type"] == "image/png"
    assert httpx.get(f"{path}/{kept[1]['id']}").headers["content-type"] == "text/plain; charset=utf-8"
    assert kept[1]["index"] == 8
    assert httpx.get(f"{path}/0-999-0").status_code == 404
    assert httpx.get(f"{path}/0-999").status_code == 422


def test_formats_of_images(client: Optimist, service: Service, name: str):
    pick = drawn(created(client, name), is_told=True)
    image = Image.fromarray(np.random.default_rng(0).integers(0, 255, (30, 50, 3), dtype=np.uint8))
    jpeg, webp = {"format": "JPEG"}, {"format": "WEBP"}
    saved = [jpeg, jpeg | {"progressive": True}, webp, webp | {"lossless": True}]
    for place, options in enumerate(saved):
        file = io.BytesIO()
        image.save(file, **options)
        body = base64.b64encode(file.getvalue()).decode()
        put(service, name, pick.number, {"place": place, "image": body}).raise_for_status()
    found = [(one["kind"], one["width"], one["height"]) for one in listed(service, name)]
    assert found == [("image/jpeg", 50, 30)] * 2 + [("image/webp", 50, 30)] * 2


def test_an_experiment_keeps_no_more_than_so_many_of_all_generators(client: Optimist, name: str):
    experiment = client.create_experiment(
        name, [f"{g}" for g in range(16)], metric="rke", dimension=2, kernel=KERNEL, previews=256
    )
    with pytest.raises(Exception, match="17 generators can have 240"):
        experiment.add_generator("one more")
