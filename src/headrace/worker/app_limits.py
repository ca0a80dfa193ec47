"""What an app declares about its queues: limits, and tasks that run one after another.

Its workers store it when they start. A rule's name begins with the app's own, so that one which
has left the app is found again.
"""

from __future__ import annotations

import contextlib
import logging
import re
import sys
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from headrace.contract.limits import RuleRow
from headrace.contract.missing_part import has_part
from headrace.contract.store import Store
from headrace.core.limits import GroupBy, rule_of
from headrace.errors import AccessError, HeadraceError, InvalidOption, LimitExists, UnsupportedStore
from headrace.model.failures import words_of
from headrace.model.fields import shown
from headrace.model.limits.rules import LimitRule, Subject
from headrace.model.times import Duration
from headrace.worker.tasks import Task

PAGE = 1000
_log = logging.getLogger("headrace.worker")


class DeclaredLimits:
    """The limits that an app declares. They are checked when they are declared."""

    def __init__(self, owner: str | None) -> None:
        if owner is not None and not (isinstance(owner, str) and owner):
            raise InvalidOption(f"name is {shown(owner)}: use text.", option="name")
        self._owner = owner
        # By the rule's own name; the app's is not known before its first task.
        self._rules: dict[str, tuple[GroupBy, int, dict[str, Any]]] = {}

    def add(
        self,
        group_by: GroupBy,
        limit: int,
        *,
        queue: str | None,
        on: Subject,
        per: Duration | None,
        name: str | None,
    ) -> None:
        """Declare one."""
        rule = rule_of(group_by, limit, queue=queue, on=on, per=per, name=name)
        known = _own_name(rule) if name is None else name
        if known in self._rules:
            raise InvalidOption(
                f"this app has a limit {shown(known)} already: give one of them another name=.",
                option="name",
            )
        self._rules[known] = (group_by, limit, {"queue": queue, "on": on, "per": per})

    def __bool__(self) -> bool:
        return bool(self._rules)

    def store(self, store: Store, tasks: Iterable[Task[..., Any]]) -> None:
        """Store them, and let the queues of serial tasks be serial. A repeat changes nothing."""
        mine = list(tasks)
        if self._rules and not has_part(store, "limits"):
            raise UnsupportedStore(
                f"the {store.name} store has no limits, and this app declares some.",
                part="limits",
            )
        owner = self._prefix(mine)
        serial = sorted({task.queue for task in mine if task.is_serial})
        if not self._rules and not serial:
            # Nothing has to be there before the workers claim: the store may even be away.
            args = (store, owner, set[str]())
            threading.Thread(
                target=_name_quietly, args=args, name="headrace-limits", daemon=True
            ).start()
            return
        try:
            for queue in serial:
                store.run(store.queues.create(queue, {"serial": True}, False))
            rules = list(self._named(owner))
            for rule in rules:
                _put(store, rule)
        except AccessError as error:
            # Behind a node that leaves its settings to others.
            _log.warning(
                "the limits of this app are not stored: %s",
                words_of(error),
                extra={"action": "limits.create"},
            )
            return
        _name_quietly(store, owner, {rule.id for rule in rules})

    def _named(self, owner: str) -> Iterator[LimitRule]:
        for name, (group_by, limit, about) in self._rules.items():
            yield rule_of(group_by, limit, name=f"{owner}-{name}", **about)

    def _prefix(self, tasks: list[Task[..., Any]]) -> str:
        """The app's name, in characters that a rule may have; '-' ends it."""
        name = self._owner or next((task.function.__module__ for task in tasks), "__main__")
        if name == "__main__":
            name = Path(sys.argv[0]).stem or "python"
        return _readable(name).replace("-", "_").lstrip("_") or "app"


def _put(store: Store, rule: LimitRule) -> None:
    """Make a rule, or give the one that is there its number."""
    try:
        store.run(store.limits.create([RuleRow.of(rule)]))
        return
    except LimitExists as error:
        found = store.run(store.limits.rule(error.same)).read()
        if found.id == rule.id and found.identity != rule.identity:
            raise InvalidOption(
                f"the limit {shown(rule.id)} is stored with another pattern, queue or period: "
                f"remove it with `headrace limit delete {rule.id}`, or give the new one another name=.",
                option="limit",
            ) from error
    if found.limit == rule.limit:
        return
    if found.id == rule.id:
        store.run(store.limits.change(found.id, None, rule.limit))
        return
    _log.warning(
        "limit %s is about the same as %s, which this app declares with %s: its own %s counts",
        found.id,
        rule.id,
        rule.limit,
        found.limit,
        extra={"action": "limits.create", "limit": found.id},
    )


def _name_quietly(store: Store, owner: str, declared: set[str]) -> None:
    """Name the limits that have left the app, if the store can say so now."""
    if has_part(store, "limits"):
        with contextlib.suppress(HeadraceError):
            _name_what_left(store, owner, declared)


def _name_what_left(store: Store, owner: str, declared: set[str]) -> None:
    after = ""
    while page := store.run(store.limits.list(after, PAGE)):
        after = page[-1].id
        for row in page:
            if row.id.startswith(f"{owner}-") and row.id not in declared:
                _log.warning(
                    "limit %s is no longer declared by this app and applies all the same: "
                    "`headrace limit delete %s` removes it",
                    row.id,
                    row.id,
                    extra={"action": "limits.create", "limit": row.id},
                )


def _own_name(rule: LimitRule) -> str:
    """A name made of what the rule is about."""
    parts = [
        key if value.text is None else f"{key}_{value.text}" for key, value in rule.pattern.items()
    ] or ["all"]
    parts += [rule.queue] if rule.queue else []
    parts += [rule.on] if rule.on != "running" else []
    parts += [f"per_{rule.period_ms}_ms"] if rule.period_ms else []
    return _readable(".".join(parts))


def _readable(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]", "_", name)
