"""What clients ask of a store: arguments are checked before anything is sent."""

from __future__ import annotations

from typing import Any

from headrace.contract.store import Session, Store
from headrace.core.requests.channels import ChannelRequests
from headrace.core.requests.items import ItemRequests
from headrace.core.requests.procs import ProcRequests
from headrace.core.requests.queues import QueueRequests
from headrace.core.requests.topics import TopicRequests
from headrace.errors import NotConnected


class Requests:
    """The requests of one client or transaction, by noun."""

    def __init__(self, store: Store | Session, *, max_body: int) -> None:
        self.store = store
        self.max_body = max_body
        self.topics = TopicRequests(store, max_body=max_body)
        self.procs = ProcRequests(store, max_body=max_body)
        self.queues = QueueRequests(store)
        self.items = ItemRequests(store, max_body=max_body)
        self.channels = ChannelRequests(store)


class ClosedRequests(Requests):
    """What is left of the requests of a closed client, or of a transaction that is over."""

    def __init__(self, message: str) -> None:
        self._message = message

    def __getattr__(self, name: str) -> Any:
        raise NotConnected(self._message)
