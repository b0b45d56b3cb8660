"""The operations of an experiment that read, from its report to its export."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from optimist_client import models
from optimist_client.margins import Margin, by_label
from optimist_client.operations import iteration, operation
from optimist_client.previews import image_kind
from optimist_client.replacing import replaced
from optimist_client.transport import Transport


class ResultOperations:
    """The operations of `Experiment` and `AsyncExperiment` that change nothing."""

    def __init__(self, transport: Transport[Any], info: models.Experiment) -> None:
        self._transport = transport
        self.info = info
        self.name = info.config.name
        self._seen: models.Report | models.AskReply | None = None

    @property
    def tags(self) -> list[str]:
        """Its tags when it was opened, or as `annotate` has set them since."""
        return list(self.info.config.tags)

    @property
    def note(self) -> str:
        """Its note when it was opened, or as `annotate` has set it since."""
        return self.info.config.note

    @operation
    async def report(self, *, charts: bool = False) -> models.Report:
        """The current standings, regret, pick ratio and decision.

        charts: with the data of charts (`progress`), for `plot_regret` and `plot_picks`.
        """
        params = {"after": 0} if charts else {}
        self._seen = models.Report.model_validate(
            await self._transport.call("GET", f"/v1/experiments/{self.name}/report", params=params)
        )
        return self._seen

    @operation
    async def contrast(self, generator: str, against: str, *, metric: str | None = None) -> models.Contrast:
        """The difference by which `generator` scores worse than `against`, with its error.

        `metric` is the label of a watched metric, as in `report().watched`; by default the metric that decides. Raises
        `NotFoundError` for an unknown generator, `FixError` for an unknown metric and while one of the two has no
        estimate.
        """
        params = {"generator": generator, "against": against} | ({} if metric is None else {"metric": metric})
        path = f"/v1/experiments/{self.name}/contrast"
        return models.Contrast.model_validate(await self._transport.call("GET", path, params=params))

    async def _gate(self, candidate: str, baseline: str, margin: Margin) -> models.Gate:
        margins = by_label(margin, [self.info.config.metric.shown_label])
        texts = [f"{label}={each}" for label, each in margins.items()]
        params = {"candidate": candidate, "baseline": baseline, "margin": texts}
        path = f"/v1/experiments/{self.name}/gate"
        return models.Gate.model_validate(await self._transport.call("GET", path, params=params))

    @operation
    async def modes(
        self, generator: str, count: int = 5, samples: int = 8, *, metric: str | None = None
    ) -> models.Modes:
        """The generator's `count` largest modes, each with its `samples` most typical samples, and groups of prompts.

        `metric` is the label of a watched metric; by default the metric that decides.
        Raises `FixError` for metrics without a kernel, `RetryError` if no scorer responded in time.
        """
        params = {"count": count, "samples": samples} | ({} if metric is None else {"metric": metric})
        path = f"/v1/experiments/{self.name}/generators/{quote(generator, safe='')}/modes"
        return models.Modes.model_validate(await self._transport.call("GET", path, params=params))

    @operation
    async def mixture(self, metric: str | None = None) -> models.Mixture:
        """The best mixture of the generators: weights, score, and what it gains over the best single generator.

        metric: the label of a watched metric; by default the metric that decides. With the goal "mixture" it is made
        whenever the samples have grown by a quarter, otherwise when it is asked for. If it is not made in time, an
        earlier one is returned, marked `stale`; without an earlier one this waits for as long as a scorer is at work on
        it, which with many generators takes minutes. Raises `FixError` for metrics without a score of mixtures and
        while there are too few samples, `RetryError` if no scorer responded and there is no earlier one.
        """
        params = {} if metric is None else {"metric": metric}
        path = f"/v1/experiments/{self.name}/mixture"
        return models.Mixture.model_validate(await self._transport.call("GET", path, params=params))

    @operation
    async def route_table(self) -> models.Routes:
        """With the goal "route": which generator is the best one for which prompts, and what a router gains over the
        best single generator.

        It is made when it is asked for. If it is not made in time, an earlier one is returned, marked `stale`;
        without an earlier one this waits for as long as a scorer is at work on it. Raises `FixError` for another goal,
        `ConflictError` while there are too few samples, `RetryError` if no scorer responded and there is
        no earlier one.
        """
        path = f"/v1/experiments/{self.name}/routes"
        return models.Routes.model_validate(await self._transport.call("GET", path))

    @operation
    async def previews(self, *, modes: bool = False) -> list[models.PreviewInfo]:
        """The previews of samples that the experiment keeps, by generator, of each the newest first; `preview` has one.

        modes: whether each says which mode it is of: up to 8 groups of the kept samples of all generators, by k-means
        of their features; and with which ones of its generator it is nearly identical.
        """
        params = {"modes": True} if modes else None
        answer = await self._transport.call("GET", f"/v1/experiments/{self.name}/previews", params=params)
        return models.Previews.model_validate(answer).previews

    @operation
    async def preview(self, id: str) -> bytes | str:
        """A preview by its `PreviewInfo.id`: a text, or the bytes of a PNG, JPEG or WebP file. Raises `FixError` if it
        is not kept (any more)."""
        body = (await self._transport.read(f"/v1/experiments/{self.name}/previews/{quote(id, safe='')}")).content
        return body if image_kind(body) is not None else body.decode()

    @iteration
    async def records(self, generator: str | None = None) -> AsyncGenerator[models.SampleRecord, None]:
        """Iterate over the records of samples, as `Pick.tell(records=…)` told them: of samples that count, of one
        generator or of all, in the order of the logs.

        Of an experiment without `keep_log` only the newest batches are there. Raises `NotFoundError` for an unknown
        generator.
        """
        standings = [] if generator is not None else (await ResultOperations.report(self)).standings
        for name in [row.generator for row in standings] if generator is None else [generator]:
            path = f"/v1/experiments/{self.name}/generators/{quote(name, safe='')}/records"
            query: str | None = ""
            while query is not None:
                reply = await self._transport.read(path + query)
                for line in reply.content.splitlines():
                    yield models.SampleRecord.model_validate_json(line)
                query = reply.links.get("next", {}).get("url")

    @operation
    async def anomalies(self) -> list[models.AnomalousBatch]:
        """The batches that were accepted although they are anomalous, newest first, as in `report().anomalies`."""
        answer = await self._transport.call("GET", f"/v1/experiments/{self.name}/anomalies")
        return [models.AnomalousBatch.model_validate(item) for item in answer]

    @operation
    async def export(self, path: str | Path) -> None:
        """Export the experiment to one file for `import_experiment`. An existing file is overwritten.

        The experiment continues meanwhile. Open picks are not exported. Raises `StopError` if its data is damaged.
        """
        with replaced(Path(path)) as part:
            await self._transport.download(f"/v1/experiments/{self.name}/export", part)
