"""JSON schemas of what endpoints take and give, from its types."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from msgspec import inspect

from headrace.contract.wire import Problem
from headrace.model.query.key_values import KeyValues
from headrace.node.resources.endpoint import Endpoint

Schema = dict[str, Any]
NAME_PATTERN = "^[A-Za-z0-9_.-]{1,200}$"
REFERENCE = "#/components/schemas/{name}"


_NAMES: dict[str, Schema] = {
    "item": {"type": "integer", "minimum": 1},
    "queue": {"type": "string", "pattern": "^[^/]{1,200}$"},
    "topic": {"type": "string", "pattern": NAME_PATTERN},
    "proc": {"type": "string", "pattern": NAME_PATTERN},
    "pipeline": {"type": "string", "pattern": NAME_PATTERN},
    "sink": {"type": "string", "pattern": NAME_PATTERN},
}


def name_schema(name: str) -> Schema:
    """The schema of a parameter of a path."""
    return _NAMES.get(name, {"type": "string", "minLength": 1})


class Schemas:
    """The schemas of endpoints. ``components`` are those of structs, which others refer to."""

    def __init__(self, endpoints: Iterable[Endpoint]) -> None:
        kinds = [Problem, *(kind for endpoint in endpoints for kind in _kinds(endpoint))]
        # A union of structs is none that msgspec could decode, so its parts are described apart.
        parts = list(dict.fromkeys(part for kind in kinds for part in _parts(kind)))
        made, components = msgspec.json.schema_components(
            parts, schema_hook=_other, ref_template=REFERENCE
        )
        self._schemas = dict(zip(parts, made, strict=True))
        self.components: dict[str, Schema] = {
            name: _plain(schema) for name, schema in components.items()
        }

    def of(self, kind: Any) -> Schema:
        """The schema of a type that an endpoint names."""
        schemas = [_plain(self._schemas[part]) for part in _parts(kind)]
        return schemas[0] if len(schemas) == 1 else {"anyOf": schemas}

    def parts(self, kind: Any) -> dict[str, Schema]:
        """The schemas of the parts of a union by their names, or that of a single struct."""
        return {part.__name__: self.of(part) for part in _parts(kind)}

    def fields(self, kind: Any) -> Iterator[tuple[str, Schema]]:
        """The fields of a struct of options behind ``?``, which are all optional."""
        if kind is None:
            return
        info = inspect.type_info(kind)
        assert isinstance(info, inspect.StructType)
        properties = self.components[kind.__name__]["properties"]
        for field in info.fields:
            yield field.encode_name, _without_null(properties[field.encode_name])


def _kinds(endpoint: Endpoint) -> Iterator[Any]:
    kinds = (endpoint.body, endpoint.query, endpoint.answer, endpoint.event, endpoint.message)
    yield from (kind for kind in kinds if kind is not None)


def _parts(kind: Any) -> tuple[Any, ...]:
    return typing.get_args(kind) if isinstance(kind, types.UnionType) else (kind,)


def _other(kind: type) -> Schema:
    if kind is KeyValues:
        return {"type": "object"}
    raise NotImplementedError  # what msgspec expects of a hook for a type it does not know


def _plain(schema: Any) -> Any:
    """Without the marks of docstrings, which are those of reStructuredText."""
    if isinstance(schema, dict):
        return {
            key: value.replace("``", "`")
            if key == "description" and isinstance(value, str)
            else _plain(value)
            for key, value in schema.items()
        }
    return [_plain(one) for one in schema] if isinstance(schema, list | tuple) else schema


def _without_null(schema: Schema) -> Schema:
    """An option is left out rather than null."""
    rest = {key: value for key, value in schema.items() if key not in ("anyOf", "default")}
    if "anyOf" not in schema:
        return schema
    kinds = [kind for kind in schema["anyOf"] if kind != {"type": "null"}]
    return {**rest, **kinds[0]} if len(kinds) == 1 else {**rest, "anyOf": kinds}
