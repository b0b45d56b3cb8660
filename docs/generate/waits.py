"""reference/waits.md from the reasons for which asks wait, and the modules that name them."""

from __future__ import annotations

from pathlib import Path

from notes import cell

from optimist_client.models import WaitReason

SERVICE = Path(__file__).resolve().parents[2] / "service" / "optimist"
INTRODUCTION = """# What asks wait for

An ask that has to wait for something, or gets fewer picks than it asked for, says why: as `waited_for` in its answer
(`WaitReason` in Python), in the log of requests, and by reason in the metric `optimist_ask_waits_total`. A report and
the page of an experiment say what asks wait for now, whichever worker they are of (`waits_for`).

| reason | why | when the ask is answered | decided in |
| --- | --- | --- | --- |
"""


def page() -> str:
    """The whole page."""
    texts = {path.relative_to(SERVICE).as_posix(): path.read_text() for path in sorted(SERVICE.rglob("*.py"))}
    return INTRODUCTION + "\n".join(_row(reason, texts) for reason in WaitReason)


def _row(reason: WaitReason, texts: dict[str, str]) -> str:
    deciding = [name for name, text in texts.items() if f"WaitReason.{reason.name}" in text]
    modules = ", ".join(f"`{name}`" for name in deciding)
    return f"| `{reason.value}` | {cell(reason.about)} | {cell(reason.ends)} | {modules} |"
