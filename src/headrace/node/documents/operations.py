"""The operations of the API as its documents describe them: endpoints with their examples."""

from __future__ import annotations

import functools
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import msgspec

from headrace import errors
from headrace.node.documents.example import Example, names_in
from headrace.node.documents.examples import EXAMPLES
from headrace.node.problems import STATUS
from headrace.node.resources.all_endpoints import ENDPOINTS
from headrace.node.resources.endpoint import Endpoint

ANY_ENDPOINT: tuple[tuple[int, str], ...] = (
    (403, "foreign_origin"),
    (421, "misdirected_request"),
    (431, "headers_too_large"),
    (500, "internal_error"),
)
"""Refusals that concern HTTP itself: their statuses and codes."""
ANY_BODY = ((408, "request_timeout"), (415, "unsupported_media_type"))
ANY_ERROR = (
    errors.InvalidInput,
    errors.NotAuthenticated,
    errors.NotAllowed,
    errors.StoreError,
    errors.StoreUnavailable,
    errors.StoreBusy,
)


@dataclass(frozen=True)
class DocumentedOperation:
    """An endpoint, its example and the answers to that."""

    endpoint: Endpoint
    example: Example
    good: Mapping[str, Any]
    refused: Mapping[str, Any]

    @property
    def name(self) -> str:
        return self.endpoint.name

    @property
    def tag(self) -> str:
        """What it is about."""
        return self.endpoint.handle.__module__.rpartition(".")[2].replace("_", " ")

    @property
    def names(self) -> list[str]:
        """The parameters of its path."""
        return names_in(self.endpoint)

    @property
    def description(self) -> str:
        """More than its summary, if there is more to say."""
        return (self.endpoint.handle.__doc__ or "").replace("``", "`")

    @property
    def problems(self) -> dict[int, list[str]]:
        """The codes of the problems that it may report, by status."""
        kinds: list[type[errors.HeadraceError]] = [*ANY_ERROR, *self.example.problems]
        found = [*ANY_ENDPOINT, *((STATUS[kind], kind.code) for kind in kinds)]
        if self.endpoint.body is not None:
            found += [*ANY_BODY, (STATUS[errors.BodyTooLarge], errors.BodyTooLarge.code)]
        if self.endpoint.takes_key:
            found.append((STATUS[errors.KeyReused], errors.KeyReused.code))
        found.append((self.refused["status"], self.refused["body"]["code"]))
        by_status: dict[int, list[str]] = {}
        for status, code in sorted(set(found)):
            by_status.setdefault(status, []).append(code)
        return by_status


@functools.cache
def operations() -> Sequence[DocumentedOperation]:
    """All operations of the API, in the order in which their examples work."""
    text = files("headrace.node.documents").joinpath("answers.json").read_bytes()
    answers = msgspec.json.decode(text)
    endpoints = {endpoint.name: endpoint for endpoint in ENDPOINTS}
    return [
        DocumentedOperation(endpoints[example.operation], example, **answers[example.operation])
        for example in EXAMPLES
    ]


def tag_descriptions(described: Sequence[DocumentedOperation]) -> dict[str, str]:
    """What each tag of some operations is about."""
    found = {}
    for operation in described:
        module = sys.modules[operation.endpoint.handle.__module__]
        text = (module.__doc__ or "").partition(":")[2].strip().split("\n\n")[0]
        found[operation.tag] = text[:1].upper() + text[1:].replace("\n", " ")
    return found
