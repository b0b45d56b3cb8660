"""Experiments as the API makes them, for the scorer's tests."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from configs import config_of, experiment_of
from made import Made

from optimist.store import DEFAULT_NAMESPACE, Store
from optimist_client import tensors


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture
def make(store: Store):
    """Makes an experiment: FID in 4 dimensions unless the config says otherwise.

    columns: of all arrays, where references have another dimension.
    """

    async def made(
        name: str = "x",
        generators: int = 2,
        columns: dict[str, int] | None = None,
        namespace: str = DEFAULT_NAMESPACE,
        **config: Any,
    ) -> Made:
        its = store.in_namespace(namespace)
        if config.get("metric", "fid") == "fid":
            moments = tensors.encode({"mean": np.zeros(4), "covariance": np.eye(4)})
            await its.references.put("normal", "{}", moments)
        names = [f"g{number}" for number in range(generators)]
        wanted = config_of(name=name, generators=names, **config)
        pinned: dict[str, Any] = {"instance": f"{name}-instance"}
        pinned |= {} if columns is None else {"columns": columns}
        record = experiment_of(wanted, **pinned)
        await its.create_experiment(
            name,
            record.model_dump_json(),
            names,
            wanted.rescore_growth,
            instance=record.instance,
            keep_log=wanted.keep_log,
            batch_size=wanted.batch_size if record.is_indexed else None,
            labels=list(wanted.metrics),
            mixture_growth=record.mixture_growth,
            route_growth=record.route_growth,
        )
        return Made(its, record)

    return made
