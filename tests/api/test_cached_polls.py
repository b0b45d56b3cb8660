"""What the API remembers is bounded by its weight."""

from optimist.cache import Cache


def test_the_oldest_are_forgotten_by_weight():
    known = Cache[str, str](10, len)
    for text in ("aaaa", "bbbb", "cc"):
        assert known.put(text[0], text) == text
    known.put("a", "aaa")
    assert [known.get(key) for key in "abc"] == ["aaa", "bbbb", "cc"]
    known.put("d", "dd")
    assert [known.get(key) for key in "abcd"] == ["aaa", None, "cc", "dd"], "the one that was put first"
    known.put("e", "e" * 20)
    assert [known.get(key) for key in "acde"] == [None, None, None, "e" * 20], "one is kept whatever it weighs"
    assert (known.pop("e"), known.pop("e")) == ("e" * 20, None)
    known.put("f", "f" * 10)
    assert known.get("f") == "f" * 10, "what is gone weighs nothing"
