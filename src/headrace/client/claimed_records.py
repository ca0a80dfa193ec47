"""Procs and their claims, apart from what is asked of the store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol, overload

from headrace.core.requests import Requests
from headrace.core.requests.procs import ClaimedBatch
from headrace.model.fields import shown
from headrace.model.names import check_proc
from headrace.model.topics.records import Record


class Requester(Protocol):
    """A client or a transaction, as a claim needs it."""

    _requests: Requests


class ClaimedRecords(Sequence[Record]):
    """The records of a claim, in order; ``token`` proves the claim.

    ``is_settled`` once they were acked or released through this object.
    """

    def __init__(self, batch: ClaimedBatch) -> None:
        self.proc_name = batch.proc
        self.token = batch.token
        self.records = batch.records
        self.deadline = batch.deadline
        self.is_settled = False

    @overload
    def __getitem__(self, index: int) -> Record: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Record]: ...
    def __getitem__(self, index: int | slice) -> Record | Sequence[Record]:
        return self.records[index]

    def __iter__(self) -> Iterator[Record]:
        return iter(self.records)

    def __len__(self) -> int:
        return len(self.records)

    def __repr__(self) -> str:
        ids = f"{self.records[0].id}..{self.records[-1].id}"
        return f"<{type(self).__name__} of {shown(self.proc_name)}: {ids}>"


class ProcReference:
    """A proc by name. It lives in the store; this is only a handle."""

    def __init__(self, name: str) -> None:
        self.name = check_proc(name)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {shown(self.name)}>"
