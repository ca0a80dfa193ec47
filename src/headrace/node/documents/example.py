"""An example of an endpoint: a request that works, and one that is refused."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote, urlencode

from headrace.errors import HeadraceError
from headrace.node.resources.endpoint import Endpoint

FROM_BEFORE = "…"
"""Stands in a body for the token or the session that an earlier answer gave."""

NAMES = {
    "item": "1",
    "limit": "per-customer",
    "pipeline": "totals",
    "proc": "mailer",
    "queue": "mail",
    "record": ":0",
    "sink": "bills",
    "topic": "orders",
}
"""What segments of paths are in examples, unless an example says otherwise."""
MISSING = {**dict.fromkeys(NAMES, "missing"), "item": "999", "record": ":999"}
_NAME = re.compile(r"{(\w+)}")


@dataclass(frozen=True, kw_only=True)
class ExampleRequest:
    """What an example sends beyond its method and its route. ``body`` None is the endpoint's own."""

    names: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    body: Any = None


UNKNOWN_OPTION = ExampleRequest(query={"colour": "red"})


@dataclass(frozen=True, kw_only=True)
class Example:
    """The example of an endpoint.

    It works after those that come before it, and after ``before``: requests by the names of their
    operations. ``refused`` is, unless given, about something that does not exist, or has an option
    that does not. ``problems`` are errors beyond those that any endpoint may report.
    """

    operation: str
    good: ExampleRequest = ExampleRequest()
    refused: ExampleRequest | None = None
    before: tuple[tuple[str, ExampleRequest], ...] = ()
    problems: tuple[type[HeadraceError], ...] = ()


def names_in(endpoint: Endpoint) -> list[str]:
    """The parameters of an endpoint's path."""
    return _NAME.findall(endpoint.path)


def refused_request(endpoint: Endpoint, example: Example) -> ExampleRequest:
    """The request that is refused."""
    if example.refused is not None:
        return example.refused
    names = names_in(endpoint)
    if not names:
        return replace(UNKNOWN_OPTION, body=example.good.body)
    missing = names[-1]
    return ExampleRequest(names={missing: MISSING[missing]}, body=example.good.body)


def request_path(endpoint: Endpoint, request: ExampleRequest) -> str:
    """The path of a request below the base of the API, with the options behind ``?``."""
    values = NAMES | dict(request.names)
    path = endpoint.path.format_map(
        {name: quote(value, safe=":") for name, value in values.items()}
    )
    return f"{path}?{urlencode(request.query)}" if request.query else path


def request_body(endpoint: Endpoint, request: ExampleRequest) -> Any:
    """The body of a request; None for none."""
    if endpoint.body is None:
        return None
    return endpoint.example if request.body is None else request.body
