"""What is still expected until the answer is sure, in words, by the module that the page uses."""

from __future__ import annotations

from typing import Any

from tests.support.pages import OpenPage

WORDS = """async ([report, told]) => {
  const { expected, Rate } = await import("/dashboard/0/expected.js");
  const rate = new Rate();
  told.forEach(([at, samples]) => rate.take(samples, at));
  return expected(report, rate.perSecond);
}"""


def test_samples_and_time_that_are_expected_are_said(open_page: OpenPage):
    page = open_page("/")
    report = {"ended": False, "decision": {"hardest": {"more_samples": [1520, 6000]}}, "budget": None, "samples": 500}

    def words(told: list[tuple[float, int]], **changes: Any) -> dict[str, str] | None:
        return page.evaluate(WORDS, [report | changes, told])

    steady = [(float(at), 10 * at) for at in range(0, 51, 2)]
    more = "About 1,500 to 6,000 more samples"
    assert words(steady) == {"samples": more, "notes": "3 to 10 min at the present rate"}
    assert words(steady[:3]) == {"samples": more, "notes": ""}  # too short to know a rate
    assert words([*steady, (100.0, 500), (300.0, 500), (302.0, 500)]) == {
        "samples": more,
        "notes": "",
    }  # none came since
    assert words([(0.0, 900), (30.0, 500), (40.0, 500)]) == {"samples": more, "notes": ""}  # the store was restored
    assert words([], budget=1500) == {"samples": more, "notes": "the budget has only 1,000 left"}
    likely = {"samples": more, "notes": "the budget has 4,500 left, which may not be enough"}
    assert words([], budget=5000) == likely
    assert words(steady, ended=True) is None
    assert words(steady, decision={"hardest": {"more_samples": None}}) is None
