"""The heads of the Lua files agree with the files, with one another, and with the calls in Python. Needs no Redis."""

import ast
import re
from pathlib import Path

import pytest

import optimist.store
from optimist.store.keys import EXPERIMENT_PARTS
from optimist.store.scripts import FOLDER, Head, head, load, text

FILES = sorted(file.stem for file in FOLDER.glob("*.lua"))
LIBRARIES = {used for name in FILES for used in head(name).uses}
NOT_CODE = re.compile(r"--[^\n]*|'(?:\\.|[^'\\\n])*'|\"(?:\\.|[^\"\\\n])*\"")
NAME = re.compile(r"(?<![.\w])[A-Za-z_]\w*|(?<=\.\.)[A-Za-z_]\w*")  # no fields: `pick.terms` is not the key `terms`


def calls() -> list[tuple[str, ast.Call]]:
    """The name of the script, and the call, for every call of a script in the package."""
    found = []
    for file in Path(optimist.store.__file__).parent.parent.rglob("*.py"):
        source = file.read_text()
        if "script(" not in source:  # parsing the whole package takes each worker a second
            continue
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                name = node.args[0] if node.args else None
                if node.func.attr in ("script", "experiment_script") and isinstance(name, ast.Constant):
                    found.append((name.value, node))
    return found


CALLS = calls()


def names_in(name: str) -> set[str]:
    return set(NAME.findall(NOT_CODE.sub("''", text(name))))


@pytest.mark.parametrize("name", FILES)
def test_a_head_names_what_its_file_touches_and_nothing_else(name: str):
    declared, used = head(name), names_in(name)
    assert declared != Head() or name in LIBRARIES, "every script has a head"
    assert set(declared.uses) <= set(FILES)
    touched = set(EXPERIMENT_PARTS) & used - set(declared.other_keys)
    assert set(declared.keys) == (set(EXPERIMENT_PARTS) if "KEYS" in used and not declared.other_keys else touched)
    assert set(declared.other_keys) - {"..."} <= used
    assert ("..." in declared.other_keys) == ("KEYS" in used and bool(declared.other_keys))
    assert {*declared.scalars, *declared.lists} <= used
    assert "ARGV" not in used, "arguments are read by name"


@pytest.mark.parametrize("name", sorted(set(FILES) - LIBRARIES))
def test_every_script_is_called_with_the_arguments_of_its_head(name: str):
    """A file that no other uses is a script: it can be prepared, and each call has exactly its arguments."""
    prepared = load(name)
    found = [call for called, call in CALLS if called == name]
    assert found, "no script is without a call"
    for call in found:
        is_experiment_script = isinstance(call.func, ast.Attribute) and call.func.attr == "experiment_script"
        assert is_experiment_script != bool(prepared.head.other_keys)
        given = {keyword.arg: keyword.value for keyword in call.keywords}
        # `experiment_script` gives some a default.
        assert given.keys() | ({"instance", "experiment", "remembered"} & prepared.names) == prepared.names
        for argument, fields in prepared.head.lists.items():
            for record in (node for node in ast.walk(given[argument]) if isinstance(node, ast.Dict)):
                assert {key.value for key in record.keys if isinstance(key, ast.Constant)} == set(fields)


def test_every_call_is_of_a_script():
    assert {name for name, _ in CALLS} == set(FILES) - LIBRARIES


def test_an_experiment_must_exist_for_all_scripts_but_two():
    scripts = [load(name) for name in sorted(set(FILES) - LIBRARIES) if not head(name).other_keys]
    unchecked = {script.name for script in scripts if text("prelude") not in script.source}
    assert unchecked == {"create_experiment", "delete_experiment"}


def test_a_file_used_twice_is_included_once_and_after_what_it_uses():
    source = load("exchange").source
    places = [source.index(text(name)) for name in ("prelude", "picks", "checking", "accept", "settling", "exchange")]
    assert places == sorted(places)
    assert all(source.count(text(name)) == 1 for name in ("prelude", "picks", "checking", "opening"))


def test_arguments_are_sent_in_the_order_in_which_they_are_read():
    logs = [{"generator": 0, "seq": 4, "chain": "c0"}, {"seq": 7, "chain": "c1", "generator": 1}]
    fitted = {"kernels": "k", "generator": 1, "label": "", "payload": b"p", "token": "t", "instance": "", "logs": logs}
    assert load("put_fitted").pack(fitted) == ["", 1, "", b"p", "t", "k", 2, 0, 4, "c0", 1, 7, "c1"]
    assert load("renew_leases").pack({"instance": "", "seconds": 5, "numbers": [1, 2]}) == ["", 5, 2, 1, 2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"seconds": 1.0}, "missing arguments .'names'., unknown arguments .."),
        ({"seconds": 1.0, "names": [], "since": 2}, "missing arguments .., unknown arguments .'since'."),
        ({"seconds": 1.0, "names": [{"name": "x"}]}, "names of the script remove_names: missing arguments .'since'."),
    ],
)
def test_missing_and_unknown_arguments_raise_at_once(arguments: dict[str, object], message: str):
    with pytest.raises(TypeError, match=message):
        load("remove_names").pack(arguments)


@pytest.mark.parametrize(("name", "count"), [("remove_names", 2), ("restore", 1), ("give_up", 1)])
def test_another_number_of_keys_raises_at_once(name: str, count: int):
    with pytest.raises(TypeError, match="expected the keys"):
        load(name).check_keys(count)


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ("-- keys: nothing", "expected keys that are parts of an experiment, got nothing"),
        ("-- args: logs*(generator, seq)", "expected arguments such as"),
        ("-- keys: picks\n-- args: picks", "have one name"),
        ("-- uses: prelude\n-- args: instance", "have one name"),
    ],
)
def test_a_wrong_head_is_refused(
    declared: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
):
    request.addfinalizer(text.cache_clear)
    text.cache_clear()
    (tmp_path / "prelude.lua").write_text(text("prelude"))
    (tmp_path / "wrong.lua").write_text(f"{declared}\n\nreturn {{'ok'}}\n")
    monkeypatch.setattr("optimist.store.scripts.FOLDER", tmp_path)
    with pytest.raises(ValueError, match=message):
        load("wrong")


def test_no_script_encodes_or_decodes_records():
    """On Redis 6.2.14 cjson makes 0.3 of 0.1 + 0.2, and cmsgpack a negative number of 2**63 + 1."""
    assert FILES
    assert [name for name in FILES if {"cjson", "cmsgpack"} & set(re.findall(r"\w+", text(name)))] == []
