"""A client of the API that knows nothing of Headrace: HTTP and JSON."""

from __future__ import annotations

import json
import socket
from http.client import HTTPConnection
from typing import Any, NamedTuple, Self
from urllib.parse import quote

API = "/api/v1"


class Reply(NamedTuple):
    """A response."""

    status: int
    json: Any
    headers: dict[str, str]


class ApiClient:
    """Sends requests over one connection."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._connection = HTTPConnection("127.0.0.1", port, timeout=60)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._connection.close()

    def call(
        self, method: str, path: str, body: Any = None, *, wants: int = 200, **headers: str
    ) -> Any:
        """What the node answers; a failure unless it is with this status."""
        reply = self.send(method, path, body, **headers)
        assert reply.status == wants, reply
        return reply.json

    def send(self, method: str, path: str, body: Any = None, **headers: str) -> Reply:
        """Send a request and wait for the response."""
        text = None if body is None else json.dumps(body).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if text is not None:
            named.setdefault("content-type", "application/json")
        target = path if path.startswith(API) else API + path
        self._connection.request(method, target, text, named)
        response = self._connection.getresponse()
        content = response.read()
        found = {name.lower(): value for name, value in response.getheaders()}
        return Reply(response.status, json.loads(content) if content else None, found)

    def begin(self, path: str, body: Any) -> socket.socket:
        """A connection on which a request was sent whose response nobody has read."""
        text = json.dumps(body).encode()
        head = (
            f"POST {API}{path} HTTP/1.1\r\nHost: localhost\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(text)}\r\n\r\n"
        )
        connection = socket.create_connection(("127.0.0.1", self._port), 60)
        connection.sendall(head.encode() + text)
        return connection


def segment(name: str) -> str:
    """A name as a segment of a path."""
    return quote(name, safe="")
