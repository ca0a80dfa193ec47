"""What a request needs of the store, for each identity: made once, because it costs as much as a push."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

from headrace.contract.store import Store
from headrace.core.requests import Requests
from headrace.model.codec import DEFAULT_MAX_BODY
from headrace.node.guard import RequestIdentity
from headrace.node.guarded_store import GuardedStore

if TYPE_CHECKING:
    from headrace.node.app import NodeApp

MAX_CALLERS = 1000


class Caller(NamedTuple):
    """The store as one identity may use it, and the requests that can be made of it."""

    identity: RequestIdentity
    store: GuardedStore
    requests: Requests


class Callers:
    """The callers of a node."""

    def __init__(self, app: NodeApp) -> None:
        self._app = app
        # By the object: a token has the same one as long as the node knows it.
        self._callers: dict[int, Caller] = {}

    def of(self, identity: RequestIdentity) -> Caller:
        """The caller with an identity."""
        found = self._callers.get(id(identity))
        # Another object may have the id of one that is gone.
        if found is None or found.identity is not identity:
            if len(self._callers) >= MAX_CALLERS:
                self._callers.clear()
            found = self._callers[id(identity)] = self._made(identity)
        return found

    def _made(self, identity: RequestIdentity) -> Caller:
        store = self._app.store_for(identity)
        requests = Requests(cast("Store", store), max_body=DEFAULT_MAX_BODY)
        return Caller(identity, store, requests)
