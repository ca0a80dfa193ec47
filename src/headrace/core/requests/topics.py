"""Requests about topics: arguments are checked before anything is sent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from headrace.contract.store import Session, Store
from headrace.contract.values import (
    CommitCall,
    CommitOutcome,
    Committed,
    Page,
    Promised,
)
from headrace.core.clock_skew import heed_clock
from headrace.core.commits import (
    Entry,
    Headers,
    Prepared,
    ids_of,
    prepare,
    prepare_many,
    prepare_one,
)
from headrace.core.requests.request import Request
from headrace.core.scans import Scan
from headrace.errors import InvalidBody, InvalidOption, NotCommitted
from headrace.model.checks import positive, text
from headrace.model.fields import shown
from headrace.model.names import check_topic, writable_topic
from headrace.model.topics.records import Record, TopicInfo

T = TypeVar("T")
MAX_TOPICS = 1000


class Receipt(msgspec.Struct, frozen=True):
    """For records committed in a transaction: their ids, or what to ask for them with."""

    ids: list[str] | None
    promised: Promised | None = None
    topics: tuple[str, ...] = ()


class Commitment(msgspec.Struct, Generic[T], frozen=True):
    """Records to commit, and what to make of the outcome."""

    call: CommitCall
    finish: Callable[[CommitOutcome], T]


class TopicRequests:
    """Commits and reads."""

    def __init__(self, store: Store | Session, *, max_body: int) -> None:
        self.store = store
        self.max_body = max_body

    def commit(
        self,
        topic: str | Sequence[Entry],
        body: Any,
        headers: Headers | None,
        key: str | None,
    ) -> Commitment[Any]:
        if isinstance(topic, str):
            one = prepare_one(topic, body, headers, key, max_body=self.max_body)

            def finish(outcome: CommitOutcome) -> str:
                heed_clock(outcome)
                return one.ids(outcome)[0]

            return Commitment(one.call, finish)
        _refuse_body(body)
        return self.commit_entries(entries_of(topic), headers, key)

    def commit_many(
        self, topic: str, bodies: Iterable[Any], headers: Headers | None, key: str | None
    ) -> Commitment[list[str]]:
        given = _bodies(topic, bodies)
        return self._commitment(prepare_many(topic, given, headers, key, max_body=self.max_body))

    def commit_entries(
        self, entries: Sequence[Entry], headers: Headers | None, key: str | None
    ) -> Commitment[list[str]]:
        return self._commitment(prepare(entries, headers=headers, key=key, max_body=self.max_body))

    def _commitment(self, prepared: Prepared) -> Commitment[list[str]]:
        def finish(outcome: CommitOutcome) -> list[str]:
            heed_clock(outcome)
            return prepared.ids(outcome)

        return Commitment(prepared.call, finish)

    def promise(
        self,
        topic: str | Sequence[Entry],
        body: Any,
        headers: Headers | None,
        key: str | None,
    ) -> Commitment[Receipt]:
        if isinstance(topic, str):
            return self._promise([(topic, body)], headers, key)
        _refuse_body(body)
        return self._promise(entries_of(topic), headers, key)

    def promise_many(
        self, topic: str, bodies: Iterable[Any], headers: Headers | None, key: str | None
    ) -> Commitment[Receipt]:
        entries = [(topic, body) for body in _bodies(topic, bodies)]
        return self._promise(entries, headers, key)

    def _promise(
        self, entries: Sequence[Entry], headers: Headers | None, key: str | None
    ) -> Commitment[Receipt]:
        prepared = prepare(entries, headers=headers, key=key, max_body=self.max_body)
        return Commitment(prepared.call, lambda outcome: receipt_of(prepared, outcome))

    def resolve(self, receipt: Receipt) -> Request[list[str]]:
        promised = receipt.promised
        if promised is None:
            raise InvalidOption("the receipt is empty: use one that commit gave.", option="receipt")

        def finish(committed: Committed | None) -> list[str]:
            if committed is None:
                raise NotCommitted(
                    "these records are not committed: their transaction is still open, or it was "
                    "rolled back."
                )
            return ids_of(committed, receipt.topics)

        return Request(self.store.topics.resolve(promised), finish)

    def scan(
        self,
        topic: str,
        start: str | None,
        end: str | None,
        exclusive: bool,
        limit: int | None,
        descending: bool,
    ) -> Scan:
        return Scan(
            check_topic(topic),
            start=start,
            end=end,
            exclusive=exclusive,
            limit=limit,
            descending=descending,
        )

    def read(self, scan: Scan) -> Request[list[Record]]:
        assert scan.query is not None

        def finish(page: Page) -> list[Record]:
            return scan.add(page)

        return Request(self.store.topics.read(scan.query), finish)

    def length(self, topic: str) -> Request[int]:
        return Request(self.store.topics.info(check_topic(topic)), lambda info: info.length)

    def info(self, topic: str) -> Request[TopicInfo]:
        return Request(self.store.topics.info(check_topic(topic)))

    def listing(self, prefix: str, after: str, limit: int) -> Request[list[TopicInfo]]:
        names = text("prefix", prefix), text("after", after)
        return Request(self.store.topics.list(*names, positive("limit", limit)))


def receipt_of(prepared: Prepared, outcome: CommitOutcome) -> Receipt:
    if isinstance(outcome, Promised):
        return Receipt(None, outcome, tuple(prepared.topics))
    return Receipt(prepared.ids(outcome))


def _refuse_body(body: object) -> None:
    if body is not None:
        raise InvalidBody(
            "commit takes one topic and one body, or one list of (topic, body).", path="$"
        )


def _bodies(topic: str, bodies: Iterable[Any]) -> list[Any]:
    writable_topic(topic)
    if isinstance(bodies, (dict, str, bytes)):
        raise InvalidBody("commit_many takes a list of bodies; for one body use commit.", path="$")
    return list(bodies)


def entries_of(entries: object) -> Sequence[Entry]:
    if isinstance(entries, (list, tuple)) and not (entries and isinstance(entries[0], str)):
        return entries
    raise InvalidBody(
        f"{shown(entries)} is not a list of entries: give [(topic, body), ...].", path="$"
    )
