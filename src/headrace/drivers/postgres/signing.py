"""What transactions leave behind, so that it can be known afterwards whether they were committed."""

from __future__ import annotations

import itertools
from typing import NamedTuple

from headrace.model.tokens import batch_id


class Signature(NamedTuple):
    """What a transaction leaves if it is committed; no other leaves the same."""

    connection: str
    transaction: int


class Signatures:
    """Those of the transactions of one connection."""

    def __init__(self) -> None:
        self._connection = batch_id()
        self._numbers = itertools.count(1)

    def __call__(self) -> Signature:
        return Signature(self._connection, next(self._numbers))
