"""docs/http.md from the application's OpenAPI document."""

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
`retry` or `stop`. For keys, roles and limits see [security.md](security.md).

## A worker in curl

A worker asks for a pick, makes `size` samples with the generator that it names, and tells them under its `number` and
`nonce`, until there are no more picks. Here the samples are random numbers, sent as JSON:

<!-- not run: a test of its own runs it to its decision -->
```bash
api=http://127.0.0.1:8000/v1
pick() {  # number, nonce, generator, size and seed of the pick in an answer; nothing if there is none
  python3 -c 'import json, sys
keys = "number", "nonce", "generator", "size", "seed"
for one in json.load(sys.stdin)["picks"]: print(*map(one.get, keys))'
}
curl -fsS $api/experiments -H 'content-type: application/json' \\
  -d '{"name": "by-curl", "generators": ["old", "new"], "metric": {"name": "mean"}, "budget": 2000}' > /dev/null
while read -r number nonce generator size seed < <(curl -fsS -X POST $api/experiments/by-curl/picks | pick); do
  python3 -c 'import json, random, sys
generator, size, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
rng = random.Random(seed)
print(json.dumps({"values": [rng.gauss({"old": 0, "new": 3}[generator], 1) for _ in range(size)]}))' \\
    $generator $size $seed > batch.json
  curl -fsS "$api/experiments/by-curl/picks/$number/batch?nonce=$nonce" \\
    -H 'content-type: application/json' -d @batch.json > /dev/null
done
curl -fsS $api/experiments/by-curl/report | python3 -c 'import json, sys; print(json.load(sys.stdin)["why"])'
```

## A worker in Python

Features are many numbers: safetensors hold them in less space, and `numpy` and `safetensors` write them in one call.
Here `real` is the reference, and the same worker tells features:

<!-- not run: a test of its own runs it to its decision -->
```python
import httpx
import numpy as np
from safetensors.numpy import save

api, headers = httpx.Client(base_url="http://127.0.0.1:8000/v1"), {"content-type": "application/x-safetensors"}
real = save({"features": np.random.default_rng(0).standard_normal((2000, 16))})
api.post("/references", params={"name": "real"}, content=real, headers=headers).raise_for_status()
config = {"generators": ["old", "new"], "budget": 999, "metric": {"name": "fid", "reference": "real"}}
api.post("/experiments", json={"name": "by-hand", **config}).raise_for_status()
while picks := api.post("/experiments/by-hand/picks").raise_for_status().json()["picks"]:
    for pick in picks:
        shift = {"old": 0.7, "new": 0.0}[pick["generator"]]
        batch = save({"features": np.random.default_rng(pick["seed"]).normal(shift, 1, (pick["size"], 16))})
        path, nonce = f"/experiments/by-hand/picks/{pick['number']}/batch", {"nonce": pick["nonce"]}
        api.post(path, params=nonce, content=batch, headers=headers).raise_for_status()
print(api.get("/experiments/by-hand/report").json()["why"])
```

JSON takes long to read, so that it is limited ([security.md](security.md#limits)): send many numbers in another format.
Answers that are lost may be asked for again: a tell is known by its pick, an ask by a `request_id` in its body.
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
