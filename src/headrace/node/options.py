"""The options of a node, and their checks. Light: a spawner needs no server."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from headrace.errors import InvalidOption, UnsupportedStore
from headrace.local_nodes import DEFAULT_LISTEN, DEFAULT_NAMESPACE
from headrace.model.url import NODE_SCHEMES, parse_url
from headrace.node.sockets import (
    ListeningSocket,
    is_loopback,
    listen_tcp,
    listen_unix,
    parse_address,
)
from headrace.node.tls import TlsFiles


class RetentionChoice(msgspec.Struct, frozen=True, kw_only=True):
    """When old records of all topics are removed: after ``min_age`` seconds, or never."""

    min_age: float | None = 30.0
    interval: float = 30.0


class NodeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a node serves and how. ``connect`` are options of ``headrace.connect``.

    ``hosts`` are names by which clients reach it, beyond ``localhost`` and addresses. ``workers``
    are commands of ``headrace`` that run beside the node; it is ready when they have started, or
    after ``start_seconds``. ``retention`` is stored at the start. ``willow`` adds Willow's routes.
    """

    url: str
    namespace: str = DEFAULT_NAMESPACE
    tls: TlsFiles | None = None
    is_open: bool = False
    hosts: Sequence[str] = ()
    workers: Sequence[Sequence[str]] = ()
    start_seconds: float = 10.0
    connect: dict[str, Any] = {}
    retention: RetentionChoice | None = None
    willow: bool = True


def check_store_url(url: str) -> None:
    """Check that a URL is one of a store that a node can open.

    A node waits for a store that is away. A folder that is missing is a mistake, and it says so.
    """
    scheme = url.partition("://")[0].lower()
    if scheme in NODE_SCHEMES:
        raise InvalidOption(
            "the URL is the address of a node, and a node opens a store itself: give the store's "
            "own URL, as in sqlite:///flow.db.",
            option="url",
        )
    parts = parse_url(url)
    folder = Path(parts.location).parent
    if parts.scheme == "sqlite" and not folder.is_dir():
        raise InvalidOption(
            f"the folder {folder} of the store does not exist: create it, or correct the URL.",
            option="url",
        )


def check_open(listen: str | None) -> None:
    """Check that a node without tokens is reached from this machine only."""
    if listen is not None and not is_loopback(parse_address(listen)[0]):
        raise InvalidOption(
            f"a node without tokens would serve everybody who reaches {listen}: leave --open out, "
            "or listen on 127.0.0.1.",
            option="open",
        )


def listen_on(listen: str | None, path: str | None, *, is_tls: bool) -> list[ListeningSocket]:
    """The listeners of a node; by default ``DEFAULT_LISTEN``."""
    listeners = []
    try:
        if listen is not None or path is None:
            host, port = parse_address(listen or DEFAULT_LISTEN)
            listeners.append(listen_tcp(host, port, is_tls=is_tls))
        if path is not None:
            listeners.append(listen_unix(Path(path)))
    except BaseException:
        for listener in listeners:
            listener.close()
        raise
    return listeners


def require_server() -> None:
    """Check that the libraries of a node are installed and can be imported."""
    try:
        for name in ("httptools", "uvicorn", "uvloop", "websockets"):
            import_module(name)
    except ImportError as error:
        raise UnsupportedStore(
            "a node needs uvicorn, httptools, uvloop and websockets: pip install "
            f"'headrace[node]' ({error})."
        ) from error
