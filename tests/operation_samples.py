"""Arguments for every operation of the contract, made from their types."""

from typing import Any

import msgspec
from msgspec import inspect as types

from headrace.contract.operations import Operation


def sample(info: types.Type, *, is_full: bool = False) -> Any:
    """A value of a type in the form that msgspec converts: as plain as it gets, or full.

    A full one has an element in each list, and a value wherever one may be missing.
    """
    match info:
        case types.StructType():
            made = {
                field.encode_name: sample(field.type, is_full=is_full)
                for field in info.fields
                if is_full or field.required
            }
            return made | ({info.tag_field: info.tag} if info.tag_field else {})
        case types.UnionType():
            values = [one for one in info.types if not isinstance(one, types.NoneType)]
            if is_full or len(values) == len(info.types):
                return sample(values[0], is_full=is_full)
            return None
        case types.LiteralType():
            return info.values[0]
        case types.StrType():
            return "a"
        case types.BoolType():
            return False
        case types.IntType() | types.FloatType():
            return 1
        case types.TupleType():
            return [sample(one, is_full=is_full) for one in info.item_types]
        case types.DictType():
            return {}
        case types.CollectionType():
            return [sample(info.item_type, is_full=True)] if is_full else []
    raise AssertionError(info)


def arguments_of(operation: Operation, *, is_full: bool = False) -> msgspec.Struct:
    """Arguments of an operation."""
    made = sample(types.type_info(operation.arguments), is_full=is_full)
    return msgspec.convert(made, operation.arguments)
