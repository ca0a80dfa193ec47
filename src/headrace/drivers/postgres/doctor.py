"""Checks of a PostgreSQL server: what makes it unsafe, and what slows it down."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

from headrace.contract import diagnosis
from headrace.contract.diagnosis import duration
from headrace.contract.op import Steps
from headrace.contract.values import Fact, Finding
from headrace.drivers.postgres.functions import FunctionSet, is_newer, release
from headrace.drivers.sql_common.migrations import Expected, absent
from headrace.drivers.sql_common.statements import Row, Statement, Statements

# People and the tokens of other systems tolerate about this much.
CLOCK_SECONDS = 1.0
# Long enough for any reasonable transaction.
OPEN_SECONDS = 60.0
# Autovacuum is set to start at a thousand; ten times that means it cannot keep up.
DEAD_ROWS = 10_000

# (first version, first version with the fix, what can happen)
_BUGS = (
    (
        14_00_00,
        14_00_04,
        "create index concurrently and reindex concurrently can leave a corrupt index",
    ),
)


class Handshake(NamedTuple):
    """Asks for the process number that the server sent when the connection was made."""


class PostgresSite(NamedTuple):
    """What the store knows without asking the server."""

    place: str
    schema: str
    newest: int
    is_safe: bool
    now: int | None
    expected: Expected
    functions: FunctionSet


def examine(site: PostgresSite, sql: Statements) -> Steps[list[Finding]]:
    """Ask the server, in a few round trips, and judge the answers."""
    named_pid = yield Handshake()
    asked = time.time()
    [server] = yield sql.server()
    answered = time.time()
    where = f"schema {site.schema!r}"
    [backend], open_ones, tables = yield (
        sql.backend(),
        sql.oldest_transaction(),
        sql.tables(schema=site.schema),
    )
    names = [f"{site.schema}.{row['name']}" for row in tables]
    missing = yield from absent(site.expected, names)
    if missing:
        # The tables are missing: nothing else can be asked.
        return [engine(server, site.place), role(server), diagnosis.missing(missing, where)]
    recorded = Statement("function_set", site.functions.recorded(), {})
    [version], found = yield sql.version(), recorded
    installed = functions(found, site.functions)
    # A statement that calls a function fails if functions are missing.
    furthest = (yield sql.furthest_topic(now=site.now)) if installed.verdict != "fail" else []
    topic, ahead = (furthest[0]["name"], furthest[0]["ahead"]) if furthest else (None, 0)
    return [
        engine(server, site.place),
        role(server),
        durability(server, is_safe=site.is_safe),
        clock(server["now"] / 1000, asked, answered),
        pooling(named_pid, server["pid"], backend["pid"]),
        transactions(open_ones, sees_all=server["sees_all"]),
        dead_rows(tables, autovacuum=server["autovacuum"]),
        diagnosis.tables(version["version"], site.newest, where),
        installed,
        diagnosis.dated(topic, ahead),
        diagnosis.size({row["name"]: row["bytes"] for row in tables}),
    ]


def engine(server: Row, place: str) -> Finding:
    """The version, and its serious bugs."""
    # The server's own text may contain the packager's name, too.
    version = f"{server['number'] // 10_000}.{server['number'] % 10_000}"
    found = f"PostgreSQL {version} at {place}"
    facts: dict[str, Fact] = {"engine": "postgresql", "version": version}
    for since, fixed, what in _BUGS:
        if since <= server["number"] < fixed:
            return Finding(
                check="engine",
                verdict="warn",
                found=f"{found}: {what}",
                next_step=f"update to {fixed // 10_000}.{fixed % 10_000} or newer, then reindex "
                "what was made concurrently",
                facts=facts,
            )
    return Finding(check="engine", verdict="ok", found=found, facts=facts)


def role(server: Row) -> Finding:
    """Whether it accepts writes."""
    facts: dict[str, Fact] = {"is_replica": server["is_replica"]}
    if not server["is_replica"]:
        return Finding(check="role", verdict="ok", found="a primary", facts=facts)
    return Finding(
        check="role",
        verdict="fail",
        found="a replica: it can be read, and every commit and claim is refused",
        next_step="put the primary's host into the URL",
        facts=facts,
    )


def durability(server: Row, *, is_safe: bool) -> Finding:
    """Whether acknowledged writes are durable."""
    names = ("synchronous_commit", "fsync", "full_page_writes")
    facts: dict[str, Fact] = {name: server[name] for name in names}
    facts["durability"] = "safe" if is_safe else "relaxed"
    settings = ", ".join(f"{name}={server[name]}" for name in names)
    bad = [name for name in ("fsync", "full_page_writes") if server[name] == "off"]
    if bad:
        return Finding(
            check="durability",
            verdict="fail",
            found=f"{settings}: a power cut can lose what was acknowledged, or the database",
            next_step=f"set {' and '.join(f'{name} = on' for name in bad)} in postgresql.conf",
            facts=facts,
        )
    if not is_safe:
        text = "relaxed: a crash of the server may take the last moments"
    elif server["synchronous_commit"] == "off":
        text = "safe: Headrace waits for the flush, although the server's default is not to"
    else:
        text = "safe: what is acknowledged is on disk"
    return Finding(check="durability", verdict="ok", found=f"{text} ({settings})", facts=facts)


def clock(theirs: float, asked: float, answered: float) -> Finding:
    """The difference between the clocks; all times in seconds since 1970."""
    ahead = theirs - (asked + answered) / 2
    error = (answered - asked) / 2
    side = "ahead of" if ahead > 0 else "behind"
    facts: dict[str, Fact] = {"ahead_seconds": round(ahead, 6), "error_seconds": round(error, 6)}
    found = f"the database's clock is {duration(abs(ahead))} {side} this machine's"
    if abs(ahead) - error <= CLOCK_SECONDS:
        return Finding(check="clock", verdict="ok", found=found, facts=facts)
    return Finding(
        check="clock",
        verdict="warn",
        found=f"{found}; records and claims go by the database's",
        next_step="let both keep time by NTP",
        facts=facts,
    )


def pooling(named_pid: int, first_pid: int, second_pid: int) -> Finding:
    """A pooler sends a process number of its own, or answers from changing processes."""
    if named_pid == first_pid == second_pid:
        return Finding(
            check="pooling", verdict="ok", found="a direct connection", facts={"is_pooled": False}
        )
    return Finding(
        check="pooling",
        verdict="ok",
        found="through a pooler; transaction mode is fine, Headrace keeps nothing in a session",
        facts={"is_pooled": True},
    )


def functions(recorded: Sequence[Row], ours: FunctionSet) -> Finding:
    """Whether the functions are those that a release of Headrace installed, and which release."""
    if not recorded or recorded[0]["present"] != recorded[0]["installed"]:
        return Finding(
            check="functions",
            verdict="fail",
            found="some were changed or dropped since Headrace installed them",
            next_step="run headrace migrate",
        )
    [row] = recorded
    facts: dict[str, Fact] = {"release": row["release"]}
    found = f"those of Headrace {row['release']}"
    if row["digest"] == ours.digest:
        return Finding(check="functions", verdict="ok", found=found, facts=facts)
    if is_newer(row["release"]):
        found = f"{found}, newer than this one ({release()})"
        return Finding(check="functions", verdict="ok", found=found, facts=facts)
    return Finding(
        check="functions",
        verdict="warn",
        found=f"{found}; this one ({release()}) has others",
        next_step="run headrace migrate",
        facts=facts,
    )


def transactions(rows: Sequence[Row], *, sees_all: bool) -> Finding:
    """The oldest open transaction: until it ends, dead rows pile up in hot tables."""
    blind = "" if sees_all else " (other users' are hidden: grant pg_read_all_stats to see them)"
    if not rows:
        return Finding(check="transactions", verdict="ok", found=f"none is open{blind}")
    row = rows[0]
    is_session = row["kind"] == "session"
    name = f"pid {row['pid']}" if is_session else f"prepared transaction {row['gid']!r}"
    who = " ".join(filter(None, [row["user_name"], row["application"], row["state"]]))
    found = f"the oldest is open for {duration(row['seconds'])}: {name} ({who}){blind}"
    facts: dict[str, Fact] = {
        "pid": row["pid"],
        "gid": row["gid"],
        "seconds": round(row["seconds"], 3),
        "state": row["state"],
    }
    if row["seconds"] < OPEN_SECONDS:
        return Finding(check="transactions", verdict="ok", found=found, facts=facts)
    remedy = f"select pg_terminate_backend({row['pid']})" if is_session else "rollback prepared"
    return Finding(
        check="transactions",
        verdict="warn",
        found=f"{found}; commits slow down while it lasts",
        next_step=f"end it where it was begun, or by: {remedy}",
        facts=facts,
    )


def dead_rows(tables: Sequence[Row], *, autovacuum: str) -> Finding:
    """Whether vacuum keeps up with Headrace's tables."""
    facts: dict[str, Fact] = {row["name"]: row["dead"] for row in tables}
    worst = max(tables, key=lambda row: int(row["dead"]))
    found = f"{sum(row['dead'] for row in tables)}, most of them in {worst['name']}"
    if worst["dead"] == 0:
        found = "none that the statistics know of"
    is_behind = worst["dead"] > DEAD_ROWS and worst["dead"] > worst["live"] / 2
    if autovacuum != "off" and not is_behind:
        return Finding(check="dead_rows", verdict="ok", found=found, facts=facts)
    if autovacuum == "off":
        found, next_step = f"{found}; autovacuum is off", "set autovacuum = on"
    else:
        next_step = "end old transactions and let autovacuum work more often"
    return Finding(check="dead_rows", verdict="warn", found=found, next_step=next_step, facts=facts)
