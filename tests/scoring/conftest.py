"""Experiments as the API makes them, for the scorer's tests."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from made import Made

from optimist.store import Store
from optimist_client import tensors
from optimist_client.config import RULES
from optimist_client.models import Experiment, ExperimentConfig


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture
def make(store: Store):
    """Makes an experiment: FID in 4 dimensions unless the config says otherwise.

    columns: of all arrays, where it watches metrics or reads another array than that of its metric's own name.
    """

    async def made(
        name: str = "x",
        generators: int = 2,
        columns: dict[str, int] | None = None,
        **config: Any,
    ) -> Made:
        if config.get("metric", "fid") == "fid":
            config.setdefault("reference", "normal")
            moments = tensors.encode({"mean": np.zeros(4), "covariance": np.eye(4)})
            await store.references.put("normal", "{}", moments)
        names = [f"g{number}" for number in range(generators)]
        wanted = ExperimentConfig(name=name, generators=names, **config)
        pinned = {"created": 0.0, "instance": f"{name}-instance", "rules": RULES}
        record = Experiment(config=wanted, dimension=wanted.dimension or 4, columns=columns, **pinned)
        await store.create_experiment(
            name,
            record.model_dump_json(),
            names,
            wanted.rescore_growth,
            instance=record.instance,
            keep_log=wanted.keep_log,
            batch_size=wanted.batch_size if record.is_indexed else None,
            labels=list(wanted.metrics)[1:],
            mixture_growth=record.mixture_growth,
            route_growth=record.route_growth,
        )
        return Made(store, record)

    return made
