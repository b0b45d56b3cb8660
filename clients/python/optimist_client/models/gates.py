"""The gate: is a candidate at least as good as the baseline, but for a margin?"""

from __future__ import annotations

from typing import Literal

from pydantic import computed_field

from optimist_client import tables
from optimist_client.layout import Page
from optimist_client.models.decisions import LimitVerdict, format_range, shown
from optimist_client.wire import Answer

GateAnswer = Literal["yes", "no", "open"]
EXIT_CODES: dict[GateAnswer, int] = {"yes": 0, "no": 1, "open": 2}
"""The exit codes of `optimist gate`."""


class Gate(Answer):
    """The answer whether a candidate is at least as good as the baseline, but for a margin, by every metric asked for.

    Of candidates that are too bad by any metric at most `delta` get a yes, and of those that are good enough by all of
    them at most `delta` get a no.
    """

    candidate: str
    baseline: str
    answer: GateAnswer
    verdicts: list[LimitVerdict]
    """One for each metric: whether the candidate is within the margin of the baseline."""
    samples: int
    """The units that errors are made from, of the side that has fewer."""
    units: str
    """Name of these units: "pairs", "prompts", "batches", or "samples of each"."""
    delta: float
    warnings: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """0 for yes, 1 for no, 2 while it is open."""
        return EXIT_CODES[self.answer]

    @computed_field
    @property
    def text(self) -> str:
        """The answer in one line, such as "yes: new is at most 0.006 worse than old, 0.01 allowed (170 pairs)"."""
        said, rests = "; ".join(map(_said, self.verdicts)), f"({self.samples:,} {self.units})"
        if len(self.verdicts) == 1:
            return f"{self.answer}: {self.candidate} is {said} {rests}"
        return f"{self.answer}: {self.candidate} against {self.baseline} {rests}: {said}"

    def markdown(self) -> str:
        """The answer with a table of the metrics, for a comment on a pull request."""
        head = ("metric", f"worse than {self.baseline} by", "allowed", "verdict")
        rows = [(verdict.title, _interval(verdict), _allowed(verdict), verdict.verdict) for verdict in self.verdicts]
        warnings = [f"Warning: {text}." for text in self.warnings]
        return "\n\n".join([f"**Gate: {self.text}**", tables.markdown([head, *rows]), *warnings])

    def junit(self) -> str:
        """JUnit XML with a test for each metric, which fails where its margin is not met, and is skipped while that is
        open."""
        from xml.etree import ElementTree  # nosec B405: it only writes

        codes = [verdict.verdict for verdict in self.verdicts]
        counts = {"tests": len(codes), "failures": codes.count("not met"), "skipped": codes.count("open")}
        root = ElementTree.Element("testsuites")
        suite = ElementTree.SubElement(root, "testsuite", {"name": "optimist gate"})
        suite.attrib |= {name: f"{count}" for name, count in counts.items()}
        against = f"{self.candidate} against {self.baseline}"
        for verdict in self.verdicts:
            case = ElementTree.SubElement(suite, "testcase", classname=against, name=f"{verdict.title} {verdict.limit}")
            if verdict.verdict == "met":
                ElementTree.SubElement(case, "system-out").text = _said(verdict)
            else:
                what = "failure" if verdict.verdict == "not met" else "skipped"
                ElementTree.SubElement(case, what, {"message": _said(verdict)})
        ElementTree.indent(root)
        return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        return f"{Page([self.text, *(f'Warning: {text}.' for text in self.warnings)])}"


def _said(verdict: LimitVerdict) -> str:
    """The range by which the candidate is worse by a metric, and what is allowed."""
    if verdict.lower is None and verdict.upper is None:
        return f"not compared by {verdict.title} yet"
    return f"{verdict.text}, {_allowed(verdict)} allowed" if verdict.verdict == "met" else verdict.text


def _allowed(verdict: LimitVerdict) -> str:
    return "…" if verdict.allowed is None else shown(verdict.allowed, verdict.scale)


def _interval(verdict: LimitVerdict) -> str:
    return "…" if verdict.value is None else format_range(verdict.value, verdict.lower, verdict.upper, verdict.scale)
