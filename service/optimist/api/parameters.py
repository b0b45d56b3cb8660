"""Parameters of a route that reads them itself: FastAPI takes as long for those of a tell as all else of it."""

from __future__ import annotations

from typing import Any, TypeVar

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError

Parameters = TypeVar("Parameters", bound=BaseModel)


def read_parameters(model: type[Parameters], request: Request) -> Parameters:
    """The fields of `model` from the request's path and query, as FastAPI reads them.

    Raises RequestValidationError where they are not what is expected.
    """
    path = request.path_params
    try:
        return model.model_validate({**request.query_params, **path})
    except ValidationError as error:
        errors = error.errors(include_url=False)
        raise RequestValidationError(
            [{**one, "loc": ("path" if one["loc"][0] in path else "query", *one["loc"])} for one in errors]
        ) from None


def parameters_in_openapi(model: type[BaseModel], *path: str) -> dict[str, Any]:
    """As FastAPI would document them, for the route's `openapi_extra`; `path` are the names of those in the path."""
    schema = model.model_json_schema()
    required = schema.get("required", [])
    return {
        "parameters": [
            {
                "name": name,
                "in": "path" if name in path else "query",
                "required": name in required,
                "schema": {key: value for key, value in one.items() if key != "description"},
                **({"description": one["description"]} if "description" in one else {}),
            }
            for name, one in schema["properties"].items()
        ],
        "responses": {
            "422": {
                "description": "Validation Error",
                "content": {"application/json": {"schema": {"$ref": "#/components/schemas/HTTPValidationError"}}},
            }
        },
    }
