"""Answers judged on prompts: which language model wins most often against a baseline, and how many judgements show it?

Four small language models continue sentences of the reference manual in Python's standard library
(`pydoc_data.topics`) that they have not read; replace them by calls to large ones. The judge compares the words of an
answer and of the baseline's with those of the manual; replace it by yours, such as a language model that is asked which
answer is better. In a clone of the repository:

    pip install -c constraints.txt '.[server,scoring]'
    python examples/judged.py
"""

from __future__ import annotations

import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from pydoc_data.topics import topics

import numpy as np

from local_service import options, scored_report, serving
from optimist_client import Optimist
from optimist_client.metrics import WinRate

ASKED, ANSWERED, APART = 4, 8, 6  # words of a prompt, words of an answer, and words from one prompt to the next

Words = Sequence[str]
Model = Callable[[Words, random.Random], Words]


def sentences() -> list[list[str]]:
    """The words of the manual's sentences, without its code examples, in a fixed random order."""
    found: dict[str, None] = {}
    for topic in sorted(topics):
        prose = [block for block in topics[topic].split("\n\n") if not block.startswith((" ", "*", "="))]
        found |= dict.fromkeys(re.split(r"(?<=[.:])\s+(?=[A-Z])", " ".join(" ".join(prose).split())))
    words = [re.findall(r"[\w'-]+", sentence.lower()) for sentence in found]
    return random.Random(0).sample(words, len(words))


def asked(held_out: Sequence[Words]) -> dict[str, Words]:
    """The prompts, each with the answer that the manual gives."""
    return {
        " ".join(words[at : at + ASKED]): words[at + ASKED : at + ASKED + ANSWERED]
        for words in held_out
        for at in range(0, len(words) - ASKED - ANSWERED + 1, APART)
    }


def chain(order: int, read: Sequence[Words]) -> Model:
    """A model that draws each word from those that followed the last `order` − 1 words, or fewer where it must."""
    following: dict[Words, list[str]] = defaultdict(list)
    for words in read:
        for place, word in enumerate(words):
            for length in range(min(order, place + 1)):
                following[tuple(words[place - length : place])].append(word)

    def answer(prompt: Words, rng: random.Random) -> Words:
        said = list(prompt)
        while len(said) < ASKED + ANSWERED:
            contexts = (tuple(said[len(said) - length :]) for length in range(order - 1, -1, -1))
            said.append(rng.choice(next(following[context] for context in contexts if context in following)))
        return said[ASKED:]

    return answer


def judge(answer: Words, other: Words, right: Words) -> float:
    """1 if the answer has more words of the right one than the other answer has, 1/2 for as many, else 0."""
    own, others = ((Counter(words) & Counter(right)).total() for words in (answer, other))
    return 0.5 if own == others else float(own > others)


def main() -> None:
    """Ask and tell until a decision is made, then compare the judgements with those of a fixed evaluation."""
    parser = options(__doc__, budget=20_000)
    parser.add_argument(
        "--bound", default="influence", help="or betting, or empirical-bernstein, which hold at any time"
    )
    chosen = parser.parse_args()
    manual = sentences()
    read, right = manual[: len(manual) // 2], asked(manual[len(manual) // 2 :])
    models = {
        "unigrams": chain(1, read),
        "bigrams-of-a-tenth": chain(2, read[: len(read) // 10]),
        "trigrams": chain(3, read),
        "four-grams": chain(4, read),
    }
    baseline = chain(2, read)

    def judged(model: Model, prompt: str, seed: int) -> float:
        # The baseline's answer to a prompt is always the same, as in a file of its answers.
        other = baseline(prompt.split(), random.Random(prompt))
        return judge(model(prompt.split(), random.Random(seed)), other, right[prompt])

    with serving(chosen.url) as url, Optimist(url) as optimist:
        experiment = optimist.create_experiment(
            chosen.name or "judged-answers",
            list(models),
            metric=WinRate(),
            bound=chosen.bound,
            tolerance=0.02,  # two wins in a hundred do not matter
            prompts=list(right),
            batch_size=10,
            budget=chosen.budget,
        )
        for pick in experiment.picks():
            scores = [judged(models[pick.generator], *each) for each in zip(pick.prompts, pick.seeds, strict=True)]
            pick.tell(np.array(scores))
        report = scored_report(experiment)
        print(report)
        print(f"{report.samples:,} judgements were made.")
        print(f"All {len(right):,} prompts × {len(models)} models would have been {len(models) * len(right):,}.")


if __name__ == "__main__":
    main()
