"""Requests about the channels of a queue: arguments are checked before anything is sent."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from headrace.contract.store import Session
from headrace.core.channels import ChannelInfo, form_of, info_of
from headrace.core.requests.request import Request
from headrace.errors import InvalidOption
from headrace.model.checks import positive
from headrace.model.names import check_queue
from headrace.model.query.key_values import KeyValues
from headrace.model.query.queries import Query
from headrace.model.times import Duration, Moment, delay_ms, moment_ms, moment_of


class ChannelRequests:
    """Channels, their delays and registered selections."""

    def __init__(self, store: Session) -> None:
        self.store = store

    def listing(
        self, queue: str, select: Query | None, after: KeyValues | None, limit: int
    ) -> Request[list[ChannelInfo]]:
        chosen = None if select is None else form_of(select)
        last = "" if after is None else KeyValues.of(after, "after").form
        op = self.store.channels.list(queue, chosen, last, positive("limit", limit))
        return Request(op, lambda rows: [info_of(row) for row in rows])

    def register_selection(self, queue: str, select: Query) -> Request[None]:
        return Request(self.store.channels.register_selection(check_queue(queue), form_of(select)))

    def forget_selection(self, queue: str, select: Query) -> Request[bool]:
        return Request(self.store.channels.forget_selection(check_queue(queue), form_of(select)))

    def selections(self, queue: str) -> Request[list[Query]]:
        return Request(
            self.store.channels.selections(check_queue(queue)),
            lambda rows: [Query.from_json(row.select) for row in rows],
        )

    def delay(
        self, queue: str, key_values: Mapping[str, Any], at: Moment | None, delay: Duration | None
    ) -> Request[datetime]:
        form = KeyValues.of(key_values, "channel").form
        if (at is None) == (delay is None):
            raise InvalidOption("give at or delay: how long nothing may run.", option="delay")
        until = None if at is None else moment_ms("at", at)
        wait = None if delay is None else delay_ms("delay", delay)
        return Request(self.store.channels.delay(queue, form, until, wait), moment_of)

    def end_delay(self, queue: str, key_values: Mapping[str, Any]) -> Request[None]:
        form = KeyValues.of(key_values, "channel").form
        return Request(self.store.channels.delay(queue, form, None, None))

    def empty(self, queue: str, key_values: KeyValues) -> Request[ChannelInfo]:
        """A channel without items."""
        return Request(
            self.store.channels.delayed_until(queue, key_values.form),
            lambda until: ChannelInfo(
                key_values=key_values, delayed_until=None if until is None else moment_of(until)
            ),
        )
