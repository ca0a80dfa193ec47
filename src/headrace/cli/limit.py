"""``headrace limit``: limits on how many items run, wait, or start per period."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from headrace._sync.headrace import Headrace
from headrace.cli import output
from headrace.cli.command import CommandSession, command, group
from headrace.cli.completion import limit_names, queue_names
from headrace.cli.parse_query import (
    QueryOption,
    format_key_values,
    parse_pairs,
    parse_query,
)
from headrace.cli.prompts import YesOption, confirm
from headrace.cli.queue_lookup import queue_exists
from headrace.core.limits import GroupBy, Holding, LimitUsage, pattern_of
from headrace.errors import InvalidOption
from headrace.model.limits.rules import LimitRule, Subject
from headrace.model.query.key_values import KeyValues
from headrace.model.query.patterns import subjects_of
from headrace.model.query.typed_values import ANY, typed

ANY_VALUE = "*"
EVERYTHING = "(everything)"

app = group("Limit how many items run and wait.")

Name = Annotated[
    str, typer.Argument(metavar="RULE", help="The rule's name.", autocompletion=limit_names)
]
Limit = Annotated[
    int, typer.Option("--limit", "-n", help="How many items; 0 admits none, -1 is no limit.")
]
Values = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="KEY=VALUE...",
        help="Which channels; KEY=* is any value, each counted separately. Not with --all.",
    ),
]
Everything = Annotated[
    bool, typer.Option("--all", help="All items, in a channel or not, counted together.")
]
OneQueue = Annotated[
    str | None,
    typer.Option(
        "--queue",
        "-q",
        help="Only this queue; default: all together.",
        autocompletion=queue_names,
    ),
]
Enqueued = Annotated[
    bool, typer.Option("--enqueued", help="Count waiting and running items, not only running.")
]
Per = Annotated[
    str | None, typer.Option("--per", metavar="TIME", help="Limit the items per period, like 1m.")
]
OverrideName = Annotated[
    str | None, typer.Option("--override", help="The name of an override of the rule.")
]


@command(app)
def ls(
    session: CommandSession,
    *,
    where: Annotated[
        list[str] | None,
        typer.Option(
            "--where",
            "-w",
            metavar="KEY=VALUE",
            help="Only rules that apply to a channel with these key-values; may be repeated.",
        ),
    ] = None,
    query: QueryOption = None,
) -> None:
    """List rules with their overrides."""
    if where and query:
        raise InvalidOption("use --where or --query, not both.", option="where")
    with session.open() as hr:
        if where:
            rules = hr.limits.match(parse_pairs(where, "where"))
        else:
            rules = hr.limits.list(parse_query(None, query))
    if session.is_json:
        for rule in rules:
            output.json_line(_rule_to_dict(rule))
        return
    rows: list[list[Any]] = []
    for rule in rules:
        kind = _kind(rule)
        rows.append(
            [rule.id, rule.limit, kind, rule.queue or "(all)", _format_pattern(rule.pattern)]
        )
        rows += [
            [f"  {override.id}", override.limit, "", "", _format_pattern(override.pattern)]
            for override in rule.overrides
        ]
    output.table(["RULE", "LIMIT", "OF", "QUEUE", "GROUP BY"], rows)
    if not rules:
        output.note(f"there are no {'matching ' if where or query else ''}limits")


@command(app, "set")
def set_(
    session: CommandSession,
    values: Values = None,
    *,
    limit: Limit,
    name: Annotated[str | None, typer.Option("--name", help="A name for the rule.")] = None,
    everything: Everything = False,
    queue: OneQueue = None,
    enqueued: Enqueued = False,
    per: Per = None,
) -> None:
    """Create a rule, or change the limit of the rule for the same items."""
    group_by = _group_by(values, everything=everything)
    with session.open() as hr:
        rule = hr.limits.set(
            group_by, limit, queue=queue, on=_subject(enqueued=enqueued), per=per, name=name
        )
        _print_rule(session, rule)
        if queue is not None:
            _note_unmatched(hr, queue, group_by)


@command(app)
def override(
    session: CommandSession,
    rule: Name,
    values: Values = None,
    *,
    limit: Limit,
    name: Annotated[str | None, typer.Option("--name", help="A name for the override.")] = None,
) -> None:
    """Set another limit for some of the values that a rule applies to."""
    if not values:
        raise InvalidOption("give KEY=VALUE pairs: which values get this limit.", option="group_by")
    group_by = _group_by(values, everything=False)
    with session.open() as hr:
        changed = hr.limits.override(rule, group_by or {}, limit, name=name)
    _print_rule(session, changed)


@command(app)
def delete(
    session: CommandSession, rule: Name, *, override: OverrideName = None, yes: YesOption = False
) -> None:
    """Remove a rule with its overrides, or one override."""
    with session.open() as hr:
        existing = hr.limits.get(rule)
        name = f"override {override!r} of limit {rule!r}" if override else f"limit {rule!r}"
        overrides = 0 if override else len(existing.overrides)
        suffix = f" with {output.format_count(overrides, 'override')}" if overrides else ""
        confirm(
            f"{name}{suffix} will be removed, and the items it holds back may run",
            is_confirmed=yes,
        )
        removed = hr.limits.delete(rule, override=override)
    if session.is_json:
        output.json_document(_rule_to_dict(removed))
    output.note(f"removed {name}")


@command(app)
def simulate(
    session: CommandSession,
    values: Values = None,
    *,
    limit: Limit,
    everything: Everything = False,
    queue: OneQueue = None,
    enqueued: Enqueued = False,
    per: Per = None,
) -> None:
    """Show which waiting items a rule would hold back now, without changing anything."""
    group_by = _group_by(values, everything=everything)
    with session.open() as hr:
        trials = hr.limits.simulate(
            group_by, limit, queue=queue, on=_subject(enqueued=enqueued), per=per
        )
        if not trials and queue is not None:
            _note_unmatched(hr, queue, group_by)
        elif not trials:
            output.note("no channel of any queue matches now")
    if session.is_json:
        for trial in trials:
            output.json_line(
                {
                    "values": trial.values.described,
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
            [t.limit, t.active, t.waiting, t.held_back, _format_pattern(t.values)]
            for t in sorted(trials, key=lambda trial: -trial.held_back)
        ],
    )
    held = sum(trial.held_back for trial in trials)
    output.note(f"it would hold back {output.format_count(held, 'item')} of those that wait now")


@command(app)
def show(session: CommandSession, rule: Name) -> None:
    """Show a rule, its usage, and the items that use it."""
    with session.open() as hr:
        existing, usages = hr.limits.get(rule), hr.limits.usage(rule)
    if session.is_json:
        usage_dicts = [_usage_to_dict(usage) for usage in usages]
        output.json_document({**_rule_to_dict(existing), "usage": usage_dicts})
        return
    output.fields(
        [
            ("rule", existing.id),
            ("limit", existing.limit),
            ("of", _kind(existing)),
            ("queue", existing.queue or "(all)"),
            ("group by", _format_pattern(existing.pattern)),
            *(
                (f"override {o.id}", f"{o.limit} for {_format_pattern(o.pattern)}")
                for o in existing.overrides
            ),
        ]
    )
    output.table(
        ["USED", "LIMIT", "VALUES", "HOLDERS"],
        [
            [u.used, u.limit, _format_pattern(u.values), ", ".join(map(str, u.holders)) or None]
            for u in usages
        ],
    )


def _group_by(values: Sequence[str] | None, *, everything: bool) -> GroupBy:
    if bool(values) == everything:
        both = ", not both" if everything else ""
        raise InvalidOption(f"give KEY=VALUE pairs, or --all{both}.", option="all")
    if not values:
        return None
    pairs = parse_pairs(values, "group_by")
    for text in values:
        key, _, value = text.partition("=")
        if value == ANY_VALUE:
            pairs[key] = ANY
        elif pairs[key] == ANY_VALUE:
            pairs[key] = typed("string", ANY_VALUE)  # in quotes it is text
    return pairs


def _note_unmatched(hr: Headrace, queue: str, group_by: GroupBy) -> None:
    """Note what may be a mistyped queue or key. Both may also be for items to come."""
    if not queue_exists(hr, queue):
        output.note(f"there is no queue {queue!r} yet")
        return
    if group_by is None:
        return
    channels = hr.queue(queue).channels
    example = channels.list(limit=1)
    if example and not channels.list(subjects_of(pattern_of(group_by)), limit=1):
        keys = ", ".join(sorted(example[0].key_values.all))
        output.note(f"no channel of queue {queue!r} matches now; there is one with the keys {keys}")


def _subject(*, enqueued: bool) -> Subject:
    return "enqueued" if enqueued else "running"


def _kind(rule: LimitRule) -> str:
    return rule.on if rule.period_ms is None else f"running per {rule.period_ms / 1000:g} s"


def _format_pattern(pattern: KeyValues) -> str:
    return format_key_values(pattern) or EVERYTHING


def _print_rule(session: CommandSession, rule: LimitRule) -> None:
    if session.is_json:
        output.json_document(_rule_to_dict(rule))
        return
    output.note(
        f"limit {rule.id!r}: {rule.limit} {_kind(rule)} of {_format_pattern(rule.pattern)}"
        + (
            f", with {output.format_count(len(rule.overrides), 'override')}"
            if rule.overrides
            else ""
        )
    )


def _rule_to_dict(rule: LimitRule) -> dict[str, Any]:
    return {
        "rule": rule.id,
        "limit": rule.limit,
        "kind": rule.kind,
        "on": rule.on,
        "period": None if rule.period_ms is None else rule.period_ms / 1000,
        "queue": rule.queue,
        "group_by": rule.pattern.described,
        "overrides": [
            {"override": each.id, "limit": each.limit, "group_by": each.pattern.described}
            for each in rule.overrides
        ],
    }


def _usage_to_dict(usage: LimitUsage) -> dict[str, Any]:
    return {
        "override": usage.override,
        "values": usage.values.described,
        "limit": usage.limit,
        "used": usage.used,
        "free_at": usage.free_at,
        "holders": [_holder_to_dict(holder) for holder in usage.holders],
    }


def _holder_to_dict(holder: Holding) -> dict[str, Any]:
    return {
        "queue": holder.queue,
        "item": holder.id,
        "worker": holder.worker,
        "since": holder.since,
    }
