"""Answers to prompts: which model gives the most diverse answers to the same prompts, by Conditional-Vendi?

Three models answer questions about Python from the reference manual in Python's standard library
(`pydoc_data.topics`); replace them by calls to language models. In a clone of the repository:

    pip install -c constraints.txt '.[server,scoring,embed-offline]'
    python examples/answers.py
"""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from pydoc_data.topics import topics

from local_service import options, scored_report, serving
from optimist_client import Optimist
from optimist_client.embedders import Sentences

SUBJECTS = ("assignment", "class", "comparisons", "exceptions", "for", "function", "global", "import", "lambda", "try")
PROMPTS = {f"What does Python's manual say about {subject!r}?": subject for subject in SUBJECTS}

Model = Callable[[str, random.Random], str]


def sentences(subject: str) -> list[str]:
    """The sentences of the manual's chapter on a subject, without its code examples."""
    prose = [block for block in topics[subject].split("\n\n") if not block.startswith((" ", "*", "="))]
    found = re.split(r"(?<=[.:])\s+(?=[A-Z])", " ".join(" ".join(prose).split()))
    return [sentence for sentence in found if 30 < len(sentence) < 300]


def quoter() -> Model:
    """A model that answers with any sentence of the chapter on the subject."""
    chapters = {subject: sentences(subject) for subject in SUBJECTS}
    return lambda subject, rng: rng.choice(chapters[subject])


def parrot() -> Model:
    """A model that answers with one of the first two sentences of the chapter."""
    chapters = {subject: sentences(subject)[:2] for subject in SUBJECTS}
    return lambda subject, rng: rng.choice(chapters[subject])


def babbler() -> Model:
    """A model that chains words: each next word has followed the last two words somewhere in the chapter."""
    chains: dict[str, dict[tuple[str, str], list[str]]] = {}
    for subject in SUBJECTS:
        chain = chains[subject] = defaultdict(list)
        for sentence in sentences(subject):
            words = ["", "", *sentence.split(), ""]
            for first, second, third in zip(words, words[1:], words[2:], strict=False):
                chain[first, second].append(third)

    def answer(subject: str, rng: random.Random) -> str:
        said = ["", ""]
        while len(said) < 40 and (following := rng.choice(chains[subject][said[-2], said[-1]])):
            said.append(following)
        return " ".join(said[2:])

    return answer


def answers(model: Model, prompts: Sequence[str], seeds: Sequence[int]) -> list[str]:
    """One answer for each prompt and its seed."""
    return [model(PROMPTS[prompt], random.Random(seed)) for prompt, seed in zip(prompts, seeds, strict=True)]


def main() -> None:
    """Ask and tell until a decision is made, then show what the best model answers."""
    chosen = options(__doc__, budget=1_500).parse_args()
    models = {"quoter": quoter(), "parrot": parrot(), "babbler": babbler()}
    embed = Sentences.shipped()
    # Unrelated sentences have a distance of about 1.3.
    kernel = {"name": "gaussian", "sigma": 0.5, "features": 128}
    with serving(chosen.url) as url, Optimist(url) as optimist:
        experiment = optimist.create_experiment(
            chosen.name or "python-answers",
            list(models),
            metric="conditional-vendi",
            dimension=embed.dimension,
            kernel=kernel,
            prompts=list(PROMPTS),
            prompts_are="list",  # which is better on these ten
            prompt_dimension=embed.dimension,
            prompt_kernel=kernel,
            embedding=embed.name,
            batch_size=10,
            budget=chosen.budget,
        )
        asked = dict(zip(PROMPTS, embed(list(PROMPTS)), strict=True))
        for pick in experiment.picks():
            told = answers(models[pick.generator], pick.prompts, pick.seeds)
            prompts = [asked[prompt] for prompt in pick.prompts]
            pick.tell(embed(told), prompts=prompts, ids=told, embedding=embed.name)
        report = scored_report(experiment)
        print(report)
        best = report.decision.best
        print(f"Answers of {best}, by type:")
        for mode in experiment.modes(best, count=4, samples=1).modes:
            print(f"  {mode.share:5.1%}  {mode.samples[0].id}")


if __name__ == "__main__":
    main()
