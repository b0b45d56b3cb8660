"""Experiments with several metrics: what creating one checks and stores, and which batches they take."""

from __future__ import annotations

import json
from io import BytesIO
from typing import Any

import httpx
import numpy as np
import pytest

from optimist.archive.file import Archive
from optimist_client import ConflictError, Experiment, FixError, NotFoundError, Optimist
from optimist_client.metrics import FID, RKE, Cosine, Gaussian, InceptionScore, Mean, Vendi, WinRate
from optimist_client.tensors import MEDIA_TYPE, decode, encode
from tests.support.configs import on_wire
from tests.support.processes import Service, append_batch

KERNEL = Gaussian(sigma=2.0, features=8)
WATCH = [RKE(kernel=KERNEL), FID(reads="dinov2", reference="other-real"), InceptionScore(dimension=3)]


@pytest.fixture(scope="session")
def service(not_scoring: Service) -> Service:
    return not_scoring


@pytest.fixture(scope="module", autouse=True)
def uploaded(service: Service) -> None:
    """References of 4, 6 and 6 columns."""
    with Optimist(service.url) as client:
        client.create_reference("watch-real", mean=np.zeros(4), covariance=np.eye(4))
        client.create_reference("other-real", mean=np.zeros(6), covariance=4 * np.eye(6), embedding="dinov2-large")
        client.create_reference("clip-real", mean=np.ones(6), covariance=np.eye(6), embedding="clip")


def test_the_columns_of_all_arrays_are_stored(client: Optimist, name: str):
    made = client.create_experiment(name, ["a", "b"], reference="watch-real", watch=WATCH)
    assert made.info.columns == {"features": 4, "dinov2": 6, "probabilities": 3}
    assert made.info.scales == {"features": 1.0, "dinov2": 2.0}
    assert set(made.info.references) == {"watch-real", "other-real"}
    assert [*made.info.config.metrics] == ["fid", "rke", "fid-dinov2", "is"]
    assert made.info.widths_of(made.info.config.metrics["fid-dinov2"]) == {"features": 6}
    other = client.create_experiment(f"{name}-2", ["a", "b"], metric=FID(reads="dinov2", reference="other-real"))
    assert (other.info.columns, other.info.scales) == ({"dinov2": 6}, {"dinov2": 2.0})


def test_an_experiment_of_one_metric_has_the_same_form(service: Service, client: Optimist, name: str):
    made = client.create_experiment(name, ["a", "b"], reference="watch-real").info
    stored = httpx.get(f"{service.url}/v1/experiments/{name}").json()
    assert stored["config"]["metric"] == {"name": "fid", "reference": "watch-real"}
    assert (stored["columns"], stored["scales"]) == ({"features": 4}, {"features": 1.0})
    assert stored["references"] == made.references
    assert made.references.keys() == {"watch-real"}


def test_creating_again_finds_it_in_either_spelling(client: Optimist, name: str):
    names, wanted = ["a", "b"], {"reference": "watch-real", "weigh_costs": False}
    first = client.create_experiment(name, names, watch=WATCH, **wanted, embedding="inception")
    as_objects = [metric.model_dump(exclude_none=True) for metric in WATCH]
    again = client.create_experiment(
        *(name, names),
        metric=FID(reference="watch-real"),
        watch=as_objects,
        weigh_costs=False,
        embeddings={"features": "inception"},
    )
    assert again.info == first.info
    wanted["embedding"] = "inception"
    for change in ({"watch": WATCH[:2]}, {"watch": WATCH[::-1]}, {"weigh_costs": True}):
        with pytest.raises(ConflictError, match=next(iter(change))):
            client.create_experiment(name, names, **{**wanted, "watch": WATCH, **change})


