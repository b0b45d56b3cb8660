"""The file that `--init` writes, and the world of `--demo`: canned models that do sums, and a judge."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from optimist.evaluating.canned import CannedModel, CannedServer, Say
from optimist_client.errors import FixError

TEMPLATE = Path(__file__).with_name("template.yaml")
QUESTIONS = (
    {"id": "peru", "prompt": "What is the capital of Peru?", "answer": "Lima"},
    {"id": "sum", "prompt": "What is 17 + 25? Give the number alone.", "answer": "42"},
)
DEMO = Path(__file__).with_name("demo.yaml")
"""The file of the demo, with URL in place of the address of its server."""


def write_template(file: Path) -> list[Path]:
    """Write a commented file, and prompts beside it. Returns the files. Raises FixError where one is there, OSError."""
    template = TEMPLATE.read_text(encoding="utf-8").replace("eval.yaml", file.name)
    texts = {file: template, file.parent / "questions.jsonl": _lines(QUESTIONS)}
    for path in texts:
        if path.exists():
            raise FixError(f"{path}: it is there already, and nothing was written")
    for path, text in texts.items():
        path.write_text(text, encoding="utf-8")
    return [*texts]


@contextmanager
def demo(folder: Path, port: int = 0) -> Generator[tuple[Path, CannedServer]]:
    """A server of canned models, and the file that compares them, which is written into the folder."""
    with CannedServer(demo_models(), port=port) as server:
        file = folder / "eval.yaml"
        file.write_text(DEMO.read_text(encoding="utf-8").replace("URL", server.url), encoding="utf-8")
        (folder / "questions.jsonl").write_text(_lines(sums(600)), encoding="utf-8")
        yield file, server


def sums(count: int) -> Iterator[dict[str, str]]:
    """Prompts with their answers."""
    for number in range(count):
        a, b = 100 + 37 * number % 899, 100 + 101 * number % 887
        yield {"id": f"{number + 1}", "prompt": f"What is {a} + {b}?", "answer": f"{a + b}"}


def demo_models() -> dict[str, CannedModel]:
    """Models of several prices and faults, and a judge."""
    return {
        "small": CannedModel(adding(0.70), delay=0.02, busy=0.05, pause=0.2, input=0.1, output=0.4),
        "medium": CannedModel(adding(0.93), delay=0.05, fails=0.06, input=0.5, output=2.0),
        "large": CannedModel(adding(0.94), delay=0.15, streams=True, input=5.0, output=20.0),
        "brittle": CannedModel(adding(0.85), delay=0.05, broken=0.1, input=0.4, output=1.6),
        "stuck": CannedModel(adding(1.0), hangs=1.0),
        "judge": CannedModel(judging, delay=0.05, input=1.0, output=4.0),
    }


def adding(right: float) -> Say:
    """A model that gets this share of sums right."""

    def say(prompt: str, seed: int) -> str:
        a, b = map(int, re.findall(r"\d+", prompt)[:2])
        luck = int.from_bytes(hashlib.sha256(f"{prompt} {right} {seed}".encode()).digest()[:4]) / 2**32
        wrong = 0 if luck < right else 10
        return f"{a} + {b} is {a + b + wrong}."

    return say


def judging(prompt: str, seed: int) -> str:
    """A judge that looks whether the expected answer is in the answer."""
    expected, answer = (
        prompt.partition(f"<{name}>\n")[2].partition(f"\n</{name}>")[0] for name in ("expected_answer", "answer")
    )
    is_right = expected in answer
    return json.dumps(
        {"reason": "The sum is right." if is_right else f"It is {expected}.", "score": 5 if is_right else 1}
    )


def _lines(rows: Iterable[Mapping[str, str]]) -> str:
    return "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)
