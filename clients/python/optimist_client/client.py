"""The SDK's clients `Optimist` and `AsyncOptimist`: create and open experiments and references."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import AsyncGenerator, Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Literal, Self, TypeVar

from optimist_client import models
from optimist_client.differences import differences, refusal
from optimist_client.drivers import BlockingTransport
from optimist_client.errors import ConflictError, FixError, NotFoundError
from optimist_client.experiment import AsyncExperiment, Experiment
from optimist_client.operations import Awaiting, Blocking, operation
from optimist_client.reference_names import ReferenceNames, Upload
from optimist_client.transport import Transport, read_pieces
from optimist_client.validation import is_collection, valid

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from optimist_client.metrics import Metric
    from optimist_client.references import SentReference

PAGE = 200
"""Entries of a list that are asked for at a time: the most that the service gives."""
ExperimentT = TypeVar("ExperimentT", Experiment, AsyncExperiment)
ListedT = TypeVar("ListedT", "ListedExperiment", "AsyncListedExperiment")
Urls = str | Sequence[str]
"""URL of a service, or those of its replicas."""


class ListedOperations(Generic[ExperimentT]):
    """The operations of `ListedExperiment` and `AsyncListedExperiment`."""

    def __init__(self, service: ServiceOperations[Any, Any], info: models.Summary) -> None:
        self._service = service
        self.info = info
        self.name, self.tags, self.note = info.name, info.tags, info.note

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}: {self.info.state_text}>"

    @operation
    async def open(self) -> ExperimentT:
        """Open the experiment that has this name now. Raises `NotFoundError` if it was deleted since it was listed."""
        return await ServiceOperations[ExperimentT, Any].experiment(self._service, self.name)


class ListedExperiment(ListedOperations[Experiment], Blocking):
    """An experiment in a list: its `name`, `tags` and `note` (the first 200 characters), and what else the list says of
    it, `info` (`models.Summary`). `open()` gives the `Experiment`."""


class AsyncListedExperiment(ListedOperations[AsyncExperiment], Awaiting):
    """`ListedExperiment` for asyncio."""


class ServiceOperations(Generic[ExperimentT, ListedT]):
    """The operations of `Optimist` and `AsyncOptimist`."""

    _experiment: type[ExperimentT]
    _listed: type[ListedT]

    def __init__(
        self,
        url: Urls | None = None,
        *,
        api_key: str | None = None,
        timeout: float = 30.0,
        patience: float = 60.0,
    ) -> None:
        self._transport = self._driver(url, timeout, patience, api_key)

    def _driver(self, url: Urls | None, timeout: float, patience: float, api_key: str | None) -> Transport[Any]:
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
        keep_rows: bool = False,
        progress: bool | None = None,
    ) -> models.ReferenceInfo:
        """Upload a reference: real `features` (n, d), their `mean` (d,) and `covariance` (d, d), or a file of either.

        Files (`.npz`, `.npy`, `.safetensors`) hold one array of features, `mean` and `covariance`, or pytorch-fid's
        `mu` and `sigma`. `samples` says how many features moments come from (a file may have it, too): differences of
        FID then allow for the choice of these. `embedding` is the name of the features' embedding. Of features the
        moments and 256 rows are sent, unless `keep_rows`, which metrics such as KID need: then all are sent and kept.
        `progress` shows how far that is (None: in terminals and notebooks). Uploading the same reference again under
        the same name succeeds; a different one raises `ConflictError`. Raises FixError for an invalid reference.
        """
        given = (mean, covariance) if features is None else features
        if file is not None:
            given = Path(file)
        elif features is None and (mean is None or covariance is None):
            raise FixError("expected features, or both mean and covariance, or a file")
        # Import numpy only when an array is sent: importing it takes as long as importing the rest of the SDK.
        from optimist_client.references import as_sent

        sent = await self._transport.apply(as_sent, given, keep_rows, samples)
        return await self._upload(name, sent, embedding, progress)

    async def _upload(
        self, name: str, sent: SentReference, embedding: str | None, progress: bool | None = None
    ) -> models.ReferenceInfo:
        """The reference of this name, uploaded unless it is there. The service refuses another one."""
        from optimist_client import tensors
        from optimist_client.progress import shown

        with contextlib.suppress(NotFoundError):
            standing = models.ReferenceInfo.model_validate(await self._transport.call("GET", f"/v1/references/{name}"))
            if standing.digest == sent.digest and embedding in (None, standing.embedding):
                return standing
        parts = tensors.encoded_parts(sent.arrays)
        size = sum(map(len, parts))
        headers = {"content-type": tensors.MEDIA_TYPE, "content-length": f"{size}"}
        params = {} if embedding is None else {"embedding": embedding}
        if is_rows := "features" in sent.arrays:
            route = "PUT", f"/v1/references/{name}/rows", params | {"digest": sent.digest}
        else:
            route = "POST", "/v1/references", params | {"name": name}
        rows = len(next(iter(sent.arrays.values())))
        is_large = size > 2**25  # smaller uploads show no progress by themselves
        wanted = progress if is_rows and (progress is not None or is_large) else False
        with shown(wanted, f"reference {name}", rows) as display:

            def pieces() -> Iterator[bytes]:
                for number, part in enumerate(parts, 1):
                    yield bytes(part)
                    display.update(rows * number // len(parts), None)

            return models.ReferenceInfo.model_validate(await self._transport.upload(*route, headers, pieces))

    @operation
    async def references(self, *, unused: bool = False) -> list[models.ReferenceInfo]:
        """All references of the namespace, newest first; or only those that no experiment uses."""
        params = {"unused": True} if unused else {}
        return [
            models.ReferenceInfo.model_validate(item)
            async for item in self._entries("/v1/references", "references", **params)
        ]

    @operation
    async def delete_reference(self, name: str) -> None:
        """Delete a reference. Raises `ConflictError` while an experiment uses it, which the message names."""
        await self._transport.call("DELETE", f"/v1/references/{name}")

    @operation
    async def create_experiment(
        self,
        name: str,
        generators: Collection[str],
        *,
        metric: str | Metric = "fid",
        reference: str | Path | tuple[Any, ...] | NDArray[Any] | None = None,
        direction: Literal["minimize", "maximize"] | None = None,
        **config: Any,
    ) -> ExperimentT:
        """Create an experiment, or open the existing one with the same name and config.

        Opening needs no more than to read it: every worker may run the same program, whose first run by an admin
        creates the experiment. Only references that are not there yet are uploaded.
        `metric` is a metric of `optimist_client.metrics`, such as `Vendi(kernel=Gaussian(sigma=10), dimension=64)`, or
        its name with its settings as further arguments, such as `metric="vendi", kernel=…, dimension=64`.
        `reference`, given in the metric or here, is required by metrics that compare with real data, as FID does. It is
        the name of an uploaded reference, or data to upload as "<name>-reference": real features (n, d) or a tuple
        (mean, covariance) or (mean, covariance, samples), as numpy arrays or torch tensors, or the path of a file that
        `create_reference` accepts, such as pytorch-fid's `.npz`; those of watched metrics are uploaded as
        "<name>-reference-2" and so on.
        `direction` may be left out: the metric says whether lower or higher scores are better. Another one is refused,
        but a `Mean` that was not given `higher_is_better` takes it. The other arguments are the fields of
        `models.ExperimentConfig`. Among them are `tolerance`, the difference that does not matter, for which "1%" of
        the best score is recommended (training a model again moves its FID by 1 to 2 %; with 0, the default, equal
        generators are never decided); `max_magnitude`: a batch with a value more than this many times the usual size of
        features is refused (default 1e6); and `refuse_copies`: whether a batch that repeats an earlier one of its
        generator is refused instead of causing a warning. `tags` and a `note` are for finding it again; an experiment
        that exists keeps its own (`Experiment.annotate`). Raises `FixError` for invalid settings, or if the key may not
        create it; `ConflictError`, which says what differs, if an experiment of this name exists with another config
        or other data as its reference.
        """
        # Imported here, because importing the metrics takes as long as importing the rest of the SDK.
        from optimist_client.metrics.base import metric_of, setting_names

        named, settings = ReferenceNames(name), setting_names()
        of_metric = {"reference": reference} | {field: value for field, value in config.items() if field in settings}
        decides = metric_of(metric, **of_metric).in_direction(direction)
        given = {field: value for field, value in config.items() if field not in settings}
        given |= {"name": name, "generators": generators, "metric": named.without_data(decides)}
        if is_collection(watch := config.get("watch")):
            given["watch"] = [named.without_data(each) for each in watch]
        wanted = _valid(given)
        references = await self._read(named.uploads)
        try:
            answer = await self._transport.call("GET", f"/v1/experiments/{wanted.name}")
        except NotFoundError:
            return self._opened(await self._create(wanted, references))
        standing = models.Experiment.model_validate(answer)
        # As the service would read it.
        canonical = models.ExperimentConfig.model_validate_json(wanted.model_dump_json())
        digests = {reference: sent.digest for reference, sent in references.items()}
        if differing := differences(standing, canonical, digests):
            raise ConflictError(refusal(wanted.name, differing))
        return self._experiment(self._transport, standing)

    async def _read(self, uploads: Sequence[Upload]) -> dict[str, SentReference]:
        """Real data as it would be sent, by the names of the references. Raises `FixError` for what is none."""
        if not uploads:
            return {}
        from optimist_client.references import as_sent

        try:
            return {each.name: await self._transport.apply(as_sent, each.data, each.keep_rows) for each in uploads}
        except ValueError as error:
            raise FixError(f"reference: {error}") from None

    async def _create(self, wanted: models.ExperimentConfig, references: Mapping[str, SentReference]) -> Any:
        """Upload the references, then create the experiment, unless somebody else was faster; returns the answer.

        Raises `FixError` with status 403 and what to do about it if the key may not.
        """
        embeddings = {
            metric.setting("reference"): wanted.embedding_names.get(metric.first_name)
            for metric in reversed([*wanted.metrics.values()])
        }
        # Let pydantic write the JSON: `order` may be infinite, which plain JSON cannot represent.
        body = wanted.model_dump_json().encode()
        try:
            for name, sent in references.items():
                await self._upload(name, sent, embeddings.get(name))
            # The name stands in the URL, too, for a front of several cells, which does not read bodies.
            return await self._transport.call(
                "POST", "/v1/experiments", body=body, media_type="application/json", params={"name": wanted.name}
            )
        except FixError as error:
            if error.problem is None or error.problem.status != 403:
                raise
            raise FixError(
                f"{error}. This key sees no experiment called {wanted.name!r} and may not create it: "
                "ask an admin to create it, then run this again",
                error.problem,
            ) from None

    @operation
    async def experiment(self, name: str) -> ExperimentT:
        """Open an existing experiment. Raises `NotFoundError` if there is none of this name."""
        return self._opened(await self._transport.call("GET", f"/v1/experiments/{name}"))

    @operation
    async def experiments(self) -> list[str]:
        """The names of all experiments, newest first."""
        return [item["name"] async for item in self._entries("/v1/experiments", "experiments")]

    @operation
    async def list_experiments(self, *, tag: str | None = None, search: str | None = None) -> list[ListedT]:
        """Summaries of all experiments, newest first; or only of those that match. Each can be opened with `open()`.

        tag: one of their tags. search: a text in their name, generators, tags or note, in whatever case.
        """
        asked = {"tag": tag, "search": search}
        params = {name: value for name, value in asked.items() if value is not None}
        return [
            self._listed(self, models.Summary.model_validate(item))
            async for item in self._entries("/v1/experiments", "experiments", **params)
        ]

    async def _entries(self, path: str, entries: str, **params: Any) -> AsyncGenerator[Any, None]:
        """The entries of all pages of a list, in their field `entries`."""
        cursor: str | None = ""
        while cursor is not None:
            given = {"limit": PAGE, **params} | ({"cursor": cursor} if cursor else {})
            page = await self._transport.call("GET", path, params=given)
            for item in page[entries]:
                yield item
            cursor = page["next"]

    @operation
    async def delete_experiment(self, name: str) -> None:
        """Delete an experiment with all its data."""
        await self._transport.call("DELETE", f"/v1/experiments/{name}")

    @operation
    async def import_experiment(self, path: str | Path, name: str | None = None) -> ExperimentT:
        """Create an experiment, called `name` if given, from a file that `Experiment.export` wrote.

        It continues from the exported state. Raises `ConflictError` if the name of the experiment or of its reference
        is taken by a different one; `FixError` with the reason if the file is damaged, of an unknown version or not an
        archive.
        """
        headers = {"content-type": "application/zip", "idempotency-key": uuid.uuid4().hex}
        params, file = {} if name is None else {"name": name}, Path(path)
        size = (await self._transport.apply(file.stat)).st_size
        sent = headers | {"content-length": f"{size}"}, partial(read_pieces, file)
        return self._opened(await self._transport.upload("POST", "/v1/import", params, *sent))

    @operation
    async def close(self) -> None:
        """Close the connections."""
        await self._transport.close()

    def _opened(self, answer: Any) -> ExperimentT:
        return self._experiment(self._transport, models.Experiment.model_validate(answer))


def _valid(settings: dict[str, Any]) -> models.ExperimentConfig:
    """The config of these settings. Raises `FixError`, which says what was expected."""
    # Imported here, because importing the metrics takes as long as importing the rest of the SDK.
    from optimist_client.metrics.base import kernel_hint

    if hint := kernel_hint(settings.keys() - models.ExperimentConfig.model_fields.keys()):
        raise FixError(f"unknown field{hint}")
    if is_collection(names := settings["generators"]):
        settings["generators"] = list(names)
    return valid(models.ExperimentConfig, settings)


class Optimist(ServiceOperations[Experiment, ListedExperiment], Blocking):
    """A client of an Optimist service. One per process is enough: it is thread-safe.

    `url` is that of the service; by default the environment variable OPTIMIST_URL, or http://127.0.0.1:8000. With a
    list of its replicas' URLs all calls go to the first one, and if it cannot be reached or is not available, at once
    to the next one and from then on to that.
    `timeout` (seconds) limits one request. `patience` (seconds) limits all attempts of one call together, so that a
    restart of the service within this time causes no error. `api_key` is the access key, if the service requires one;
    by default the environment variable OPTIMIST_API_KEY. `AsyncOptimist` is the same for asyncio.
    """

    _experiment = Experiment
    _listed = ListedExperiment

    def _driver(self, url: Urls | None, timeout: float, patience: float, api_key: str | None) -> BlockingTransport:
        return BlockingTransport(url, timeout, patience, api_key)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


class AsyncOptimist(ServiceOperations[AsyncExperiment, AsyncListedExperiment], Awaiting):
    """`Optimist` for asyncio, with the same methods as coroutines. One per event loop is enough: tasks may share it."""

    _experiment = AsyncExperiment
    _listed = AsyncListedExperiment

    def _driver(self, url: Urls | None, timeout: float, patience: float, api_key: str | None) -> Transport[Any]:
        from optimist_client.async_driver import AsyncTransport

        return AsyncTransport(url, timeout, patience, api_key)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.close()
