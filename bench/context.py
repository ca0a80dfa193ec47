"""What the cases share: settings, bodies, the servers, and a private folder for files."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Self

from bench import bodies

Sample = Callable[[int], dict[str, float]]


class PeerMissing(RuntimeError):
    """A peer that cannot be had on this machine, and why."""


@dataclass(frozen=True)
class Settings:
    """How long, and how often; a plan's own settings say how large."""

    rounds: int = 7
    seconds: float = 0.7
    latencies: int = 1_050
    seed: int = 1


class Facts(NamedTuple):
    """What a figure stands on: each row of the table says it."""

    durability: str
    client: str
    server: str


@dataclass
class Contender:
    """Something that is measured once a round.

    ``sample`` takes the round's number and returns values by name. ``rounds`` limits how
    often, for what is slow and does not vary. ``note`` is asked for when all is done.
    """

    key: str
    title: str
    unit: str
    facts: Facts
    sample: Sample
    rounds: int | None = None
    note: Callable[[], str] = str


class Case(NamedTuple):
    """Contenders that are compared with each other, and so run next to each other."""

    name: str
    contenders: Callable[[Lab], Iterable[Contender]]


@dataclass
class Lab:
    """One run: starts peers when a case first asks for them, and stops them at the end.

    ``phase`` is where a contender leaves what is to be closed when its phase ends.
    """

    settings: Any  # the plan's own kind of Settings
    starters: dict[str, Callable[[Lab], AbstractContextManager[Any]]]
    folder: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="headrace-bench-")))
    missing: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._servers = ExitStack()
        self._servers.callback(shutil.rmtree, self.folder, ignore_errors=True)
        self.phase = ExitStack()
        self.bodies = bodies.pool()
        self._peers: dict[str, Any] = {}
        self._absent: dict[str, str] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.phase.close()
        self._servers.close()

    def end_phase(self) -> None:
        """Close what the phase's contenders have opened; servers go on."""
        self.phase.close()

    def peer(self, name: str) -> Any:
        """A running peer; ``PeerMissing`` if it cannot be had."""
        if name in self._absent:
            raise PeerMissing(self._absent[name])
        if name not in self._peers:
            try:
                self._peers[name] = self._servers.enter_context(self.starters[name](self))
            except PeerMissing as missing:
                self._absent[name] = str(missing)
                raise
        return self._peers[name]

    def offer(
        self, key: str, make: Callable[..., Contender], *peers: str, **options: Any
    ) -> Iterator[Contender]:
        """``make(lab, key, *peers, **options)`` if all peers are here; else say what is missing."""
        try:
            yield make(self, key, *(self.peer(name) for name in peers), **options)
        except PeerMissing as missing:
            self.missing[key] = str(missing)

    @contextmanager
    def subfolder(self, name: str) -> Iterator[Path]:
        """A folder that is gone afterwards."""
        folder = self.folder / name
        folder.mkdir()
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
