"""``headrace limit``: how much may run and wait at once, or in some time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from headrace.cli import output
from headrace.cli.asking import YesOption, ask
from headrace.cli.command import Session, command
from headrace.cli.selecting import QueryOption, WhereOption, pairs, selected, shown
from headrace.core.limits import GroupBy, Holding, LimitUsage
from headrace.errors import InvalidOption
from headrace.model.keyvalues import KeyValues
from headrace.model.limits import Rule, Subject
from headrace.model.typed import ANY

ANYTHING = "*"
NOTHING = "(everything)"

app = typer.Typer(help="Limit what runs and what waits.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="RULE", help="The rule's name.")]
Limit = Annotated[
    int, typer.Option("--limit", "-n", help="How many; 0 lets nothing through, -1 is no limit.")
]
Values = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="KEY=VALUE...",
        help="Which channels; KEY=* is any value, each counted apart. None with --all.",
    ),
]
Everything = Annotated[
    bool, typer.Option("--all", help="All items, in a channel or not, counted together.")
]
OneQueue = Annotated[
    str | None, typer.Option("--queue", "-q", help="Of one queue; otherwise of all together.")
]
Enqueued = Annotated[
    bool, typer.Option("--enqueued", help="Of what waits and runs, and not only what runs.")
]
Per = Annotated[
    str | None, typer.Option("--per", metavar="TIME", help="So many in each such time, as 1m.")
]
OverrideName = Annotated[
    str | None, typer.Option("--override", help="The name of an override of the rule.")
]


@command(app)
def ls(session: Session, *, where: WhereOption = None, query: QueryOption = None) -> None:
    """List rules with their overrides."""
    with session.open() as hr:
        rules = hr.limits(selected(where, query))
    if session.is_json:
        for rule in rules:
            output.json_line(_described(rule))
        return
    rows: list[list[Any]] = []
    for rule in rules:
        kind = _kind(rule)
        rows.append([rule.id, rule.limit, kind, rule.queue or "(all)", _pattern(rule.pattern)])
        rows += [
            [f"  {override.id}", override.limit, "", "", _pattern(override.pattern)]
            for override in rule.overrides
        ]
    output.table(["RULE", "LIMIT", "OF", "QUEUE", "GROUP BY"], rows)
    if not rules:
        output.note("there are no limits" + (" like that" if where or query else ""))


@command(app, "set")
def set_(
    session: Session,
    values: Values = None,
    *,
    limit: Limit,
    name: Annotated[str | None, typer.Option("--name", help="A name for the rule.")] = None,
    everything: Everything = False,
    queue: OneQueue = None,
    enqueued: Enqueued = False,
    per: Per = None,
) -> None:
    """Make a rule, or give the one that is about the same another number."""
    group_by = _group_by(values, everything=everything)
    with session.open() as hr:
        rule = hr.set_limit(
            group_by, limit, queue=queue, on=_subject(enqueued=enqueued), per=per, name=name
        )
    _tell(session, rule)


@command(app)
def override(
    session: Session,
    rule: Name,
    values: Values = None,
    *,
    limit: Limit,
    name: Annotated[str | None, typer.Option("--name", help="A name for the override.")] = None,
) -> None:
    """Give some of what a rule applies to another limit."""
    group_by = _group_by(values, everything=False)
    with session.open() as hr:
        changed = hr.override_limit(rule, group_by or {}, limit, name=name)
    _tell(session, changed)


@command(app)
def rm(
    session: Session, rule: Name, *, override: OverrideName = None, yes: YesOption = False
) -> None:
    """Remove a rule with its overrides, or one override."""
    with session.open() as hr:
        found = hr.limit(rule)
        what = f"override {override!r} of limit {rule!r}" if override else f"limit {rule!r}"
        others = 0 if override else len(found.overrides)
        rest = f" with {output.counted(others, 'override')}" if others else ""
        ask(f"{what}{rest} will be removed, and what it holds back runs", is_agreed=yes)
        removed = hr.delete_limit(rule, override=override)
    if session.is_json:
        output.document(_described(removed))
    output.note(f"removed {what}")


@command(app, "test")
def dry_run(
    session: Session,
    values: Values = None,
    *,
    limit: Limit,
    everything: Everything = False,
    queue: OneQueue = None,
    enqueued: Enqueued = False,
    per: Per = None,
) -> None:
    """Tell what a rule would mean for what waits and runs now; nothing is changed."""
    group_by = _group_by(values, everything=everything)
    with session.open() as hr:
        trials = hr.try_limit(group_by, limit, queue=queue, on=_subject(enqueued=enqueued), per=per)
    if session.is_json:
        for trial in trials:
            output.json_line(
                {
                    "values": trial.values.to_json(),
                    "limit": trial.limit,
                    "active": trial.active,
                    "waiting": trial.waiting,
                    "let_through": trial.let_through,
                    "held_back": trial.held_back,
                }
            )
        return
    output.table(
        ["LIMIT", "ACTIVE", "WAITING", "HELD BACK", "VALUES"],
        [
            [t.limit, t.active, t.waiting, t.held_back, _pattern(t.values)]
            for t in sorted(trials, key=lambda trial: -trial.held_back)
        ],
    )
    held = sum(trial.held_back for trial in trials)
    output.note(f"it would hold back {output.counted(held, 'item')} of what waits now")


@command(app)
def show(session: Session, rule: Name) -> None:
    """Show a rule, how much of it is used, and by whom."""
    with session.open() as hr:
        found, usages = hr.limit(rule), hr.limit_usage(rule)
    if session.is_json:
        output.document({**_described(found), "usage": [_used(usage) for usage in usages]})
        return
    output.fields(
        [
            ("rule", found.id),
            ("limit", found.limit),
            ("of", _kind(found)),
            ("queue", found.queue or "(all)"),
            ("group by", _pattern(found.pattern)),
            *(
                (f"override {o.id}", f"{o.limit} for {_pattern(o.pattern)}")
                for o in found.overrides
            ),
        ]
    )
    output.table(
        ["USED", "LIMIT", "VALUES", "HOLDERS"],
        [
            [u.used, u.limit, _pattern(u.values), ", ".join(map(str, u.holders)) or None]
            for u in usages
        ],
    )


def _group_by(values: Sequence[str] | None, *, everything: bool) -> GroupBy:
    if bool(values) == everything:
        raise InvalidOption("say which: KEY=VALUE pairs, or --all.", option="all")
    if not values:
        return None
    found = pairs(values, "group_by")
    return {key: ANY if value == ANYTHING else value for key, value in found.items()}


def _subject(*, enqueued: bool) -> Subject:
    return "enqueued" if enqueued else "running"


def _kind(rule: Rule) -> str:
    return rule.on if rule.period_ms is None else f"running per {rule.period_ms / 1000:g} s"


def _pattern(pattern: KeyValues) -> str:
    if not pattern:
        return NOTHING
    return " ".join(
        f"{key}={ANYTHING}" if value == ANY else shown(KeyValues({key: value}))
        for key, value in pattern.items()
    )


def _tell(session: Session, rule: Rule) -> None:
    if session.is_json:
        output.document(_described(rule))
        return
    output.note(
        f"limit {rule.id!r}: {rule.limit} {_kind(rule)} of {_pattern(rule.pattern)}"
        + (f", with {output.counted(len(rule.overrides), 'override')}" if rule.overrides else "")
    )


def _described(rule: Rule) -> dict[str, Any]:
    return {
        "rule": rule.id,
        "limit": rule.limit,
        "kind": rule.kind,
        "on": rule.on,
        "period": None if rule.period_ms is None else rule.period_ms / 1000,
        "queue": rule.queue,
        "group_by": rule.pattern.to_json(),
        "overrides": [
            {"override": each.id, "limit": each.limit, "group_by": each.pattern.to_json()}
            for each in rule.overrides
        ],
    }


def _used(usage: LimitUsage) -> dict[str, Any]:
    return {
        "override": usage.override,
        "values": usage.values.to_json(),
        "limit": usage.limit,
        "used": usage.used,
        "room_at": usage.room_at,
        "holders": [_holder(holder) for holder in usage.holders],
    }


def _holder(holder: Holding) -> dict[str, Any]:
    return {
        "queue": holder.queue,
        "item": holder.id,
        "worker": holder.worker,
        "since": holder.since,
    }
