"""Batches of two embeddings are never mixed in one experiment, nor compared with a reference of another one."""

from __future__ import annotations

import numpy as np
import pytest

from optimist_client import ConflictError, FixError, Optimist
from tests.support.processes import Service, append_batch

BATCH = np.ones((5, 4))


def test_a_batch_of_another_embedding_is_refused_and_nothing_is_stored(
    client: Optimist, service: Service, name: str, reference
):
    experiment = client.create_experiment(name, ["a", "b"], reference=reference, embedding="dinov2-base")
    assert client.experiment(name).info.config.embedding == "dinov2-base"
    pick = experiment.ask()
    with pytest.raises(FixError, match="takes batches of embedding 'dinov2-base'; got one of 'swav-resnet50'"):
        pick.tell(BATCH, embedding="swav-resnet50")
    with pytest.raises(FixError, match="'dinov2-base'; none was named"):
        pick.tell(BATCH)
    assert experiment.report().samples == 0
    assert pick.tell(BATCH, embedding="dinov2-base").samples == 5
    with pytest.raises(FixError, match="swav-resnet50"):
        pick.tell(BATCH, embedding="swav-resnet50")
    assert pick.tell(BATCH, embedding="dinov2-base").duplicate
    # Batches without a pick are checked as well.
    for params, status in (({}, 422), ({"embedding": "clip"}, 422), ({"embedding": "dinov2-base"}, 200)):
        assert append_batch(service.url, name, "a", {"features": BATCH}, **params).status_code == status
    unnamed = client.create_experiment(f"{name}-unnamed", ["a", "b"], reference=reference).ask()
    with pytest.raises(FixError, match="names no embedding; got one of 'dinov2-base'"):
        unnamed.tell(BATCH, embedding="dinov2-base")
    assert unnamed.tell(BATCH).samples == 5


def test_a_reference_of_another_embedding_is_refused(client: Optimist, name: str, reference):
    mean, covariance = reference[0] + 0.5, reference[1]
    uploaded = client.create_reference(f"{name}-real", mean=mean, covariance=covariance, embedding="dinov2-base")
    assert uploaded.embedding == "dinov2-base"
    with pytest.raises(ConflictError, match="of embedding 'dinov2-base', not of 'clip'"):
        client.create_experiment(name, ["a", "b"], reference=uploaded.name, embedding="clip")
    with pytest.raises(ConflictError, match="of embedding 'dinov2-base', not of 'clip'"):
        client.create_reference(uploaded.name, mean=mean, covariance=covariance, embedding="clip")
    assert name not in client.experiments()
    for embedding in ("dinov2-base", None):
        assert client.create_reference(uploaded.name, mean=mean, covariance=covariance, embedding=embedding) == uploaded
    made = client.create_experiment(name, ["a", "b"], reference=(mean, covariance), embedding="dinov2-base")
    own = made.info.config.metric.setting("reference")
    assert next(known for known in client.references() if known.name == own).embedding == "dinov2-base"
