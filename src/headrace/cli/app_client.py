"""The client for commands that run an app."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from headrace.cli.command import CommandSession
from headrace.client._sync.client import Client
from headrace.errors import InvalidOption

if TYPE_CHECKING:
    from headrace.worker import App


@contextmanager
def open_client(session: CommandSession, app: App | None) -> Iterator[Client]:
    """The app's own client if no URL is set, otherwise a new client for that URL."""
    if app is not None and app.is_bound and session.settings()["url"].value is None:
        client = app.client
        if not isinstance(client, Client):
            raise InvalidOption("the app is bound to an async client: give --url.", option="url")
        yield client
        return
    with session.open(may_create_tables=True) as hr:
        yield hr
