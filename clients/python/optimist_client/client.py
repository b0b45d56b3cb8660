"""The SDK: ask which generator to sample, tell what came out, read the report."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from optimist_client import models
from optimist_client.drivers import BlockingTransport
from optimist_client.experiment import AsyncExperiment, Experiment
from optimist_client.metrics import Metric
from optimist_client.operations import Awaiting, Blocking, operation
from optimist_client.transport import Transport

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

ExperimentT = TypeVar("ExperimentT", Experiment, AsyncExperiment)


class ServiceOperations(Generic[ExperimentT]):
    """What `Optimist` and `AsyncOptimist` do."""

    _experiment: type[ExperimentT]

    def __init__(
        self,
        url: str = "http://127.0.0.1:8000",
        *,
        api_key: str | None = None,
        timeout: float = 30.0,
        patience: float = 60.0,
    ) -> None:
        self._transport = self._driver(url, timeout, patience, api_key)

    def _driver(self, url: str, timeout: float, patience: float, api_key: str | None) -> Transport[Any]:
        raise NotImplementedError

    @operation
    async def create_reference(
        self,
        name: str,
        *,
        features: ArrayLike | None = None,
        mean: ArrayLike | None = None,
        covariance: ArrayLike | None = None,
        samples: int | None = None,
        file: str | Path | None = None,
        embedding: str | None = None,
    ) -> models.ReferenceInfo:
        """Upload a reference: real `features` (n, d), their `mean` (d,) and `covariance` (d, d), or a file of either.

        Files (`.npz`, `.npy`, `.safetensors`) hold one array of features, `mean` and `covariance`, or pytorch-fid's
        `mu` and `sigma`. `embedding` names what made the features. The same under the same name again is accepted;
        others raise `Conflict`. Raises ValueError for what is no reference.
        """
        given = (mean, covariance) if features is None else features
        if file is not None:
            given = Path(file)
        elif features is None and (mean is None or covariance is None):
            raise ValueError("expected features, or both mean and covariance, or a file")
        return await self._upload(name, given, embedding, samples)

    async def _upload(
        self, name: str, reference: Any, embedding: str | None, samples: int | None = None
    ) -> models.ReferenceInfo:
        # numpy is imported by the first array that goes somewhere: it takes as long as all else here together.
        from optimist_client import tensors
        from optimist_client.references import moments_of

        moments = await self._transport.apply(moments_of, reference)
        body = tensors.encode({"mean": moments.mean, "covariance": moments.covariance})
        known = {"name": name, "samples": moments.samples or samples, "embedding": embedding}
        params = {key: value for key, value in known.items() if value is not None}
        answer = await self._transport.call(
            "POST", "/v1/references", body=body, media_type=tensors.MEDIA_TYPE, params=params
        )
        return models.ReferenceInfo.model_validate(answer)

    @operation
    async def references(self) -> list[models.ReferenceInfo]:
        """All references the service holds."""
        answer = await self._transport.call("GET", "/v1/references")
        return [models.ReferenceInfo.model_validate(item) for item in answer]

    @operation
    async def create_experiment(
        self,
        name: str,
        generators: Sequence[str],
        *,
        metric: str | Metric = "fid",
        reference: str | Path | tuple[ArrayLike, ArrayLike] | NDArray[Any] | None = None,
        **config: Any,
    ) -> ExperimentT:
        """Create an experiment, or open the one that exists with the same name and config.

        `metric` is a metric of `optimist_client.metrics` such as `Vendi(kernel=Gaussian(sigma=10), dimension=64)`, or
        its name with its settings as further arguments. A `reference`, which FID needs, in the metric or here, is the
        name of an uploaded one, or what is uploaded as "<name>-reference": real features (n, d), a (mean, covariance)
        pair, both numpy's or torch's, or the path of a file that `create_reference` takes, such as pytorch-fid's
        `.npz`. Further arguments are the fields of `models.ExperimentConfig`. Among them are `max_magnitude`, how many
        times the usual size of features a value may have before its batch is refused (default 1e6), and
        `refuse_copies`, whether batches that repeat earlier ones of their generator are refused rather than warned
        about. Raises ValueError for settings that do not go together.
        """
        from optimist_client.references import names_file

        given = metric.setting("reference") if isinstance(metric, Metric) and reference is None else reference
        if given is not None and (not isinstance(given, str) or names_file(given)):
            uploaded = await self._upload(f"{name[:54]}-reference", given, config.get("embedding"))
            if given is reference:
                reference = uploaded.name
            elif isinstance(metric, Metric):
                metric = metric.model_copy(update={"reference": uploaded.name})
        settings = {"metric": metric, "reference": reference, **config}
        wanted = models.ExperimentConfig(name=name, generators=list(generators), **settings)
        # Not as plain values: JSON has no infinity, which an order may be.
        body = wanted.model_dump_json().encode()
        answer = await self._transport.call("POST", "/v1/experiments", body=body, media_type="application/json")
        return self._opened(answer)

    @operation
    async def experiment(self, name: str) -> ExperimentT:
        """Open an experiment that exists. Raises `NotFound`."""
        return self._opened(await self._transport.call("GET", f"/v1/experiments/{name}"))

    @operation
    async def experiments(self) -> list[str]:
        """Names of all experiments."""
        return [item["config"]["name"] for item in await self._transport.call("GET", "/v1/experiments")]

    @operation
    async def delete_experiment(self, name: str) -> None:
        """Delete an experiment with everything it holds."""
        await self._transport.call("DELETE", f"/v1/experiments/{name}")

    @operation
    async def import_experiment(self, path: str | Path, name: str | None = None) -> ExperimentT:
        """Make an experiment, called `name` if given, from what `Experiment.export` wrote; it goes on from there.

        Raises `Conflict` where the name is taken, or the name of its reference by another one; `Fix` with the reason
        where the file is damaged, of another version, or no archive.
        """
        headers = {"content-type": "application/zip", "idempotency-key": uuid.uuid4().hex}
        params = {} if name is None else {"name": name}
        return self._opened(await self._transport.upload("/v1/import", Path(path), headers, params))

    @operation
    async def close(self) -> None:
        """Close the connections."""
        await self._transport.close()

    def _opened(self, answer: Any) -> ExperimentT:
        return self._experiment(self._transport, models.Experiment.model_validate(answer))


class Optimist(ServiceOperations[Experiment], Blocking):
    """A connection to an Optimist service; one a process is enough, threads may share it.

    `timeout` (seconds) bounds one request; `patience` (seconds) bounds all tries of one call, so a service that is
    restarted in that time is not noticed. `api_key`: what the service asks for, where it asks for keys; by default the
    variable OPTIMIST_API_KEY. `AsyncOptimist` is the same for asyncio.
    """

    _experiment = Experiment

    def _driver(self, url: str, timeout: float, patience: float, api_key: str | None) -> BlockingTransport:
        return BlockingTransport(url, timeout, patience, api_key)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


class AsyncOptimist(ServiceOperations[AsyncExperiment], Awaiting):
    """`Optimist` for asyncio: the same methods, to be awaited; one an event loop is enough, tasks may share it."""

    _experiment = AsyncExperiment

    def _driver(self, url: str, timeout: float, patience: float, api_key: str | None) -> Transport[Any]:
        from optimist_client.async_driver import AsyncTransport

        return AsyncTransport(url, timeout, patience, api_key)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.close()
