"""Deliberate faults: a crash at any point of an operation, and sessions stepped by hand.

Random tests with one thread find neither a race nor a lost record. ``Stepper`` runs two or three
real sessions in every order their steps can have. An assertion then holds for all of these orders,
not just for those that happened to occur.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple

from headrace.drivers.runner import Probe, Sleep

Point = int | str
Act = Callable[[], Any]

PATIENCE = 30.0
POLL_SECONDS = 0.002


class Crash(BaseException):
    """The process ends here, as far as the operation can tell. Nothing catches this."""


class CrashAt:
    """A probe that ends the first operation that reaches ``point``."""

    def __init__(self, point: Point) -> None:
        self.point = point
        self.has_struck = False

    @property
    def is_after_commit(self) -> bool:
        """Whether the operation had taken effect when it was ended."""
        return self.has_struck and self.point == "committed"

    def __call__(self, operation: str, point: Point) -> None:
        if point == self.point and not self.has_struck:
            self.has_struck = True
            raise Crash(f"{operation} at {point}")


@contextmanager
def crashing(client: Any, point: Point) -> Iterator[CrashAt]:
    """Crash what ``client`` does inside the block; swallows the crash, not other errors.

    >>> with crashing(hr, "commit") as crash:
    ...     hr.commit("numbers", {"n": 1})
    >>> assert crash.has_struck
    """
    store = client._store
    before: Probe = store.probe
    store.probe = crash = CrashAt(point)
    try:
        yield crash
    except Crash:
        pass
    finally:
        store.probe = before


class Move(NamedTuple):
    """A session arrived at a point and waits there for the stepper."""

    session: str
    operation: str
    point: Point


class Session:
    """One thread that stops wherever ``stop`` is called, until a stepper releases it.

    ``of`` makes the operations of a client stop at each of their points. ``begins_early`` says that
    an operation touches the database before its first point, so that its start is a step as well.
    """

    def __init__(self, name: str, *, begins_early: bool = False) -> None:
        self.name = name
        self.begins_early = begins_early
        self.state: Literal["idle", "moving", "stopped", "waiting", "ended"] = "idle"
        self.result: Any = None
        self.error: BaseException | None = None
        self._stepper: Stepper | None = None
        self._thread: threading.Thread | None = None
        self._waits_since = 0

    @classmethod
    def of(cls, name: str, client: Any, *, begins_early: bool = False) -> Session:
        """A session that drives ``client``, which nothing else may use meanwhile."""
        session = cls(name, begins_early=begins_early)
        store = client._store
        perform = store.perform

        def at(operation: str, point: Point) -> None:
            # Nothing happens in the database between here and the next operation.
            if point != "committed":
                session.stop(operation, point)

        def act(action: Any) -> Any:
            if isinstance(action, Sleep) and session._is_mine():
                return session._arrive("waiting", Move(name, "sleep", "sleep"))
            return perform(action)

        store.probe = at
        store.perform = act
        return session

    def stop(self, operation: str, point: Point) -> None:
        """Wait for the stepper. Outside of a stepped run it does nothing."""
        if self._is_mine():
            self._arrive("stopped", Move(self.name, operation, point))

    def _is_mine(self) -> bool:
        return threading.current_thread() is self._thread

    def _arrive(self, state: Literal["stopped", "waiting"], move: Move) -> None:
        assert self._stepper is not None
        self._stepper._arrived(self, state, move)

    def _begin(self, stepper: Stepper, act: Act) -> None:
        self._stepper = stepper
        self.result = self.error = None
        self.state = "moving"

        def live() -> None:
            try:
                if self.begins_early:
                    self.stop("", "start")
                self.result = act()
            except BaseException as error:  # the test judges any error
                self.error = error
            finally:
                stepper._ended(self)

        self._thread = threading.Thread(target=live, name=self.name, daemon=True)
        self._thread.start()


class Run(NamedTuple):
    """One completed interleaving."""

    number: int
    results: list[Any]
    errors: list[BaseException | None]
    moves: list[Move]

    def begun(self, session: str) -> int:
        """How many operations the session started, including retries."""
        return sum(move.session == session and move.point == 0 for move in self.moves)

    def __str__(self) -> str:
        steps = " ".join(f"{move.session}:{move.operation}@{move.point}" for move in self.moves)
        return f"interleaving {self.number}: {steps}; {self.results} {self.errors}"


class Stepper:
    """Runs sessions in all interleavings of their steps, one step at a time.

    A session that waits for the lock of another one is skipped until it can move: ``blocked`` gets
    names of sessions and returns those that wait in the database. A session that sleeps before a
    retry continues once an operation of another session has ended.
    """

    def __init__(
        self,
        sessions: Sequence[Session],
        *,
        blocked: Callable[[Sequence[str]], Collection[str]] = lambda names: (),
    ) -> None:
        self.sessions = sessions
        self._blocked = blocked
        self._changed = threading.Condition()
        self._moves: list[Move] = []
        self._stuck: set[str] = set()
        self._endings = 0
        self._is_abandoned = False

    def interleavings(
        self, script: Callable[[int], Sequence[Act]], *, interruptions: int | None = None
    ) -> Iterator[Run]:
        """Every interleaving in turn. ``script(number)`` returns what each session does in it.

        Each one starts from nothing, so a script uses new names every time. ``interruptions``
        limits how often a session that could continue is stopped for another: few interruptions
        suffice for most races.
        """
        path = _Path(interruptions)
        for number in itertools.count():
            yield self._play(number, script(number), path)
            if not path.advance():
                return

    def _play(self, number: int, acts: Sequence[Act], path: _Path) -> Run:
        self._moves, self._stuck, self._endings, self._is_abandoned = [], set(), 0, False
        try:
            for session, act in zip(self.sessions, acts, strict=True):
                session._begin(self, act)
                self._settle()
            while any(session.state != "ended" for session in self.sessions):
                self._let_go(path.choose(self._ready()))
        finally:
            self._release_all()
        results = [session.result for session in self.sessions]
        return Run(number, results, [session.error for session in self.sessions], self._moves)

    def _ready(self) -> list[Session]:
        """The sessions that can move. Waits if the database still has to decide."""
        give_up = time.monotonic() + PATIENCE
        while True:
            ready = [session for session in self.sessions if self._can_move(session)]
            # No operation is left that could end, so the sleeping sessions are next.
            ready = ready or [session for session in self.sessions if session.state == "waiting"]
            if ready:
                return ready
            if time.monotonic() > give_up:
                raise TimeoutError(f"no session can move after {self._moves}")
            with self._changed:
                self._changed.wait(POLL_SECONDS)
            self._settle()

    def _can_move(self, session: Session) -> bool:
        if session.state == "waiting":
            return self._endings > session._waits_since
        return session.state == "stopped"

    def _let_go(self, session: Session) -> None:
        with self._changed:
            session.state = "moving"
            self._changed.notify_all()
        self._settle()

    def _settle(self) -> None:
        """Wait until each session has stopped, has ended, or waits for the lock of another one."""
        give_up = time.monotonic() + PATIENCE
        while True:
            with self._changed:
                self._changed.wait_for(lambda: set(self._moving()) <= self._stuck, POLL_SECONDS)
                moving = self._moving()
            self._stuck = set(self._blocked(moving)) if moving else set()
            if self._stuck.issuperset(moving):
                return
            if time.monotonic() > give_up:
                raise TimeoutError(f"{moving} neither stopped nor waited after {self._moves}")

    def _moving(self) -> list[str]:
        return [session.name for session in self.sessions if session.state == "moving"]

    def _arrived(self, session: Session, state: Literal["stopped", "waiting"], move: Move) -> None:
        with self._changed:
            if move.point == 0:
                self._endings += 1
            self._moves.append(move)
            session._waits_since = self._endings
            session.state = state
            self._changed.notify_all()
            self._changed.wait_for(lambda: session.state == "moving")
            if self._is_abandoned:
                raise Crash("the stepper gave up")

    def _ended(self, session: Session) -> None:
        with self._changed:
            self._endings += 1
            session.state = "ended"
            self._changed.notify_all()

    def _release_all(self) -> None:
        """Leave no thread behind, even after a failure."""
        with self._changed:
            self._is_abandoned = True
            for session in self.sessions:
                if session.state in ("stopped", "waiting"):
                    session.state = "moving"
            self._changed.notify_all()
        for session in self.sessions:
            if session._thread is not None:
                session._thread.join(PATIENCE)


class _Path:
    """The choices of one run after the other, depth first."""

    def __init__(self, interruptions: int | None) -> None:
        self._interruptions = interruptions
        self._choices: list[int] = []
        self._begin()

    def _begin(self) -> None:
        self._options: list[int] = []
        self._last: Session | None = None
        self._left = self._interruptions

    def choose(self, ready: list[Session]) -> Session:
        """The session that moves next: as decided before, or else the one that moved last, if it
        can."""
        could_go_on = self._last in ready
        if could_go_on:
            ready = sorted(ready, key=lambda session: session is not self._last)
            ready = ready[:1] if self._left == 0 else ready
        depth = len(self._options)
        if depth == len(self._choices):
            self._choices.append(0)
        self._options.append(len(ready))
        chosen = ready[min(self._choices[depth], len(ready) - 1)]
        if could_go_on and chosen is not self._last and self._left is not None:
            self._left -= 1
        self._last = chosen
        return chosen

    def advance(self) -> bool:
        """Decide differently at the last point where that is possible. False when all was tried."""
        del self._choices[len(self._options) :]
        while self._choices and self._choices[-1] + 1 >= self._options[len(self._choices) - 1]:
            self._choices.pop()
        if not self._choices:
            return False
        self._choices[-1] += 1
        self._begin()
        return True
