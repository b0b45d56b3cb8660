"""Reports, as a service would send them, of made-up numbers; and what is printed of them."""

from __future__ import annotations

from optimist_client.models import DecisionInfo, Report, Standing, WatchedReport


def unwrapped(printed: object) -> str:
    """What is printed, its lines joined: sentences are broken where a line ends."""
    return " ".join(f"{printed}".split())


def standing(generator: str, score: float | None, **fields: object) -> Standing:
    known = {} if score is None else {"standard_error": 0.25, "lower": score - 0.5, "upper": score + 0.5}
    counts = {"samples": 1500, "batches": 300, "pick_ratio": 0.5, "pending": 0, "scored_samples": 1500}
    return Standing(
        generator=generator,
        state="active",
        score=score,
        **{**dict.fromkeys(("standard_error", "lower", "upper"))} | known | counts | fields,
    )


def standings(scores: dict[str, float | None], **fields: object) -> list[Standing]:
    """Of 100 samples each."""
    counts = {"samples": 100, "batches": 20, "scored_samples": 100}
    return [standing(generator, score, **counts, **fields) for generator, score in scores.items()]


def report(best: str | None = "b <i>", decided: bool = True, **fields: object) -> Report:
    made = {
        "experiment": "digits",
        "metric": "fid",
        "title": "FID",
        "lower_is_better": True,
        "state": "decided" if decided else "running",
        "ended": decided,
        "decision": DecisionInfo(best=best, confidence=0.97, decided=decided, reason="sure"),
        "standings": [standing("a", 3.0), standing("none", None), standing("b <i>", 1.0, warnings=("few samples",))],
        "samples": 4500,
        "rounds": 900,
        "open_picks": 0,
        "budget": None,
        "regret": None,
        "optimal_pick_ratio": 0.5,
        "uniform_samples": 9000,
        "scored": True,
    }
    return Report.model_validate({**made, **fields})


def watched(label: str, best: str | None, confidence: float | None = 0.9, **fields: object) -> WatchedReport:
    made = {
        "label": label,
        "metric": label,
        "title": label.upper(),
        "lower_is_better": False,
        "scale": "log",
        "best": best,
        "confidence": confidence,
        "sure": False,
        "standings": standings({"a": 2.0, "b <i>": 3.0, "c": None}),
        "scored": True,
    }
    return WatchedReport.model_validate({**made, **fields})
