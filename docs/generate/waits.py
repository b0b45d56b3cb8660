"""reference/waits.md from the reasons for which asks wait."""

from __future__ import annotations

from notes import cell

from optimist_client.models import WaitReason

INTRODUCTION = """# What asks wait for

An ask that has to wait for something, or gets fewer picks than it asked for, says why: as `waited_for` in its answer
(`WaitReason` in Python), in the log of requests, and by reason in the metric `optimist_ask_waits_total`. A report and
the page of an experiment say what asks wait for now, whichever worker they are of (`waits_for`). An ask waits at most
`max_wait` seconds for estimates and the mixture, and then gets a pick marked `stale`. Where open picks leave no room,
the answer says after how many seconds to ask again (`retry_after`).

| reason | why |
| --- | --- |
"""


def page() -> str:
    """The whole page."""
    return INTRODUCTION + "\n".join(f"| `{reason.value}` | {cell(reason.about)} |" for reason in WaitReason)