@pytest.mark.parametrize(
    ("watch", "expected"),
    [
        ([RKE(kernel=KERNEL, dimension=5)], "features: .* the reference of 'fid' has 4, metric 'rke' 5"),
        ([FID(label="other", reference="other-real")], "the reference of 'fid' has 4, the reference of 'other' 6"),
        ([RKE(kernel=KERNEL, reads="dinov2")], "metric 'rke-dinov2': expected the columns of features in its settings"),
        (
            [RKE(kernel=KERNEL, reads="dinov2", dimension=6), Vendi(kernel=KERNEL, reads="dinov2", dimension=7)],
            "dinov2: .* metric 'rke-dinov2' has 6, metric 'vendi-dinov2' 7",
        ),
        ([RKE(kernel=Cosine(), reads="dinov2", dimension=16_385 - 1), RKE(kernel=Gaussian(1.0, 8192))], None),
        (
            [RKE(kernel=Gaussian(1.0, 8192), reads="dinov2", dimension=16_384)],
            "watch: rke-dinov2: kernel: expected a feature map of at most 33,554,432 numbers",
        ),
        (
            [RKE(kernel=Gaussian(float(s), 8192), reads="x", label=f"r{s}", dimension=2048) for s in (1, 2, 3)],
            "watch: expected feature maps of at most 33,554,432 numbers together, got 50,331,648",
        ),
        ([Vendi(kernel=Gaussian(1.0, 8192), order=o, reads="x", label=f"v{o}", dimension=4096) for o in (1, 2)], None),
    ],
)
def test_arrays_and_sizes_are_checked(client: Optimist, name: str, watch: list[Any], expected: str | None):
    if expected is None:
        client.create_experiment(name, ["a", "b"], reference="watch-real", watch=watch)
        return
    with pytest.raises(FixError, match=expected):
        client.create_experiment(name, ["a", "b"], reference="watch-real", watch=watch)
    assert name not in client.experiments()


def test_references_of_watched_metrics_exist_and_are_of_the_embedding_of_their_array(client: Optimist, name: str):
    def create(*watch: Any, **config: Any):
        return client.create_experiment(name, ["a", "b"], reference="watch-real", watch=[*watch], **config)

    with pytest.raises(NotFoundError, match="no reference is called 'nowhere'"):
        create(FID(label="x", reference="nowhere"))
    dino, clip = FID(reads="dinov2", reference="other-real"), FID(reads="dinov2", reference="clip-real", label="clip")
    with pytest.raises(ConflictError, match="reference 'clip-real' is of embedding 'clip', not of 'dinov2-large'"):
        create(dino, clip)
    with pytest.raises(ConflictError, match="'other-real' is of embedding 'dinov2-large', not of 'dinov2-base'"):
        create(dino, embeddings={"dinov2": "dinov2-base"})
    assert name not in client.experiments()
    made = create(dino, embeddings={"dinov2": "dinov2-large", "features": "inception"})
    assert made.info.config.embedding_names == {"features": "inception", "dinov2": "dinov2-large"}


def test_metrics_that_cannot_be_are_refused_over_http(service: Service, name: str):
    """All that is wrong with a config: tests/sdk/test_wrong_configs.py."""
    novel = {"name": "ken", "kernel": {"name": "gaussian", "sigma": 2.0, "features": 8}, "reference": "watch-real"}
    for config, expected in (
        ({"metric": novel}, "metric 'ken' cannot decide: it can only be watched"),
        ({"watch": [{"name": "kid-of"}]}, "watch.0: unknown metric 'kid-of'"),
        ({"watch": [*["is"] * 17]}, "watch: expected at most 16"),
    ):
        request = on_wire(
            **{"name": name, "generators": ["a"], "metric": FID(reference="watch-real").model_dump(), **config}
        )
        refused = httpx.post(f"{service.url}/v1/experiments", json=request)
        assert (refused.status_code, expected in refused.json()["detail"]) == (422, True), refused.text


def batch(rows: int = 5, seed: int = 0) -> dict[str, np.ndarray]:
    """Of an experiment by `WATCH` and a number per sample, the `score`."""
    rng = np.random.default_rng(seed)
    shares = rng.random((rows, 3))
    return {
        "features": rng.standard_normal((rows, 4)),
        "dinov2": rng.standard_normal((rows, 6)),
        "probabilities": shares / shares.sum(axis=1, keepdims=True),
        "score": rng.standard_normal(rows),
    }


