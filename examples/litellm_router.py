"""LiteLLM's router, which learns from its answers which deployment a prompt should go to.

Both models are stand-ins of LiteLLM, which answer without a network; replace `DEPLOYMENTS` by your own, `embed`
by a sentence encoder, and `score` by a judge. In a clone of the repository:

    pip install -c constraints.txt '.[demo,litellm]'
    python examples/litellm_router.py
"""

from __future__ import annotations

import asyncio
import os
from typing import Any

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # it would fetch a list of prices

import litellm
import numpy as np

from local_service import options, serving
from optimist_client import AsyncOptimist
from optimist_client.litellm import router

DEPLOYMENTS = [
    {
        "model_name": "chat",
        "litellm_params": {"model": "openai/stand-in", "api_key": "none", "mock_response": answer},
        "model_info": {"id": name},  # the generator's name
    }
    for name, answer in {"coder": "def", "writer": "Once upon a time"}.items()
]
KINDS = {"Write a function": "def", "Write a story": "Once"}


def embed(prompt: str) -> np.ndarray:
    """The context (2,) of a prompt: here simply its kind."""
    return np.array([float(prompt.startswith(kind)) for kind in KINDS])


def score(prompt: str, response: Any) -> float:
    """1 if the answer is of the right kind, else 0."""
    wanted = next(start for kind, start in KINDS.items() if prompt.startswith(kind))
    return float(response.choices[0].message.content.startswith(wanted))


async def main() -> None:
    """Send prompts to the group `chat`, and show what was learned."""
    chosen = options(__doc__, budget=300).parse_args()
    with serving(chosen.url) as url:
        async with AsyncOptimist(url) as optimist:
            names = [deployment["model_info"]["id"] for deployment in DEPLOYMENTS]
            experiment = await optimist.create_experiment(
                chosen.name or "litellm-router", names, metric="win-rate", goal="route", context=2
            )
            litellm.callbacks = [plugin := router(experiment, embed, score, failed=0.0, deadline=0.5)]
            chat = litellm.Router(model_list=DEPLOYMENTS)
            for number in range(chosen.budget):
                prompt = f"{[*KINDS][number % 2]}, number {number}"
                await chat.acompletion("chat", [{"role": "user", "content": prompt}])
            print(f"{plugin.routed} prompts were routed, {plugin.left} were left to LiteLLM")
            print(await experiment.route_table())


if __name__ == "__main__":
    asyncio.run(main())
