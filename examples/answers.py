"""Answers to prompts: which model says the most different things when asked the same, by Conditional-Vendi?

Three models answer questions about Python from the reference manual that Python ships (`pydoc_data.topics`); put calls
to language models in their place. Needs `pip install 'optimist[server,scoring,embed-offline]'`.
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
    """The sentences of the manual's chapter on a subject, without its examples of code."""
    prose = [block for block in topics[subject].split("\n\n") if not block.startswith((" ", "*", "="))]
    found = re.split(r"(?<=[.:])\s+(?=[A-Z])", " ".join(" ".join(prose).split()))
    return [sentence for sentence in found if 30 < len(sentence) < 300]


def quoter() -> Model:
    """Says any sentence of the chapter it is asked about."""
    chapters = {subject: sentences(subject) for subject in SUBJECTS}
    return lambda subject, rng: rng.choice(chapters[subject])


def parrot() -> Model:
    """Says one of the chapter's first two sentences."""
    chapters = {subject: sentences(subject)[:2] for subject in SUBJECTS}
    return lambda subject, rng: rng.choice(chapters[subject])


def babbler() -> Model:
    """Puts together, word after word, what has followed two words somewhere in the chapter it is asked about."""
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


def answers(model: Model, prompts: Sequence[str], seed: int) -> list[str]:
    """One answer for each prompt; the same for the same seed, whoever asks."""
    rng = random.Random(seed)
    return [model(PROMPTS[prompt], rng) for prompt in prompts]


def main() -> None:
    """Ask and tell until the answer is sure, then show what the best model says."""
    chosen = options(__doc__, budget=1_500).parse_args()
    models = {"quoter": quoter(), "parrot": parrot(), "babbler": babbler()}
    embed = Sentences.shipped()
    # Sentences that have nothing to do with each other are about 1.3 apart.
    kernel = {"name": "gaussian", "sigma": 0.5, "features": 128}
    with serving(chosen.url) as url, Optimist(url) as optimist:
        experiment = optimist.create_experiment(
            chosen.name or "python-answers",
            list(models),
            metric="conditional-vendi",
            dimension=embed.dimension,
            kernel=kernel,
            prompts=list(PROMPTS),
            prompt_dimension=embed.dimension,
            prompt_kernel=kernel,
            embedding=embed.name,
            batch_size=10,
            budget=chosen.budget,
        )
        asked = dict(zip(PROMPTS, embed(list(PROMPTS)), strict=True))
        for pick in experiment.picks():
            told = answers(models[pick.generator], pick.prompts, pick.seed)
            prompts = [asked[prompt] for prompt in pick.prompts]
            pick.tell(embed(told), prompts=prompts, ids=told, embedding=embed.name)
        report = scored_report(experiment)
        print(report)
        best = report.decision.best
        print(f"What {best} says, by kind of answer:")
        for mode in experiment.modes(best, count=4, samples=1).modes:
            print(f"  {mode.share:5.1%}  {mode.samples[0].id}")


if __name__ == "__main__":
    main()
