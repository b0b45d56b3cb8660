"""Reads the files of `optimist evaluate`: YAML with the line of each value, and prompts as JSON lines."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from optimist.evaluating.spec import Budget, EvaluationPlan, JudgeModel, Pairwise, ScoreSpec
from optimist_client.chat import Price
from optimist_client.chat.calls import ChatPrompt
from optimist_client.config import MAX_PROMPTS
from optimist_client.errors import FixError
from optimist_client.validation import each_in_words, is_list, is_mapping

_LARGEST = 2**20
"""Bytes of a file of YAML, and of a line of prompts."""
_FIELDS = {
    name for model in (EvaluationPlan, ScoreSpec, JudgeModel, Budget, Pairwise, Price) for name in model.model_fields
}
FieldPath = tuple[str | int, ...]


@dataclass(frozen=True)
class FilePrompt:
    """A prompt of the file."""

    id: str
    prompt: ChatPrompt
    answer: str | None = None
    """The right answer, where it is known."""
    fields: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """All fields of its line, `answer` as text."""

    def seed(self, seed: int) -> int:
        """The seed of its answers, the same for all models, and whatever other prompts there are."""
        text = json.dumps([seed, self.id, self.prompt], sort_keys=True)
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4]) >> 1


def read_plan(file: Path, *, keys: bool = False) -> EvaluationPlan:
    """The plan in a file. Raises FixError, with a line for each mistake that names its place, and OSError.

    keys: whether a secret that is not where the file says is a mistake, too.
    """
    text = _text(file, file.stat().st_size, file.read_bytes)
    try:
        data, lines = _parsed(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        said = " ".join(filter(None, (error.context, error.problem)))
        raise FixError(f"{file}:{1 if mark is None else mark.line + 1}: {said}") from None
    except yaml.YAMLError as error:
        raise FixError(f"{file}: {' '.join(str(error).split())}") from None
    if not is_mapping(data):
        raise FixError(f"{file}:1: expected fields as models: and prompts:, got none")
    try:
        plan = EvaluationPlan.model_validate(data)
    except ValidationError as error:
        parts = [_without_values(part) for part in error.errors(include_url=False)]
        said = {f"{file}:{_line(part['loc'], lines)}: {each_in_words([part], fields=_FIELDS)}": None for part in parts}
        raise FixError("\n".join(said)) from None
    if keys and (missing := [*_missing_keys(plan)]):
        said = (f"{file}:{_line(path, lines)}: {'.'.join(map(str, path))}: {why}" for path, why in missing)
        raise FixError("\n".join(said))
    return plan


def _missing_keys(plan: EvaluationPlan) -> Iterator[tuple[FieldPath, FixError]]:
    """The places of keys that cannot be read, and why."""
    judges = {} if plan.score.judge is None else {("score", "judge"): plan.score.judge}
    for path, endpoint in {**{("models", name): model for name, model in plan.models.items()}, **judges}.items():
        try:
            assert endpoint.key is not None
        except FixError as error:
            yield (*path, "api_key"), error


def _text(file: Path, size: int, read: Any) -> str:
    if size > _LARGEST:
        raise FixError(f"{file}: expected at most {_LARGEST:,} bytes, got {size:,}")
    try:
        return read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FixError(f"{file}: expected UTF-8, byte {error.start} is none") from None


def _without_values(part: Mapping[str, Any]) -> dict[str, Any]:
    """A part of an error without mappings and lists that were found: there may be secrets in them."""
    rest = dict(part)
    if is_mapping(rest.get("input")) or is_list(rest.get("input")):
        del rest["input"]
    return rest


def _line(path: FieldPath, lines: Mapping[FieldPath, int]) -> int:
    """The line of a place, or of the nearest one around it."""
    while path and path not in lines:
        path = path[:-1]
    return lines.get(path, 1)


def _parsed(text: str) -> tuple[Any, dict[FieldPath, int]]:
    """The data of a text, and the line of each of its places. Raises yaml.YAMLError."""
    lines: dict[FieldPath, int] = {}
    loader = yaml.SafeLoader(text)
    try:
        _refuse_aliases(loader)
        node = loader.get_single_node()
        return (None if node is None else _data(loader, node, (), lines)), lines
    finally:
        loader.dispose()


def _refuse_aliases(loader: yaml.SafeLoader, deepest: int = 30) -> None:
    """Let a loader refuse aliases, of which a few lines may make gigabytes, and nodes in nodes without end."""
    compose, depth = loader.compose_node, 0

    def composed(parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        nonlocal depth
        event = loader.peek_event()
        if isinstance(event, yaml.AliasEvent):
            raise _mistake("expected no aliases (*name)", event)
        depth += 1
        if depth > deepest:
            raise _mistake(f"expected at most {deepest} mappings and lists within each other", event)
        try:
            return compose(parent, index)
        finally:
            depth -= 1

    loader.compose_node = composed


def _mistake(problem: str, at: Any) -> yaml.MarkedYAMLError:
    """The error of an event, or a node."""
    return yaml.MarkedYAMLError(problem=problem, problem_mark=at.start_mark)


def _data(loader: yaml.SafeLoader, node: yaml.Node, path: FieldPath, lines: dict[FieldPath, int]) -> Any:
    lines.setdefault(path, node.start_mark.line + 1)
    if isinstance(node, yaml.SequenceNode):
        return [_data(loader, item, (*path, number), lines) for number, item in enumerate(node.value)]
    if not isinstance(node, yaml.MappingNode):
        return loader.construct_object(node)
    mapping: dict[str, Any] = {}
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise _mistake("expected a name", key)
        name = str(key.value)
        if name in mapping:
            raise _mistake(f"{name}: given twice", key)
        lines[(*path, name)] = key.start_mark.line + 1
        mapping[name] = _data(loader, value, (*path, name), lines)
    return mapping


def read_questions(file: Path) -> list[FilePrompt]:
    """The prompts of a file of JSON lines. Raises FixError with the line of a mistake, and OSError."""
    questions: dict[str, FilePrompt] = {}
    for number, text in _numbered(file):
        origin = f"{file}:{number}"
        if len(questions) == MAX_PROMPTS:
            raise FixError(f"{origin}: expected at most {MAX_PROMPTS:,} prompts")
        try:
            fields = json.loads(text)
        except (ValueError, RecursionError):
            raise FixError(f'{origin}: expected a JSON object as {{"prompt": "…"}}') from None
        if not is_mapping(fields):
            raise FixError(f'{origin}: expected a JSON object as {{"prompt": "…"}}')
        question = _question(dict(fields), origin, f"{len(questions) + 1}")
        if question.id in questions:
            raise FixError(f"{origin}: id {question.id!r} is there twice")
        questions[question.id] = question
    if not questions:
        raise FixError(f"{file}: expected prompts, found none")
    return [*questions.values()]


def _numbered(file: Path) -> Iterator[tuple[int, str]]:
    """The number and the text of each line that is not empty."""
    with file.open("rb") as stream:
        number = 0
        while line := stream.readline(_LARGEST + 1):
            number += 1
            if len(line) > _LARGEST:
                raise FixError(f"{file}:{number}: expected a line of at most {_LARGEST:,} bytes")
            if text := _text(Path(f"{file}:{number}"), len(line), lambda line=line: line).strip():
                yield number, text


def _question(fields: dict[str, Any], origin: str, number: str) -> FilePrompt:
    prompt, messages = fields.get("prompt"), fields.get("messages")
    if (prompt is None) == (messages is None):
        raise FixError(f"{origin}: expected prompt or messages")
    if prompt is not None and not isinstance(prompt, str):
        raise FixError(f"{origin}: prompt: expected text")
    required = {"role", "content"}
    are_messages = is_list(messages) and all(is_mapping(each) and required <= each.keys() for each in messages)
    if messages is not None and not (are_messages and messages):
        raise FixError(f"{origin}: messages: expected a list of objects with role and content")
    id, answer = fields.get("id", number), fields.get("answer")
    if isinstance(id, bool) or not isinstance(id, str | int) or not 1 <= len(f"{id}") <= 200:
        raise FixError(f"{origin}: id: expected text of at most 200 characters, or a number")
    if answer is not None and not isinstance(answer, str | int | float | bool):
        raise FixError(f"{origin}: answer: expected text or a number")
    said = answer if isinstance(answer, str) or answer is None else json.dumps(answer)
    asked: Any = prompt if messages is None else messages
    return FilePrompt(f"{id}", asked, said, {**fields, "answer": said})
