"""An exception at the n-th point of a call, as a signal handler would raise it.

CPython runs signal handlers, and raises their exceptions, where a function starts or a generator
continues, after each call, at backward jumps, and inside calls that wait. ``sys.setprofile`` shows
the first two kinds and ``sys.settrace`` the others. No exception can come in between.
"""

import dis
import gc
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

_CALLS = frozenset((dis.opmap["CALL"], dis.opmap["CALL_FUNCTION_EX"]))
_JUMPS = frozenset((dis.opmap["JUMP_BACKWARD"], dis.opmap["BEFORE_WITH"]))

# Functions in C that wait, and run signal handlers meanwhile.
_WAITING = frozenset(("acquire", "get", "poll", "read", "select", "sleep", "write"))


class Interrupt(BaseException):
    """The exception of the handler. Code that catches ``Exception`` must not swallow it."""


class _Points:
    """Counts points and raises at one of them."""

    def __init__(self, at: int) -> None:
        self.seen = 0
        self._at = at

    def profile(self, frame: FrameType, event: str, argument: object) -> None:
        if frame.f_code.co_filename == __file__ or event == "c_exception":
            return
        if event == "c_call" and getattr(argument, "__name__", "") not in _WAITING:
            return
        if event == "return" and not _returns_to_a_call(frame):
            return
        if event == "call" and frame.f_code.co_code[frame.f_lasti + 1] > 1:
            return  # continues inside ``yield from`` or ``await``, where it is counted
        self._pass()

    def trace(self, frame: FrameType, event: str, argument: object) -> Callable[..., Any] | None:
        if frame.f_code.co_filename == __file__:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "opcode" and _opcode(frame) in _JUMPS:
            self._pass()
        return self.trace

    def _pass(self) -> None:
        self.seen += 1
        if self.seen == self._at:
            raise Interrupt


def _returns_to_a_call(frame: FrameType) -> bool:
    """Not a ``yield``, nor an end by an exception, nor a return from what ``with`` or an operator
    calls."""
    caller = frame.f_back
    return (
        _opcode(frame) == dis.opmap["RETURN_VALUE"]
        and caller is not None
        and _opcode(caller) in _CALLS
    )


def _opcode(frame: FrameType) -> int:
    return frame.f_code.co_code[frame.f_lasti]


class _Counted:
    """Counts the points of a block.

    No garbage is collected meanwhile: the finalizers of what an earlier test left, pytest's own
    things among them, are no part of the call. What other finalizers raise is ignored, since the
    report of it would have points too.
    """

    def __init__(self, points: _Points) -> None:
        self._points = points
        self._report = sys.unraisablehook

    def __enter__(self) -> None:
        gc.disable()
        sys.unraisablehook = _ignore
        sys.settrace(self._points.trace)
        sys.setprofile(self._points.profile)

    def __exit__(self, *exception: object) -> None:
        sys.setprofile(None)
        sys.settrace(None)
        sys.unraisablehook = self._report
        gc.enable()


def _ignore(unraisable: object) -> None:
    pass


def interrupted(act: Callable[[], object], at: int) -> Interrupt | None:
    """Call it with an interrupt at a point. None if it was over before."""
    points = _Points(at)
    try:
        with _Counted(points):
            act()
    except Interrupt as error:
        return error
    except RuntimeError as error:
        # A wait inside ``threading`` may end like this: its conditions are written in Python.
        if not isinstance(error.__context__, Interrupt):
            raise
        return error.__context__
    # A point in a finalizer, where an exception is ignored.
    return Interrupt() if points.seen >= at else None


def points_of(act: Callable[[], object]) -> int:
    """How many points a call has."""
    points = _Points(0)
    with _Counted(points):
        act()
    return points.seen
