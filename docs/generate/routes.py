"""reference/http.md from the application's OpenAPI document."""

from __future__ import annotations

import warnings
from typing import Any

from notes import cell
from pydantic import BaseModel

import optimist_client.config
import optimist_client.models
from optimist.api.app import create_app
from optimist.commands.options import field_notes
from optimist.settings import Settings

INTRODUCTION = """# HTTP

This page lists every route of the service, from its OpenAPI document (`/openapi.json`; `/docs` shows it). Bodies are
JSON or safetensors (`application/x-safetensors`); the service answers 415 to other types. A refused request gets a
problem document (RFC 9457) with a stable `type`, a `detail` that says what was expected, and an `action`: `fix`,
`retry` or `stop`. For keys, roles and limits see [security](../security.md), for whole workers
[workers in any language](../workers.md).
"""


def page() -> str:
    """The whole page: routes by subject, then the models of the bodies."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        document = create_app(Settings(), "redis://nowhere").openapi()
    parts = [INTRODUCTION]
    about = ""
    operations = [(path, method, one) for path, methods in document["paths"].items() for method, one in methods.items()]
    tags = list(dict.fromkeys(one["tags"][0] for _, _, one in operations))
    for path, method, operation in sorted(operations, key=lambda item: tags.index(item[2]["tags"][0])):
        if operation["tags"][0] != about:
            about = operation["tags"][0]
            parts.append(f"## {about.capitalize()}\n")
        parts.append(_operation(path, method, operation))
    parts.append("## Models\n")
    schemas = document["components"]["schemas"]
    parts += [_model(name, schemas[name]) for name in sorted(schemas)]
    return "\n".join(parts)


def _operation(path: str, method: str, operation: dict[str, Any]) -> str:
    lines = [f"### {method.upper()} {path}\n", operation.get("description", "").strip() + "\n"]
    if parameters := operation.get("parameters"):
        lines += ["| parameter | in | type | |", "| --- | --- | --- | --- |"]
        for one in parameters:
            said = [one.get("description", "")]
            if one.get("required"):
                said.append("required")
            elif one["schema"].get("default") is not None:
                said.append(f"default `{one['schema']['default']}`")
            note = "; ".join(filter(None, said))
            lines.append(f"| `{one['name']}` | {one['in']} | {cell(_type(one['schema']))} | {cell(note)} |")
        lines.append("")
    for media, content in operation.get("requestBody", {}).get("content", {}).items():
        lines.append(f"Body `{media}`: {_type(content.get('schema', {}))}.\n")
    for status, response in operation["responses"].items():
        kinds = [
            f"`{media}`" + (f", {_type(content['schema'])}" if content.get("schema") else "")
            for media, content in response.get("content", {}).items()
        ]
        answer = response["description"] + (f": {'; or '.join(kinds)}" if kinds else "")
        lines.append(f"- **{status}** {answer}")
    return "\n".join(lines) + "\n"


def _model(name: str, schema: dict[str, Any]) -> str:
    lines = [f"### {name}\n"]
    if described := schema.get("description"):
        lines.append(described.strip() + "\n")
    if "enum" in schema:
        lines.append(f"{_type(schema)}\n")
    notes = _notes(name)
    if properties := schema.get("properties"):
        lines += ["| field | type | |", "| --- | --- | --- |"]
        for field, one in properties.items():
            said = [notes.get(field, one.get("description", ""))]
            if field in schema.get("required", ()):
                said.append("required")
            elif one.get("default") is not None:
                said.append(f"default `{one['default']}`")
            lines.append(f"| `{field}` | {cell(_type(one))} | {cell(' '.join(filter(None, said)))} |")
        lines.append("")
    return "\n".join(lines)


def _notes(name: str) -> dict[str, str]:
    for module in (optimist_client.models, optimist_client.config):
        model = getattr(module, name.partition("-")[0], None)
        if isinstance(model, type) and issubclass(model, BaseModel):
            return field_notes(model)
    return {}


def _type(schema: dict[str, Any]) -> str:
    """A short description of a schema."""
    if reference := schema.get("$ref"):
        name = reference.rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "enum" in schema:
        return " \\| ".join(f"`{value}`" for value in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    for several in ("anyOf", "oneOf", "allOf"):
        if several in schema:
            return " or ".join(dict.fromkeys(_type(one) for one in schema[several]))
    kind = schema.get("type", "anything")
    if kind == "array":
        items = schema.get("items") or {"anyOf": schema.get("prefixItems", [{}])}
        kind = f"list of {_type(items)}"
    elif kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        kind = f"object of {_type(schema['additionalProperties'])}"
    return kind + _bounds(schema)


def _bounds(schema: dict[str, Any]) -> str:
    words = {
        "minimum": "≥",
        "exclusiveMinimum": ">",
        "maximum": "≤",
        "exclusiveMaximum": "<",
        "minLength": "length ≥",
        "maxLength": "length ≤",
        "minItems": "items ≥",
        "maxItems": "items ≤",
    }
    said = [f"{word} {schema[key]:g}" for key, word in words.items() if key in schema]
    return f" ({', '.join(said)})" if said else ""
