"""Every operation of a store as a value, so that it can be sent to another process.

The table is made from the protocols: their signatures give the types, their decorators the flags
(``contract.flags``). ``Operation.arguments`` is a struct with a field per argument, which encodes
and decodes with msgspec like everything in it.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import typing
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec
from msgspec import inspect as types

from headrace.contract.admin import AdminStore
from headrace.contract.channels import ChannelStore
from headrace.contract.counters import CounterStore
from headrace.contract.flags import Repeatable, flags_of
from headrace.contract.limits import LimitStore
from headrace.contract.locks import LockStore
from headrace.contract.op import Op
from headrace.contract.pipelines import PipelineStore
from headrace.contract.procs import ProcStore
from headrace.contract.queues import QueueStore
from headrace.contract.schedules import ScheduleStore
from headrace.contract.sinks import SinkStore
from headrace.contract.tokens import TokenStore
from headrace.contract.topics import TopicStore

PARTS: Mapping[str, type] = {
    "topics": TopicStore,
    "procs": ProcStore,
    "queues": QueueStore,
    "channels": ChannelStore,
    "limits": LimitStore,
    "locks": LockStore,
    "counters": CounterStore,
    "sinks": SinkStore,
    "pipelines": PipelineStore,
    "tokens": TokenStore,
    "schedules": ScheduleStore,
    "admin": AdminStore,
}
"""The protocol of each part of a store."""


class Operation(NamedTuple):
    """One operation: ``name`` is ``queues.claim``, also that of its ``Op``.

    ``arguments`` is the type of a struct with a field per argument, ``result`` the type of what
    running it returns.
    """

    name: str
    part: str
    method: str
    arguments: type[msgspec.Struct]
    result: Any
    writes: bool
    repeatable: Repeatable

    def is_repeatable(self, arguments: msgspec.Struct) -> bool:
        """Whether it may be sent again, with these arguments, when its answer was lost."""
        if isinstance(self.repeatable, bool):
            return self.repeatable
        return self.repeatable(**msgspec.structs.asdict(arguments))

    def build(self, store: Any, arguments: msgspec.Struct) -> Op[Any]:
        """The operation of a store, or of a session, with these arguments."""
        method = getattr(getattr(store, self.part), self.method)
        op: Op[Any] = method(**msgspec.structs.asdict(arguments))
        return op


def _operation(part: str, name: str, method: Any) -> Operation:
    hints = typing.get_type_hints(method)
    [result] = typing.get_args(hints.pop("return"))
    fields: list[Any] = []
    for parameter in list(inspect.signature(method).parameters.values())[1:]:
        field = (parameter.name, hints[parameter.name])
        has_default = parameter.default is not inspect.Parameter.empty
        fields.append((*field, parameter.default) if has_default else field)
    arguments = msgspec.defstruct(
        f"{part}.{name}", fields, frozen=True, kw_only=False, forbid_unknown_fields=True
    )
    return Operation(f"{part}.{name}", part, name, arguments, result, *flags_of(method))


OPERATIONS: Mapping[str, Operation] = {
    operation.name: operation
    for part, protocol in PARTS.items()
    for name, method in vars(protocol).items()
    if not name.startswith("_")
    for operation in [_operation(part, name, method)]
}
"""All operations, by name: ``queues.claim`` for example."""


@functools.cache
def table_digest() -> str:
    """A short name for this table: two releases with the same digest understand each other."""
    seen: set[type] = set()
    lines = [
        f"{operation.name} {' '.join(_described(operation.arguments, seen))} -> "
        f"{' '.join(_described(operation.result, seen))}"
        for operation in OPERATIONS.values()
    ]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def _described(hint: Any, seen: set[type]) -> Iterator[str]:
    yield from _of_type(types.type_info(hint), seen)


def _of_type(info: types.Type, seen: set[type]) -> Iterator[str]:
    """The names and types of everything in a type; a struct that was described is only named."""
    yield type(info).__name__
    if isinstance(info, types.StructType):
        yield info.cls.__name__
        if info.cls in seen:
            return
        seen.add(info.cls)
        yield f"{info.tag_field}={info.tag}"
        for field in info.fields:
            yield f"{field.encode_name}{'' if field.required else '?'}"
            yield from _of_type(field.type, seen)
        return
    for name in info.__struct_fields__:
        value = getattr(info, name)
        for one in value if isinstance(value, tuple) else (value,):
            if isinstance(one, types.Type):
                yield from _of_type(one, seen)
            elif one is not None:
                yield f"{name}={one}"
