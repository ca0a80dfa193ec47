"""Schedules in the background: each client that has workers fires those that are due.

Those that an app declares are stored first, when its workers start.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Any

from msgspec.structs import replace

from headrace.contract.missing_part import has_part
from headrace.contract.schedules import SCHEDULES_CHANGED
from headrace.contract.store import Store
from headrace.core.schedules import ScheduleOptions, define, warn
from headrace.errors import AccessError, InvalidOption, UnsupportedStore
from headrace.model.codec import DEFAULT_MAX_BODY
from headrace.model.failures import words_of
from headrace.model.fields import shown
from headrace.model.names import writable_schedule
from headrace.model.schedules.schedule import ScheduleDefinition
from headrace.services.loop import Loop
from headrace.services.schedule_fires import ScheduleFiring
from headrace.services.watch import Watch
from headrace.worker import registry

RETRY_SECONDS = 1.0
PAGE = 1000
_ACTIONS = {"push", "upsert", "commit", "pause", "resume"}
_log = logging.getLogger("headrace.schedules")


class DeclaredSchedules:
    """The schedules that an app declares, by name. They are checked when they are declared."""

    def __init__(self, owner: str | None) -> None:
        if owner is not None and not (isinstance(owner, str) and owner):
            raise InvalidOption(f"name is {shown(owner)}: use text.", option="name")
        self._owner = owner
        self._module: str | None = None
        self.definitions: dict[str, ScheduleDefinition] = {}

    @property
    def owner(self) -> str:
        """The app's own name."""
        return self._owner or self._module or _main_module()

    def note_module(self, function: Callable[..., Any]) -> None:
        """The module of the first task names an app that has no name of its own."""
        module = getattr(function, "__module__", None)
        if self._module is None and isinstance(module, str):
            self._module = _main_module() if module == "__main__" else module

    def add(self, name: str, options: ScheduleOptions) -> None:
        """Declare one."""
        if writable_schedule(name) in self.definitions:
            raise InvalidOption(
                f"this app has a schedule {shown(name)} already: give one of them another name.",
                option="name",
            )
        definition = define(options, max_body=DEFAULT_MAX_BODY)
        warn(definition)
        self.definitions[name] = definition

    def store(self, client: Any) -> None:
        """Let the workers of a client store them."""
        store = client._store  # noqa: SLF001  # workers are part of their client
        if self.definitions and not has_part(store, "schedules"):
            raise UnsupportedStore(
                f"the {store.name} store has no schedules, and this app declares some.",
                part="schedules",
            )
        registry.of(client, store).declare(self)


def timing_options(schedule: str | ScheduleOptions) -> ScheduleOptions:
    """The options of a task's schedule: a cron expression, or a mapping of all but the action."""
    if isinstance(schedule, str):
        return {"cron": schedule}
    if isinstance(schedule, Mapping) and not schedule.keys() & _ACTIONS:
        return schedule
    raise InvalidOption(
        f"schedule is {shown(schedule)}: use a cron expression, or options like "
        "{'every': '10m'}; the task is what it pushes.",
        option="schedule",
    )


def _main_module() -> str:
    return Path(sys.argv[0]).stem or "python"


class ScheduleService:
    """Fires due schedules in a thread of its own, and stores those that apps declare."""

    def __init__(self, store: Store, on_error: Callable[[Exception], None] | None = None) -> None:
        self._store = store
        self._on_error = on_error
        self._firing = ScheduleFiring(store)
        self._declared: list[DeclaredSchedules] = []
        self._is_begun = False
        # Whether the store is behind a node that lets this client fire nothing.
        self._is_left_to_node = False
        self._loop = Loop("headrace-schedules", self._step, on_error=self._failed)
        self._watch = Watch(store, SCHEDULES_CHANGED, self._loop.poke, "headrace-schedule-watch")

    @property
    def firings(self) -> int:
        """How many due times it has fired."""
        return self._firing.firings

    def start(self) -> None:
        """Begin. A store without schedules has nothing to fire."""
        if has_part(self._store, "schedules"):
            self._is_begun = True
            self._loop.start()
            self._watch.start()

    def declare(self, declared: DeclaredSchedules) -> None:
        """Store the schedules of an app, as soon as the store is there."""
        if self._is_begun:
            self._declared.append(declared)
            self._loop.start()

    def end(self) -> None:
        """Begin no further operation."""
        self._is_begun = False
        self._loop.end()
        self._watch.end()

    def join(self, timeout: float) -> None:
        """Wait until the operation under way has ended."""
        over = monotonic() + timeout
        self._loop.join(timeout)
        self._watch.join(max(over - monotonic(), 0.0))

    def _step(self) -> float | None:
        while self._declared:
            self._apply(self._declared[0])
            del self._declared[0]
        if self._is_left_to_node:
            return None
        try:
            return monotonic() + self._firing.fire()
        except AccessError as error:
            # The node fires them itself.
            _log.debug("schedules are left to the node: %s", words_of(error))
            self._is_left_to_node = True
            self._watch.end()
            return None

    def _failed(self, error: Exception) -> float:
        if self._on_error is not None:
            self._on_error(error)
        else:
            _log.warning("schedules: %s", words_of(error), extra={"action": "schedules.fire"})
        return monotonic() + RETRY_SECONDS

    def _apply(self, declared: DeclaredSchedules) -> None:
        """Store what an app declares; name what it no longer does, and leave that alone."""
        try:
            for name, definition in declared.definitions.items():
                owned = replace(definition, owner=declared.owner)
                self._store.run(self._store.schedules.add(name, owned, True))
        except AccessError as error:
            _log.warning("the schedules of %s are not stored: %s", declared.owner, words_of(error))
            return
        with suppress(AccessError):
            for name in self._left(declared):
                _log.warning(
                    "schedule %s is no longer declared by %s and fires all the same: "
                    "`headrace schedule rm %s` removes it",
                    name,
                    declared.owner,
                    name,
                    extra={"action": "schedules.add", "schedule": name},
                )

    def _left(self, declared: DeclaredSchedules) -> list[str]:
        after, found = "", list[str]()
        while True:
            page = self._store.run(self._store.schedules.list("", after, PAGE))
            found += [
                schedule.name
                for schedule in page
                if schedule.definition.owner == declared.owner
                and schedule.name not in declared.definitions
                and schedule.state != "ended"
            ]
            if len(page) < PAGE:
                return found
            after = page[-1].name
