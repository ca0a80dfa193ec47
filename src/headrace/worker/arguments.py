"""The arguments of a task: checked and encoded where it is pushed, decoded where it runs.

A value that JSON has is stored as it is. One whose parameter has another type that msgspec or
Pydantic knows is stored in their form, and comes back as that type.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, get_type_hints

import msgspec
from msgspec import inspect as types

from headrace.errors import InvalidBody

_PLAIN = (
    types.AnyType,
    types.NoneType,
    types.BoolType,
    types.IntType,
    types.FloatType,
    types.StrType,
    types.LiteralType,
)

_EXACT: dict[type[types.Type], frozenset[type]] = {
    types.NoneType: frozenset({type(None)}),
    types.BoolType: frozenset({bool}),
    types.IntType: frozenset({int}),
    types.FloatType: frozenset({float, int}),
    types.StrType: frozenset({str}),
}


class _Hint(NamedTuple):
    """The type of a parameter; ``is_plain`` if its values are JSON as they are, ``exact`` the
    classes whose instances need no further look."""

    type: Any
    is_plain: bool
    exact: frozenset[type]


class Arguments:
    """The arguments of one function, by the types that it declares for them.

    A parameter without a type, or with one that is not known here, accepts every JSON value.
    """

    def __init__(self, function: Callable[..., Any], signature: inspect.Signature) -> None:
        self._function = function
        self._signature = signature

    def encoded(
        self, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[list[Any], dict[str, Any]]:
        """The arguments as JSON values; ``InvalidBody`` names the first that does not fit."""
        hints = self._hints
        if not hints:
            return list(args), dict(kwargs)
        return (
            [
                self._encode(hints.get(name), value, name, index)
                for index, (name, value) in enumerate(self._named(args))
            ],
            {
                name: self._encode(self._hint_of(name), value, name, name)
                for name, value in kwargs.items()
            },
        )

    def decoded(
        self, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[Sequence[Any], Mapping[str, Any]]:
        """The arguments as the function declares them; ``InvalidBody`` as above."""
        if not self._needs_decoding:
            return args, kwargs
        hints = self._hints
        return (
            [
                self._decode(hints.get(name), value, name, index)
                for index, (name, value) in enumerate(self._named(args))
            ],
            {
                name: self._decode(self._hint_of(name), value, name, name)
                for name, value in kwargs.items()
            },
        )

    def _encode(self, hint: _Hint | None, value: Any, name: str, at: int | str) -> Any:
        if hint is None or type(value) in hint.exact:
            return value
        try:
            if hint.is_plain:
                _check_plain(hint, value)
                return value
            encoded = msgspec.to_builtins(value, str_keys=True, enc_hook=_to_json)
            _convert(encoded, hint)
        except _WRONG as error:
            raise _misfit(name, error, at) from error
        return encoded

    def _decode(self, hint: _Hint | None, value: Any, name: str, at: int | str) -> Any:
        if hint is None or hint.is_plain:
            return value
        try:
            return _convert(value, hint)
        except _WRONG as error:
            raise _misfit(name, error, at) from error

    def _named(self, args: Sequence[Any]) -> list[tuple[str, Any]]:
        """Positional arguments with the names of their parameters."""
        names, rest = self._positional
        return [
            (names[index] if index < len(names) else rest, value)
            for index, value in enumerate(args)
        ]

    def _hint_of(self, keyword: str) -> _Hint | None:
        name = keyword if keyword in self._signature.parameters else self._rest_of_keywords
        return self._hints.get(name)

    @cached_property
    def _hints(self) -> dict[str, _Hint]:
        try:
            found = get_type_hints(self._function, include_extras=True)
        except Exception:  # a type that is not there at run time
            return {}
        parameters = self._signature.parameters
        hints = {
            name: _hint_of(found[name], parameter)
            for name, parameter in parameters.items()
            if name in found
        }
        return {name: hint for name, hint in hints.items() if hint is not None}

    @cached_property
    def _needs_decoding(self) -> bool:
        return not all(hint.is_plain for hint in self._hints.values())

    @cached_property
    def _positional(self) -> tuple[list[str], str]:
        kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        parameters = self._signature.parameters.values()
        names = [each.name for each in parameters if each.kind in kinds]
        return names, self._name_of(inspect.Parameter.VAR_POSITIONAL)

    @cached_property
    def _rest_of_keywords(self) -> str:
        return self._name_of(inspect.Parameter.VAR_KEYWORD)

    def _name_of(self, kind: Any) -> str:
        parameters = self._signature.parameters.values()
        return next((each.name for each in parameters if each.kind is kind), "")


_WRONG = (msgspec.ValidationError, TypeError, ValueError, NotImplementedError, RecursionError)


def _hint_of(declared: Any, parameter: inspect.Parameter) -> _Hint | None:
    """A declared type, if it is known; None as the default is a value of it."""
    if parameter.default is None:
        try:
            declared = declared | None
        except TypeError:
            return None
    try:
        known = types.type_info(declared)
    except Exception:  # msgspec raises many, and the function may still be called
        return None
    is_foreign = isinstance(known, types.CustomType) and not _is_model(known.cls)
    if is_foreign or isinstance(known, types.AnyType):
        return None
    return _Hint(declared, _is_plain(known), _exact(known))


def _exact(known: types.Type) -> frozenset[type]:
    if isinstance(known, types.UnionType):
        return frozenset[type]().union(*map(_exact, known.types))
    # Compared as a whole: a constraint makes it another.
    exact = _EXACT.get(type(known), frozenset[type]())
    return exact if exact and known == type(known)() else frozenset()


def _is_plain(known: types.Type) -> bool:
    if isinstance(known, types.ListType):
        return _is_plain(known.item_type)
    if isinstance(known, types.DictType):
        is_text = isinstance(known.key_type, types.AnyType | types.StrType)
        return is_text and _is_plain(known.value_type)
    if isinstance(known, types.UnionType):
        return all(map(_is_plain, known.types))
    return isinstance(known, _PLAIN)


def _is_model(kind: Any) -> bool:
    """Whether it is a Pydantic model, without importing Pydantic."""
    return hasattr(kind, "model_validate") and hasattr(kind, "model_dump")


def _check_plain(hint: _Hint, value: Any) -> None:
    try:
        msgspec.convert(value, hint.type)
    except msgspec.ValidationError:
        # An enum of texts or numbers is stored as these.
        _convert(msgspec.to_builtins(value, enc_hook=_to_json), hint)


def _convert(value: Any, hint: _Hint) -> Any:
    return msgspec.convert(value, hint.type, str_keys=True, dec_hook=_from_json)


def _to_json(value: Any) -> Any:
    if _is_model(type(value)):
        return value.model_dump(mode="json")
    raise NotImplementedError(f"a {type(value).__name__} is no JSON value")  # msgspec's hooks


def _from_json(kind: type, value: Any) -> Any:
    if _is_model(kind):
        return kind.model_validate(value)  # type: ignore[attr-defined]  # it has been looked for
    raise NotImplementedError(f"values of {kind.__name__} cannot be read from JSON")  # as above


def _misfit(name: str, error: Exception, at: int | str) -> InvalidBody:
    path = f"$.args[{at}]" if isinstance(at, int) else f"$.kwargs.{at}"
    return InvalidBody(f"argument {name}: {error}", path=path)
