"""The SDK: ask which generator to sample, tell what came out, read the report."""

from __future__ import annotations

import os
import uuid
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optimist_client import models, tensors
from optimist_client.experiment import Experiment
from optimist_client.transport import Transport


class Optimist:
    """A connection to an Optimist service; one a process is enough, threads may share it.

    `timeout` (seconds) bounds one request; `patience` (seconds) bounds all tries of one call, so a service that is
    restarted in that time is not noticed. `api_key`: what the service asks for, where it asks for keys; by default the
    variable OPTIMIST_API_KEY.
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:8000",
        *,
        api_key: str | None = None,
        timeout: float = 30.0,
        patience: float = 60.0,
    ) -> None:
        self._transport = Transport(url, timeout, patience, api_key or os.environ.get("OPTIMIST_API_KEY"))

    def create_reference(
        self,
        name: str,
        *,
        features: ArrayLike | None = None,
        mean: ArrayLike | None = None,
        covariance: ArrayLike | None = None,
        samples: int | None = None,
    ) -> models.ReferenceInfo:
        """Upload a reference: real `features` (n, d), or their `mean` (d,) and `covariance` (d, d).

        The same moments under the same name again are accepted; others raise `Conflict`.
        """
        if features is not None:
            rows = tensors.as_array("features", features).astype(np.float64)
            if rows.ndim != 2 or len(rows) < 2:
                raise ValueError(f"features: expected shape (n, d) with n at least 2, got {rows.shape}")
            mean, covariance, samples = rows.mean(axis=0), np.atleast_2d(np.cov(rows, rowvar=False)), len(rows)
        if mean is None or covariance is None:
            raise ValueError("expected features, or both mean and covariance")
        moments = {"mean": mean, "covariance": covariance}
        arrays = {name: tensors.as_array(name, values).astype(np.float64) for name, values in moments.items()}
        params = {"name": name} if samples is None else {"name": name, "samples": samples}
        answer = self._transport.call(
            "POST", "/v1/references", body=tensors.encode(arrays), media_type=tensors.MEDIA_TYPE, params=params
        )
        return models.ReferenceInfo.model_validate(answer)

    def references(self) -> list[models.ReferenceInfo]:
        """All references the service holds."""
        return [models.ReferenceInfo.model_validate(item) for item in self._transport.call("GET", "/v1/references")]

    def create_experiment(
        self,
        name: str,
        generators: Sequence[str],
        *,
        reference: str | tuple[ArrayLike, ArrayLike] | NDArray[Any] | None = None,
        **config: Any,
    ) -> Experiment:
        """Create an experiment, or open the one that exists with the same name and config.

        `reference`, which "fid" needs, is the name of an uploaded one, a (mean, covariance) pair, or real features
        (n, d); the last two are uploaded as "<name>-reference". Further arguments are the fields of
        `models.ExperimentConfig`.
        """
        if reference is not None and not isinstance(reference, str):
            uploaded = f"{name[:54]}-reference"
            if isinstance(reference, tuple):
                self.create_reference(uploaded, mean=reference[0], covariance=reference[1])
            else:
                self.create_reference(uploaded, features=reference)
            reference = uploaded
        wanted = models.ExperimentConfig(name=name, generators=list(generators), reference=reference, **config)
        # Not as plain values: JSON has no infinity, which an order may be.
        body = wanted.model_dump_json().encode()
        answer = self._transport.call("POST", "/v1/experiments", body=body, media_type="application/json")
        return Experiment(self._transport, models.Experiment.model_validate(answer))

    def experiment(self, name: str) -> Experiment:
        """Open an experiment that exists. Raises `NotFound`."""
        answer = self._transport.call("GET", f"/v1/experiments/{name}")
        return Experiment(self._transport, models.Experiment.model_validate(answer))

    def experiments(self) -> list[str]:
        """Names of all experiments."""
        return [item["config"]["name"] for item in self._transport.call("GET", "/v1/experiments")]

    def delete_experiment(self, name: str) -> None:
        """Delete an experiment with everything it holds."""
        self._transport.call("DELETE", f"/v1/experiments/{name}")

    def import_experiment(self, path: str | Path, name: str | None = None) -> Experiment:
        """Make an experiment, called `name` if given, from what `Experiment.export` wrote; it goes on from there.

        Raises `Conflict` where the name is taken, or the name of its reference by another one; `Fix` with the reason
        where the file is damaged, of another version, or no archive.
        """
        headers = {"content-type": "application/zip", "idempotency-key": uuid.uuid4().hex}
        with Path(path).open("rb") as file:
            answer = self._transport.upload("/v1/import", file, headers, {} if name is None else {"name": name})
        return Experiment(self._transport, models.Experiment.model_validate(answer))

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()
