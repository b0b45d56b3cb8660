"""`optimist help`: help of a command, and the words that reports, pages and errors use."""

from __future__ import annotations

import shutil
import textwrap
from typing import Annotated, Any

import typer

from optimist_client.models.decisions import BELOW_NOISE_MEANING

WORDS = {
    "generator": "A model, a checkpoint or a setting of one, of which samples can be made.",
    "experiment": "One question: which of these generators is the best by this metric?",
    "ask, pick": (
        "A worker asks which generator to sample next. The answer is a pick: a generator, a number of "
        "samples, and their seeds."
    ),
    "tell, batch": "A worker tells the service the rows of the samples that it made: a batch.",
    "lease": (
        "The time for which a pick is reserved for its worker. A batch that comes later still counts, unless "
        "another worker has made the same samples."
    ),
    "open": "Said of a pick that has been given and not been told yet.",
    "position": "The number of a batch in the log of its generator, from 1.",
    "interval": (
        "With the chance 1 − δ it contains the true score. 0.30 (0.25 to 0.35) is a score of 0.30 with its interval."
    ),
    "delta (δ)": "The accepted share of runs that name a wrong generator; 0.05 by default.",
    "tolerance": "The difference of scores that does not matter.",
    "evidence": (
        "The difference from a rival in standard errors. A decision needs it for every rival; what is needed "
        "grows slowly with the number of looks."
    ),
    "open question": (
        "The rival with the least evidence, which the decision waits for; once it is decided, the closest rival."
    ),
    "worse, as good": (
        "Decided about a rival: it is worse, or within the tolerance. Otherwise it is too close to call, or after the "
        "decision may be as good."
    ),
    "paired": (
        "Generators with the same seeds or prompts. Luck that they share cancels, so their difference is "
        "known better than each score."
    ),
    "unpaired": "Generators with seeds or prompts of their own.",
    "difference (contrast), worse by": "A generator's score compared with another one's, with an interval of its own.",
    "against": "The generator that a difference is counted from.",
    "lockstep": "All generators in question get equally many samples, because their scores move together.",
    "correlation": (
        "How much two generators vary together over the same seeds or prompts: 0 not at all, 1 entirely. The higher it "
        "is, the more luck cancels."
    ),
    "in common": "The samples of two generators that have the same seeds or prompts.",
    "below noise": BELOW_NOISE_MEANING,
    "rests on, basis": "The rows that an answer is made of, and what was left out.",
    "plug-in": "The published formula of a score, which depends on the number of samples.",
    "influence": "The default bound: a score without that bias, with its own standard error.",
    "bracket": "Two values between which the score lies on average, whatever the samples' law.",
    "watched": "A metric that is reported and decides nothing.",
    "reads": "What a metric takes of a batch, such as features or a column of scores.",
    "warming up": "Every generator gets its first batches, before a policy chooses.",
    "provisional": "The rule would stop, and answers on their way are waited for.",
    "leader": "The generator with the best estimate now.",
    "leads": "Said of the leader until it is decided, when it is called best.",
    "confidence": "How sure the answer is, however often somebody looks; shown from 50 % on. 1 − δ decides.",
    "ranks, rank": (
        "The places that a generator may have, such as 2nd to 3rd. All ranks hold at once, which takes more evidence "
        "than the best alone."
    ),
    "share": "The part of all samples that a generator got; in a table of routes, the part of all prompts.",
    "weight": "The share of a generator in the best mixture.",
    "limit": "What a generator must meet to be good enough, such as within 2% of best.",
    "gain": "How much better routing scores than the best generator for all prompts.",
    "pilot": "The questions in the logs from which a plan is computed.",
    "epochs": "Several answers of a model to the same question.",
    "dimensions": "How many numbers the row of a sample has.",
    "stale": "Made before the newest samples came.",
    "regret": "What was lost by sampling worse generators: the sum over all batches of the gap to the best one.",
    "mode": "A group of samples that are alike.",
    "top-two, ucb, ogd, optimistic": (
        "Policies: find the best generator; collect good samples; find the best mixture; send each prompt to "
        "a generator."
    ),
    "ceiling, price": (
        "A router's budget: the average cost of a prompt at most, or what a unit of cost is worth in the score."
    ),
}
"""Every word with its meaning, in the order in which a reader meets them."""


def help_(
    context: typer.Context,
    topic: Annotated[str | None, typer.Argument(help="The name of a command, or `words`.", show_default=False)] = None,
) -> None:
    """Explain a command, or the words that reports and pages use: `optimist help words`.

    Example: optimist help words
    """
    parent = context.find_root()
    if topic == "words":
        width = min(shutil.get_terminal_size().columns, 100)
        for word, meaning in WORDS.items():
            typer.echo(textwrap.fill(f"{word}: {meaning}", width, subsequent_indent="    "))
        return
    group: Any = parent.command
    command = group if topic is None else group.get_command(parent, topic)
    if command is None:
        raise typer.BadParameter(f"expected `words` or a command, got {topic!r}", param_hint="topic")
    typer.echo(command.get_help(parent if topic is None else typer.Context(command, parent=parent, info_name=topic)))
