"""A router: which of two language models should answer a prompt, if the better one on average costs three times more?

The two models are simulated: each succeeds by chance, as often as `SUCCESS` says for the kind of prompt. The service is
told none of this. It sees the embedding of each prompt and whether the answer was right, and learns from that where to
send the next one. Replace `simulated` by a call of your models and a check of their answers, such as tests of the code.
In a clone of the repository:

    pip install -c constraints.txt '.[server,scoring,embed-offline]'
    python examples/router.py
"""

from __future__ import annotations

import random
import time
from itertools import product
from statistics import mean

from local_service import options, serving
from optimist_client import Optimist
from optimist_client.embedders import Sentences
from optimist_client.metrics import WinRate

MODELS = ("simulated-large", "simulated-small")
COSTS = {"simulated-large": 3.0, "simulated-small": 1.0}  # cents a prompt
PRICE = 0.02  # a cent is worth two successes in a hundred
SUCCESS = {  # how often the answers of the two models are right, by kind of prompt
    "python": (0.95, 0.70),
    "java to c++": (0.45, 0.85),
    "sql": (0.85, 0.84),
    "summary": (0.92, 0.45),
}

PROMPTS = {
    "python": [
        f"Write a Python function that {task} {of}."
        for task, of in product(
            ("sorts", "groups", "counts", "filters", "merges", "validates", "serialises", "removes duplicates from"),
            ("a list of integers", "a dictionary of words", "the lines of a text file", "a nested list", "dates"),
        )
    ],
    "java to c++": [
        f"Translate this Java class into modern C++: class {name} {{ private {kind} {field}; }}"
        for name, kind, field in product(
            ("Account", "Matrix", "Queue", "Parser", "Cache", "Shape"),
            ("int", "double", "List<String>", "Map<String, Integer>"),
            ("total", "items"),
        )
    ],
    "sql": [
        f"Write an SQL query that finds {what} in the table {table}, {how}."
        for what, table, how in product(
            ("the ten largest rows", "all duplicates", "the monthly average", "rows without a match"),
            ("orders", "customers", "payments", "shipments"),
            ("grouped by country", "ordered by date", "for the last year"),
        )
    ],
    "summary": [
        f"Summarise this {text} in {length}: {start}"
        for text, length, start in product(
            ("news article", "meeting", "chapter of a novel", "letter from a customer"),
            ("one sentence", "three bullet points", "fifty words"),
            (
                "The council voted on Tuesday to close the old bridge for repairs",
                "After the storm the harbour was quiet, and nobody spoke of the ship",
                "We would like to thank everybody who took part in the survey",
                "The company reported lower profits than in the year before",
            ),
        )
    ],
}
KINDS = {prompt: kind for kind, prompts in PROMPTS.items() for prompt in prompts}


def simulated(model: str, prompt: str, rng: random.Random) -> float:
    """1 if the model's answer is right, else 0. It takes a while, in which the service learns from earlier answers."""
    time.sleep(0.01)
    return float(rng.random() < SUCCESS[KINDS[prompt]][MODELS.index(model)])


def worth(model: str, kind: str) -> float:
    """How often the model is right on prompts of a kind, less the price of a call. The service does not know it."""
    return SUCCESS[kind][MODELS.index(model)] - PRICE * COSTS[model]


def main() -> None:
    """Route prompts as they come, then compare what the service says of them with what is known."""
    chosen = options(__doc__, budget=1_200).parse_args()
    rng = random.Random(0)
    embed = Sentences.shipped()
    contexts = dict(zip(KINDS, embed(list(KINDS)), strict=True))
    given: list[tuple[str, str]] = []  # model and kind of each prompt
    with serving(chosen.url) as url, Optimist(url) as optimist:
        experiment = optimist.create_experiment(
            chosen.name or "simulated-router",
            MODELS,
            metric=WinRate(),
            goal="route",
            context=embed.dimension,
            costs=COSTS,
            price=PRICE,
            budget=chosen.budget,
        )
        while True:
            prompts = [rng.choice(PROMPTS[rng.choice(list(PROMPTS))]) for _ in range(10)]
            picks = experiment.ask_all([contexts[prompt] for prompt in prompts], prompts)
            if not picks:
                break
            for pick, prompt in zip(picks, prompts, strict=False):  # the last picks may be fewer
                pick.tell(simulated(pick.generator, prompt, rng))
                given.append((pick.generator, KINDS[prompt]))
        print(experiment.route_table())

    kinds = [kind for _, kind in given]
    single = {model: mean(worth(model, kind) for kind in kinds) for model in MODELS}
    best = max(single, key=lambda model: single[model])
    ideal = mean(max(worth(model, kind) for model in MODELS) for kind in kinds)
    routed, late = (mean(worth(*each) for each in part) for part in (given, given[-len(given) // 4 :]))
    spent, dearest = sum(COSTS[model] for model, _ in given), max(COSTS.values()) * len(given)
    print(f"Known of the simulation, for these {len(given):,} prompts, as successes less {PRICE:g} times the cost:")
    print(f"  always {best} {single[best]:.3f}, the best model for each prompt {ideal:.3f}.")
    print(f"  A router that knows everything gains {ideal - single[best]:.3f}.")
    print(f"  As routed while it learned {routed:.3f}, in the last quarter {late:.3f}.")
    print(f"  It spent {spent:,.0f} cents, {dearest - spent:,.0f} less than always the dearest model.")


if __name__ == "__main__":
    main()
