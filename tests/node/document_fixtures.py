"""A node that wants a token, and has what the examples of the API's documents need."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from example_walk import prepare

from headrace.node.shutdown import Closing
from headrace.node.token_guard import TokenGuard
from headrace.stores import open_store
from served_node import ServedNode


class ServedExamples(NamedTuple):
    """Where the node is, and the token that it wants."""

    url: str
    token: str = "a-token-of-this-test"

    def get(self, path: str, *, token: str | None) -> bytes:
        """The body of an answer below ``/api/v1``; errors are raised."""
        headers = {"authorization": f"Bearer {token}"} if token else {}
        request = urllib.request.Request(f"{self.url}/api/v1{path}", headers=headers)
        with urllib.request.urlopen(request, timeout=60) as response:
            body: bytes = response.read()
            return body


@pytest.fixture
def served_examples(served: ServedNode, memory_url: str) -> Iterator[ServedExamples]:
    tokens = open_store("memory://")
    closing = Closing()
    guard = TokenGuard(tokens, closing, local_token=ServedExamples("").token)
    with served.serving(memory_url, guard=guard):
        prepare(served.store)
        yield ServedExamples(served.tcp_url)
        served.call(_end(guard, closing))
    tokens.close()


async def _end(guard: TokenGuard, closing: Closing) -> None:
    closing.begin()
    await guard.aclose()
