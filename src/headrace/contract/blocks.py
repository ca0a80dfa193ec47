"""``with`` blocks that no signal can leave half-way.

Python raises a signal handler's exception at the start of a function or after a call. With
``contextlib.contextmanager`` that may be between the end of a block and its cleanup code, and then
a lock stays locked. Here only C code runs between the block and its generator, so the exception is
raised inside the generator, where ``try`` and ``with`` are in effect.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, NoReturn, ParamSpec, Self, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

Block = Generator[Any, Any, None]


def block(function: Callable[P, Block]) -> Callable[P, AbstractContextManager[Any]]:
    """Make a generator function a context manager; it runs ``yield from during(value)`` once."""

    @wraps(function)
    def begin(*args: P.args, **named: P.kwargs) -> AbstractContextManager[Any]:
        return _Guarded(_closed(function(*args, **named)), function.__name__)

    return begin


def during(value: T) -> Generator[Any, Any, None]:
    """Run the block with a value. Raises the block's error, or ``StoppedError`` in place of a
    ``StopIteration``."""
    yield value
    yield 0
    error = yield 0
    yield 0
    if error is not None:
        if isinstance(error, StopIteration):
            raise StoppedError from error
        raise error


class StoppedError(Exception):
    """Stands for a ``StopIteration`` of the block, which no generator can raise.

    ``with`` itself raises the original at the end.
    """


class _Method:
    """A method that is a C function, bound before the block begins.

    ``ExitStack`` calls it unbound.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, guarded: object, kind: type) -> Any:
        return self if guarded is None else getattr(guarded, self._name)

    def __call__(self, guarded: object, *details: Any) -> Any:
        return getattr(guarded, self._name)(*details)


class _Guarded:
    """The context manager: both of its methods are C functions that resume the generator."""

    __slots__ = ("_enter", "_exit", "_name")

    __enter__ = _Method("_enter")
    __exit__ = _Method("_exit")

    def __init__(self, steps: Block, name: str) -> None:
        self._enter = steps.__next__
        self._exit = _leave(steps)
        self._name = name

    def __getattr__(self, attribute: str) -> NoReturn:
        # Copying asks for such names before there is a ``_name``.
        if attribute.startswith("_"):
            raise AttributeError(attribute)
        raise not_entered(self._name, attribute)


def not_entered(block: str, attribute: str, keyword: str = "with") -> AttributeError:
    """The error for an attribute that the value of a block has, and not the block."""
    return AttributeError(
        f"{block}() has no {attribute!r} before it is entered: write "
        f"`{keyword} hr.{block}(...) as it:` and then it.{attribute}."
    )


class Blocks(ABC):
    """A base for objects that are context managers themselves; ``_block`` is their generator."""

    _steps: Block

    @abstractmethod
    def _block(self) -> Block:
        """A generator that runs ``yield from during(self)`` once."""

    @property
    def _enter(self) -> Callable[[], Any]:
        # ``with`` reads ``_enter`` before ``_exit``, and both before it enters the block.
        self._steps = _closed(self._block())
        return self._steps.__next__

    @property
    def _exit(self) -> Callable[..., Any]:
        return _leave(self._steps)

    if TYPE_CHECKING:

        def __enter__(self) -> Self: ...

        def __exit__(self, *details: object) -> None: ...

    else:
        __enter__ = _Method("_enter")
        __exit__ = _Method("_exit")


def _leave(steps: Block) -> Callable[..., Any]:
    """A C function that sends the error's type, the error and its traceback, one by one.

    It sends ``False`` first and returns it, since all answers compare equal. After an error
    either the generator raises or ``with`` does.
    """
    return partial(min, False, key=steps.send)


def _closed(steps: Block) -> Block:
    """The steps, and an answer to the last value that is sent."""
    try:  # noqa: SIM105  # ``suppress`` is Python code, which a signal can interrupt
        yield from steps
    except StoppedError:
        # The answer is ``False``, and ``with`` then raises the ``StopIteration`` again.
        pass
    yield 0
