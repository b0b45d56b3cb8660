"""Experiments with several metrics: what creating one checks and stores, and which batches they take."""

from __future__ import annotations

from typing import Any

import httpx
import numpy as np
import pytest
from processes import Service

from optimist_client import Conflict, Fix, NotFound, Optimist
from optimist_client.metrics import FID, RKE, Cosine, Gaussian, InceptionScore, Vendi

KERNEL = Gaussian(sigma=2.0, features=8)
WATCH = [RKE(kernel=KERNEL), FID(reads="dinov2", reference="other-real"), InceptionScore(dimension=3)]


@pytest.fixture(scope="module", autouse=True)
def uploaded(service: Service) -> None:
    """References of 4, 6 and 6 columns."""
    with Optimist(service.url) as client:
        client.create_reference("watch-real", mean=np.zeros(4), covariance=np.eye(4))
        client.create_reference("other-real", mean=np.zeros(6), covariance=4 * np.eye(6), embedding="dinov2-large")
        client.create_reference("clip-real", mean=np.ones(6), covariance=np.eye(6), embedding="clip")


def test_the_columns_of_all_arrays_are_stored(client: Optimist, name: str):
    made = client.create_experiment(name, ["a", "b"], reference="watch-real", watch=WATCH)
    assert made.info.columns == made.info.widths == {"features": 4, "dinov2": 6, "probabilities": 3}
    assert made.info.dimension == 4
    assert made.info.scales == {"features": 1.0, "dinov2": 2.0}
    assert set(made.info.reference_digests) == {"watch-real", "other-real"}
    assert [*made.info.config.metrics] == ["fid", "rke", "fid-dinov2", "is"]
    assert made.info.widths_of(made.info.config.metrics["fid-dinov2"]) == {"features": 6}


def test_experiments_of_one_metric_store_what_they_stored_before(service: Service, client: Optimist, name: str):
    client.create_experiment(name, ["a", "b"], reference="watch-real")
    stored = httpx.get(f"{service.url}/v1/experiments/{name}").json()
    assert not stored.keys() & {"columns", "scales", "references"}
    assert not stored["config"].keys() & {"watch", "embeddings", "weigh_costs"}


def test_a_primary_metric_that_reads_another_array(client: Optimist, name: str):
    made = client.create_experiment(name, ["a", "b"], metric=FID(reads="dinov2", reference="other-real"))
    assert made.info.columns == {"dinov2": 6}
    assert made.info.reference_scales == {"dinov2": 2.0}


def test_creating_again_finds_it_in_either_spelling(client: Optimist, name: str):
    names, wanted = ["a", "b"], {"reference": "watch-real", "weigh_costs": False}
    first = client.create_experiment(name, names, watch=WATCH, **wanted)
    as_objects = [metric.model_dump(exclude_none=True) for metric in WATCH]
    again = client.create_experiment(
        name, names, metric=FID(reference="watch-real"), watch=as_objects, weigh_costs=False
    )
    assert again.info == first.info
    for change in ({"watch": WATCH[:2]}, {"watch": WATCH[::-1]}, {"weigh_costs": True}):
        with pytest.raises(Conflict, match=next(iter(change))):
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
    with pytest.raises(Fix, match=expected):
        client.create_experiment(name, ["a", "b"], reference="watch-real", watch=watch)
    assert name not in client.experiments()


def test_references_of_watched_metrics_exist_and_are_of_the_embedding_of_their_array(client: Optimist, name: str):
    def create(*watch: Any, **config: Any):
        return client.create_experiment(name, ["a", "b"], reference="watch-real", watch=[*watch], **config)

    with pytest.raises(NotFound, match="no reference is called 'nowhere'"):
        create(FID(label="x", reference="nowhere"))
    dino, clip = FID(reads="dinov2", reference="other-real"), FID(reads="dinov2", reference="clip-real", label="clip")
    with pytest.raises(Conflict, match="reference 'clip-real' is of embedding 'clip', not of 'dinov2-large'"):
        create(dino, clip)
    with pytest.raises(Conflict, match="'other-real' is of embedding 'dinov2-large', not of 'dinov2-base'"):
        create(dino, embeddings={"dinov2": "dinov2-base"})
    assert name not in client.experiments()
    made = create(dino, embeddings={"dinov2": "dinov2-large", "features": "inception"})
    assert made.info.config.embedding_names == {"features": "inception", "dinov2": "dinov2-large"}


def test_an_embedding_of_the_deciding_array_has_one_form(client: Optimist, name: str):
    first = client.create_experiment(name, ["a"], reference="watch-real", watch=WATCH, embedding="inception")
    again = client.create_experiment(
        name, ["a"], reference="watch-real", watch=WATCH, embeddings={"features": "inception"}
    )
    assert first.info == again.info


def test_names_of_metrics_and_wrong_settings_over_http(service: Service, name: str):
    for watch, expected in (
        (["kid-of"], "watch.0: unknown metric 'kid-of'"),
        (["rke"], "watch: metric 'rke' needs kernel"),
        ([{"name": "rke", "kernel": {"name": "gaussian", "sigma": 0}}], "watch.0: kernel.sigma: expected at least"),
        ([{"name": "fid", "reference": ["x"]}], "expected the name of an uploaded reference for 'fid'"),
        ([{"name": "fid", "reference": "watch-real"}], "fid is given twice"),
        ([*["is"] * 17], "watch: expected at most 16"),
    ):
        config = {"name": name, "generators": ["a"], "reference": "watch-real", "watch": watch}
        refused = httpx.post(f"{service.url}/v1/experiments", json=config)
        assert (refused.status_code, expected in refused.json()["detail"]) == (422, True), refused.text
