"""Why an ask waits, or gets no picks."""

from __future__ import annotations

from enum import StrEnum

STALE = "after `max_wait` seconds at most: the ask then gets a pick marked `stale`"
AGAIN = "at once: the answer says after how many seconds to ask again (`retry_after`)"


class WaitReason(StrEnum):
    """The reason why an ask waits, or gets fewer picks than it asked for. `about` says it in a sentence, `ends` when
    the ask is answered all the same."""

    about: str
    ends: str

    ESTIMATES = (
        "estimates",
        "Estimates are due that the next pick rests on. They lack more than a tenth of the batches, or any batch where "
        "each is scored or the experiment would be decided.",
        STALE,
    )
    MIXTURE = "mixture", "The mixture that picks are made from is due.", STALE
    ANSWERS = (
        "answers",
        "The stopping rule is satisfied, but batches on their way may change the decision.",
        "after `max_wait` seconds at most: the answer has no picks, and says when to ask again (`retry_after`). A "
        "worker with open picks gets them at once",
    )
    SAMPLES = "samples", "Open picks use up what is left of the budget of samples.", AGAIN
    COST = "cost", "Open picks use up what is left of the budget of cost.", AGAIN
    EXPERIMENT_PICKS = "experiment-picks", "As many picks of the experiment are open as the service allows.", AGAIN
    WORKER_PICKS = "worker-picks", "As many picks of this worker are open as the service allows.", AGAIN
    WORKER_BATCHES = (
        "worker-batches",
        "The worker has handed in, or has open picks for, all batches that the experiment takes of one worker.",
        "at once: the worker need not ask again",
    )
    KEY_PICKS = (
        "key-picks",
        "As many picks that were asked for with this access key are open as the service allows.",
        AGAIN,
    )
    GENERATORS = "generators", "None of the generators that the ask can be answered with is active.", AGAIN
    PROMPTS = (
        "prompts",
        "Every prompt of the list is in an open pick, or told, for all generators that the ask names.",
        AGAIN,
    )
    PROCESSES = (
        "processes",
        "Another API process is opening picks.",
        "as soon as that has opened them, whatever `max_wait` is: the ask is planned again every 5 ms, and refused "
        "with 503 after 3 s. Where it happens often, serve the experiment by one API process",
    )

    def __new__(cls, value: str, about: str, ends: str) -> WaitReason:
        """A member of this text."""
        made = str.__new__(cls, value)
        made._value_, made.about, made.ends = value, about, ends
        return made
