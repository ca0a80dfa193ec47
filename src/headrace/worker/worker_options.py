"""The options of a worker, as ``start_worker`` accepts them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypedDict

from headrace.core.channels import Order
from headrace.model.query.queries import Query
from headrace.model.times import Duration
from headrace.worker.items import Item

Backoff = Callable[[Item, Any], float | None]


class WorkerOptions(TypedDict, total=False):
    """The options of a worker."""

    chunk: int | Literal["concurrency"] | None
    concurrency: int | None
    lease: Duration | None
    batch: bool
    backoff: Backoff | None
    name: str | None
    select: Query | None
    order: Order
    quantum: int