SCORE = Mean(reads="score")


def test_a_batch_holds_the_arrays_of_all_metrics(client: Optimist, name: str):
    pick = client.create_experiment(name, ["a"], reference="watch-real", watch=[*WATCH, SCORE]).ask()
    whole = batch()
    for array, readers in (("dinov2", "fid-dinov2"), ("features", "fid, rke"), ("score", "mean-score")):
        less = {known: rows for known, rows in whole.items() if known != array}
        with pytest.raises(FixError, match=rf"; found [a-z0-9, ]+; {array} is read by {readers}"):
            pick.tell(less)
    with pytest.raises(FixError, match=r"expected the tensors features, dinov2, probabilities, score; found .*more"):
        pick.tell(whole | {"more": whole["score"]})
    with pytest.raises(FixError, match=r"score: expected shape \(n, 1\), got \(5, 2\)"):
        pick.tell(whole | {"score": np.ones((5, 2))})
    with pytest.raises(FixError, match=r"5 of features, .* 4 of score"):
        pick.tell(whole | {"score": whole["score"][:4]})
    assert pick.tell(whole).samples == 5


def test_numbers_of_each_sample_may_be_a_list_or_a_column(service: Service, client: Optimist, name: str):
    """All encodings are the same batch, stored as a column."""
    experiment = client.create_experiment(
        name, ["a"], reference="watch-real", watch=[*WATCH, SCORE], keep_log=True, max_wait=0
    )
    pick = experiment.ask()
    whole = batch()
    url = f"{service.url}/v1/experiments/{name}/picks/{pick.number}/batch?nonce={pick.info.nonce}"
    column = whole | {"score": whole["score"][:, None]}
    bodies = [
        (encode(whole), MEDIA_TYPE),
        (encode(column), MEDIA_TYPE),
        (json.dumps({array: rows.tolist() for array, rows in whole.items()}).encode(), "application/json"),
        (json.dumps({array: rows.tolist() for array, rows in column.items()}).encode(), "application/json"),
    ]
    replies = [httpx.post(url, content=body, headers={"content-type": kind}) for body, kind in bodies]
    assert [reply.status_code for reply in replies] == [200] * len(bodies), replies[-1].text
    assert [reply.json()["duplicate"] for reply in replies] == [False] + [True] * (len(bodies) - 1)
    large = {array: np.repeat(rows, 4000, axis=0) for array, rows in whole.items()}
    reply = append_batch(service.url, name, "a", large)
    assert reply.status_code == 200, reply.text
    archive = Archive(BytesIO(httpx.get(f"{service.url}/v1/experiments/{name}/export").content))
    stored = [decode(entry.body)["score"].shape for page in archive.log(0) for entry in page]
    assert stored == [(5, 1), (20_000, 1)]


def test_numbers_are_checked_by_what_reads_them(client: Optimist, name: str):
    metric = InceptionScore(reads="classes", dimension=4)
    watch = [RKE(kernel=KERNEL, reads="probabilities", dimension=3), Vendi(kernel=Cosine(), reads="unit", dimension=2)]
    pick = client.create_experiment(name, ["a"], metric=metric, watch=watch).ask()
    good = {"classes": np.full((5, 4), 0.25), "probabilities": -np.ones((5, 3)), "unit": np.ones((5, 2))}
    with pytest.raises(FixError, match="classes: expected rows of numbers ≥ 0 that sum to 1"):
        pick.tell(good | {"classes": np.full((5, 4), 0.5)})
    with pytest.raises(FixError, match="unit: the metric needs rows that are not all zero; row 3 is"):
        pick.tell(good | {"unit": np.array([[1.0, 0.0]] * 3 + [[0.0, 0.0]] * 2)})
    assert pick.tell(good).samples == 5


