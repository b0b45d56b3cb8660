"""The demo's experiment played once more in memory, with seeds of their own, to measure what pairing saved."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from optimist.simulation.contenders import Contender
from optimist.simulation.sources import digits
from optimist.simulation.trial import Trial, TrialResult
from optimist_client.models import ExperimentConfig


def play(config: ExperimentConfig, console: Console) -> TrialResult:
    """Play the experiment until it is decided or its budget is spent, with unpaired samples and the same settings."""
    bed = digits(config.metric.name)
    settings = {"metric": bed.settings["metric"]} | {
        name: getattr(config, name) for name in ("batch_size", "delta", "tolerance", "warmup", "rescore_growth")
    }
    assert config.budget is not None
    rounds = -(-config.budget // config.batch_size)
    contender = Contender(config.policy, {"policy": config.policy})
    trial = Trial(bed.sources, contender, settings, 0, rounds, config.seed, stop=True, shuffle=True, paired=False)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,} samples"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        shown = progress.add_task("playing it again unpaired", total=rounds * config.batch_size)
        return trial.play(lambda: progress.advance(shown, config.batch_size))


def saved(took: int, unpaired: TrialResult, common: str = "seeds") -> str:
    """The sentence that compares `took`, the paired samples until the decision. `common` is what they had in common."""
    samples = int(unpaired.samples.sum())
    more = "" if unpaired.decided else "more than "
    times = samples / took
    return (
        f"Sampled with the same {common} it took {took:,} samples; without (played again with seeds of their "
        f"own) {more}{samples:,}: {more}{f'{times:.1f}' if times < 10 else f'{times:,.0f}'} times as many."
    )
