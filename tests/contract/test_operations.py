"""The table of operations: what the contract states of each, and what drivers make of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import msgspec
import pytest

import headrace.contract.store
from headrace.contract.op import Op
from headrace.contract.operations import OPERATIONS, PARTS, Operation, table_digest
from headrace.contract.store import Store
from headrace.stores import open_store
from operation_samples import arguments_of

VARIANTS: dict[str, list[dict[str, Any]]] = {
    "topics.commit": [
        {"calls": [{"parts": [], "key": "k"}]},
        {"calls": [{"parts": [], "key": "k"}, {"parts": []}]},
    ],
    "queues.push": [
        {"calls": [{"queue": "q", "documents": [], "key": "k"}]},
        {"calls": [{"queue": "q", "documents": [], "key": "k"}, {"queue": "q", "documents": []}]},
    ],
    "queues.create": [
        {"name": "q", "changes": {}, "must_be_new": False},
        {"name": "q", "changes": {}, "must_be_new": True},
    ],
    "procs.seek": [{"proc": "p", "offset": ">"}, {"proc": "p", "offset": "$>"}],
}
"""Arguments that may be sent again, then arguments that may not."""

WITHOUT_TRANSACTION = {"sinks.stage", "sinks.discard", "sinks.prune_stages"}
"""SQLite stages in files beside the database: these write, but need no transaction."""

RECOGNIZED = {"topics.commit"}
"""PostgreSQL recognizes a repeat of the very same statement, without a key of the caller's."""


def variants_of(operation: Operation) -> Iterator[msgspec.Struct]:
    if operation.name not in VARIANTS:
        yield arguments_of(operation)
    for given in VARIANTS.get(operation.name, []):
        yield msgspec.convert(given, operation.arguments)


class TestTable:
    def test_it_has_every_operation_of_every_part(self) -> None:
        methods = {
            f"{part}.{name}"
            for part, protocol in PARTS.items()
            for name in dir(protocol)
            if not name.startswith("_")
        }
        assert set(OPERATIONS) == methods

    def test_it_has_every_part_of_a_store(self) -> None:
        properties = {
            name
            for name, value in vars(headrace.contract.store.Store).items()
            if isinstance(value, property)
        }
        assert properties - {"name", "capabilities"} == set(PARTS)

    def test_what_changes_nothing_may_be_repeated(self) -> None:
        assert all(op.writes or op.repeatable is True for op in OPERATIONS.values())

    def test_what_depends_on_arguments_is_tried_with_both_kinds(self) -> None:
        conditional = {op.name for op in OPERATIONS.values() if callable(op.repeatable)}
        assert conditional == set(VARIANTS)
        for name in conditional:
            operation = OPERATIONS[name]
            flags = [operation.is_repeatable(given) for given in variants_of(operation)]
            assert flags == [True, False]

    def test_arguments_that_nobody_declared_are_refused(self) -> None:
        with pytest.raises(msgspec.ValidationError, match="colour"):
            msgspec.convert({"topic": "t", "colour": "red"}, OPERATIONS["topics.info"].arguments)

    def test_the_digest_names_the_table(self) -> None:
        digest = table_digest()
        assert digest == table_digest()
        assert len(digest) == 16


class TestDrivers:
    """Each driver's ``Op`` agrees with the contract."""

    @pytest.fixture
    def store(self, store_url: str) -> Iterator[Store]:
        with closing(open_store(store_url)) as store:
            yield store

    @pytest.mark.parametrize("operation", OPERATIONS.values(), ids=list(OPERATIONS))
    def test_flags_are_those_of_the_contract(self, store: Store, operation: Operation) -> None:
        for arguments in variants_of(operation):
            op = operation.build(store, arguments)
            op.accept()
            assert op.name == operation.name
            if not (store.name == "sqlite" and operation.name in WITHOUT_TRANSACTION):
                assert op.writes == operation.writes
            assert self.repeatable(store, op) == self.expected(store, operation, arguments)

    def repeatable(self, store: Store, op: Op[Any]) -> bool:
        return op.repeatable or not op.writes

    def expected(self, store: Store, operation: Operation, arguments: msgspec.Struct) -> bool:
        if store.name == "sqlite" and operation.name in WITHOUT_TRANSACTION:
            return True
        if store.name == "memory":
            # It never loses an answer, and says of no write that it may be repeated.
            return not operation.writes
        if store.name == "postgresql" and operation.name in RECOGNIZED:
            return True
        return operation.is_repeatable(arguments)