def test_values_of_a_judge_repeat_and_have_a_range(client: Optimist, name: str):
    """Few values repeat by themselves: only the other arrays tell a copy."""
    both = client.create_experiment(name, ["a"], reference="watch-real", watch=[WinRate()], max_wait=0)
    alone = client.create_experiment(
        f"{name}-alone", ["a"], metric=WinRate(), watch=[Mean(reads="cost")], max_wait=0, refuse_copies=True
    )
    won, features = np.array([0.0, 0.5, 1.0, 1.0, 1.0]), batch()["features"]

    def tell(experiment: Experiment, **arrays: np.ndarray) -> None:
        experiment.ask().tell(arrays)

    with pytest.raises(FixError, match=r"values: expected numbers from 0 to 1, got 1\.5 in row 2"):
        tell(both, features=features, values=won * 1.5)
    for place in range(3):
        tell(alone, values=won, cost=np.ones(5))
        tell(both, features=features + place, values=won)
    assert not alone.report().anomalies
    assert not both.report().anomalies
    tell(both, features=features + 2, values=np.zeros(5))
    assert [one.position for one in both.report().anomalies] == [4]


def test_sizes_are_compared_by_array(client: Optimist, name: str):
    """An array of large numbers beside one of small ones is nothing odd; a number far above its own array's is."""
    experiment = client.create_experiment(name, ["a"], reference="watch-real", watch=[*WATCH, SCORE], max_wait=0)

    def tell(seed: int, **changes: np.ndarray) -> None:
        experiment.ask().tell({**batch(seed=seed), **changes})

    for seed in range(5):
        tell(seed, score=1e9 * np.arange(1.0, 6.0))
    tell(5, score=np.array([1e11, 1e9, 0.0, 1e9, 1e9]))
    assert not experiment.report().anomalies
    with pytest.raises(FixError, match=r"dinov2: row 0 .* \(lower median of the reference and 1 generator\)"):
        tell(6, dinov2=np.full((5, 6), 3e6))
    with pytest.raises(FixError, match=r"score: row 2 .* expected at most 1e[+]06 times"):
        tell(6, score=np.array([0.0, 0.0, 1e17, 0.0, 0.0]))


def test_each_array_has_its_embedding(service: Service, client: Optimist, name: str):
    names = {"features": "inception", "dinov2": "dinov2-large"}
    made = client.create_experiment(name, ["a"], reference="watch-real", watch=WATCH, embeddings=names)
    pick = made.ask()
    body, kind = (
        encode({array: rows for array, rows in batch().items() if array != "score"}),
        {"content-type": MEDIA_TYPE},
    )
    url = f"{service.url}/v1/experiments/{name}/picks/{pick.number}/batch?nonce={pick.info.nonce}"
    for query, expected in (
        ("", "takes batches of embedding 'inception'; none was named"),
        ("&embedding=inception", "takes the array 'dinov2' of embedding 'dinov2-large'; none was named"),
        ("&embedding=inception&embeddings=dinov2:clip", "of embedding 'dinov2-large'; got one of 'clip'"),
        (
            "&embedding=inception&embeddings=dinov2",
            "expected <array>:<name>, such as dinov2:dinov2-large; got 'dinov2'",
        ),
        ("&embeddings=dinov2:a&embeddings=dinov2:a", "the array 'dinov2' is given twice"),
        ("&embedding=inception&embeddings=features:clip", "features is given two: 'inception', 'clip'"),
        ("&embeddings=features:inception&embeddings=dinov2:dinov2-large&embeddings=x:y", "names no embedding of 'x'"),
        ("&embedding=inception&embeddings=dinov2:dinov2-large", ""),
        ("&embeddings=features:inception&embeddings=dinov2:dinov2-large", ""),
    ):
        reply = httpx.post(f"{url}{query}", content=body, headers=kind)
        assert (reply.status_code, expected in reply.json().get("detail", "")) == (422 if expected else 200, True), (
            query
        )
    append = f"{service.url}/v1/experiments/{name}/generators/a/batches"
    for query, status in (("?embedding=inception", 422), ("?embedding=inception&embeddings=dinov2:dinov2-large", 200)):
        assert httpx.post(append + query, content=body, headers={**kind, "idempotency-key": "1"}).status_code == status
