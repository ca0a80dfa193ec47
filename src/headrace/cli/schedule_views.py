"""How commands show schedules."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from headrace.cli import output
from headrace.core.schedules import ScheduleInfo


def to_dict(info: ScheduleInfo) -> dict[str, Any]:
    """A schedule for programs."""
    return msgspec.structs.asdict(info)


def print_schedules(found: Sequence[ScheduleInfo], *, is_json: bool) -> None:
    """Print schedules, one per line."""
    if is_json:
        for info in found:
            output.json_line(to_dict(info))
        return
    output.table(
        ["NAME", "STATE", "WHEN", "ZONE", "ACTION", "NEXT", "FIRES", "SKIPPED", "ERROR"],
        [
            [
                info.name,
                info.state,
                when(info),
                info.zone,
                info.action,
                info.next,
                info.fires,
                _skips(info),
                info.error,
            ]
            for info in found
        ],
    )
    if not found:
        output.note("there are no schedules")


def print_schedule(info: ScheduleInfo, *, is_json: bool) -> None:
    """Print one schedule, field by field."""
    if is_json:
        output.json_document(to_dict(info))
        return
    skipped = msgspec.structs.asdict(info.skipped)
    output.fields(
        [
            ("name", info.name),
            ("state", info.state),
            ("when", when(info)),
            ("zone", info.zone),
            ("action", info.action),
            ("overlap", info.overlap),
            ("misfire", info.misfire),
            ("spread", f"{info.spread:g} s" if info.spread else None),
            ("starts", info.starts_at),
            ("ends", info.ends_at),
            ("max fires", info.max_fires),
            ("next", _both(info.next)),
            ("previous", _both(info.previous)),
            ("fires", info.fires),
            ("skipped", ", ".join(f"{count} {name}" for name, count in skipped.items() if count)),
            ("error", info.error),
            ("app", info.owner),
            ("created", info.created),
        ]
    )


def print_coming(times: Sequence[datetime], *, is_json: bool) -> None:
    """Print moments as the schedule's clocks show them, and in UTC."""
    if is_json:
        for moment in times:
            output.json_line({"local": moment, "utc": moment.astimezone(UTC)})
        return
    output.table(["LOCAL", "UTC"], [[_local(moment), moment] for moment in times])


def when(info: ScheduleInfo) -> str:
    """When a schedule is due, in one word or two."""
    if info.cron is not None:
        return info.cron
    if info.every is not None:
        return f"every {info.every:g} s"
    return f"at {output.format_value(info.at)}"


def _local(moment: datetime) -> str:
    return moment.strftime("%a %Y-%m-%d %H:%M:%S %Z")


def _both(moment: datetime | None) -> str | None:
    if moment is None:
        return None
    return f"{output.format_value(moment)} ({_local(moment)})"


def _skips(info: ScheduleInfo) -> int:
    counts = msgspec.structs.astuple(info.skipped)
    return sum(counts)
