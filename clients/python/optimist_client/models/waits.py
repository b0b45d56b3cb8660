"""Why an ask waits, or gets no picks."""

from __future__ import annotations

from enum import StrEnum


class WaitReason(StrEnum):
    """What an ask waits for, or why it gets fewer picks than it asked for; `about` says it in a sentence."""

    about: str

    ESTIMATES = "estimates", "Estimates are due that the next pick rests on, and lack more than a tenth of the batches."
    MIXTURE = "mixture", "The mixture that picks are made from is due."
    ANSWERS = "answers", "The stopping rule is satisfied, but batches on their way may change the decision."
    SAMPLES = "samples", "Open picks use up what is left of the budget of samples."
    COST = "cost", "Open picks use up what is left of the budget of cost."
    EXPERIMENT_PICKS = "experiment-picks", "As many picks of the experiment are open as the service allows."
    WORKER_PICKS = "worker-picks", "As many picks of this worker are open as the service allows."
    WORKER_BATCHES = (
        "worker-batches",
        "The worker has handed in, or has open picks for, all batches that the experiment takes of one worker.",
    )
    KEY_PICKS = "key-picks", "As many picks that were asked for with this access key are open as the service allows."
    GENERATORS = "generators", "None of the generators that the ask can be answered with is active."
    PROMPTS = "prompts", "Every prompt of the list is in an open pick, or told, for all generators that the ask names."
    PROCESSES = "processes", "Another API process is opening picks."

    def __new__(cls, value: str, about: str) -> WaitReason:
        """A member of this text."""
        made = str.__new__(cls, value)
        made._value_, made.about = value, about
        return made
