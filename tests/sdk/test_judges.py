"""`Judge` against canned judges over real HTTP: scores by a schema and by words, refusals, and swapped sides."""

from __future__ import annotations

import json
from typing import Any

import pytest

from optimist.evaluating.canned import CannedModel, CannedServer
from optimist_client import FixError
from optimist_client.chat import Chat, Judge, LateCall


def judged(say: Any, how: dict[str, Any] | None = None, **model: Any) -> tuple[Any, list[dict[str, Any]]]:
    """What a judge who says this thinks of the answer "Lima", and the bodies of the requests."""
    asked = list[dict[str, Any]]()

    def noted(prompt: str, seed: int) -> str:
        asked.append({"prompt": prompt, "seed": seed})
        return say(prompt, seed) if callable(say) else say

    with CannedServer({"j": CannedModel(noted, **model)}) as server, Chat(base_url=server.url, model="j") as chat:
        found = Judge(chat, "Is it right?", **(how or {})).score("Capital of Peru?", "Lima", expected="Lima", seed=5)
    return found, asked


@pytest.mark.parametrize(
    ("said", "value"),
    [
        ('{"reason": "it is", "score": 4}', 4.0),
        ('{"reason": "it is", "score": "4.5"}', 4.5),
        ('Sure! ```json\n{"reason": "it is", "score": 2}\n```', 2.0),
        ("I think 9 of 10 would say so.\nScore: 4/5", 4.0),
        ("**Rating:** 3.5", 3.5),
        ("5", 5.0),
        ('{"reason": "it is", "score": 6}', None),
        ('{"reason": "it is", "score": true}', None),
        ('{"reason": "it is", "score": NaN}', None),
        ('{"reason": "it is"}', None),
        ("I cannot judge this.", None),
        ("Between 2 and 4.", None),
        ("", None),
        ("[" * 5000, None),
    ],
)
def test_the_score_is_found_in_the_reply_or_it_is_a_refusal(said: str, value: float | None):
    found, asked = judged(said)
    assert (found.value, found.refusals, len(asked)) == (value, int(value is None), 1)
    for part in ("Is it right?", "Capital of Peru?", "<answer>\nLima\n</answer>", "<expected_answer>\nLima\n"):
        assert part in asked[0]["prompt"]


def test_several_scores_are_averaged_and_refusals_left_out():
    said = {5: '{"reason": "a", "score": 2}', 6: "no", 7: '{"reason": "b", "score": 5}'}
    found, asked = judged(lambda prompt, seed: said[seed], {"times": 3})
    assert (found.value, found.refusals, [one["seed"] for one in asked]) == (3.5, 1, [5, 6, 7])
    assert found.reasons == ("a", "no", "b")
    assert len(found.replies) == 3


def test_both_orders_are_asked_for_so_that_a_side_wins_nothing():
    def first(prompt: str, seed: int) -> str:
        return json.dumps({"reason": "the first one", "winner": "A"})

    def longer(prompt: str, seed: int) -> str:
        a, b = (prompt.split(f"<answer_{side}>\n")[1].split("\n</answer")[0] for side in "AB")
        return json.dumps({"reason": "", "winner": "A" if len(a) > len(b) else "B"})

    for say, value in ((first, 0.5), (longer, 1.0)):
        with CannedServer({"j": CannedModel(say)}) as server, Chat(base_url=server.url, model="j") as chat:
            found = Judge(chat).compare("Why?", "because of this", "so")
            assert (found.value, len(server.served)) == (value, 2)


def test_an_endpoint_without_schemas_is_asked_without():
    model = CannedModel(lambda prompt, seed: "Score: 3", schemas=False)
    with CannedServer({"j": model}) as server, Chat(base_url=server.url, model="j") as chat:
        judge = Judge(chat)
        assert [judge.score("a", "b").value, judge.score("a", "c").value] == [3.0, 3.0]
        assert [one.status for one in server.served.values()] == [400, 200, 200]


def test_a_judge_that_hangs_is_late():
    with (
        CannedServer({"j": CannedModel(lambda prompt, seed: "", hangs=1.0)}) as server,
        Chat(base_url=server.url, model="j", timeout=0.2) as chat,
        pytest.raises(LateCall),
    ):
        Judge(chat).score("a", "b")


@pytest.mark.parametrize("how", [{"scale": (5, 1)}, {"scale": (0, float("inf"))}, {"times": 0}])
def test_wrong_settings_are_refused(how: dict[str, Any]):
    with Chat(base_url="http://127.0.0.1:1/v1", model="j") as chat, pytest.raises(FixError, match=r"scale|times"):
        Judge(chat, **how)
