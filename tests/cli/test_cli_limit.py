"""``headrace limit``."""

from collections.abc import Iterator

import pytest
from calling import Cli

import headrace
from headrace import ANY


@pytest.fixture
def hr(sqlite_url: str) -> Iterator[headrace.Headrace]:
    """Queue ``builds`` with three channels of two items each."""
    with headrace.connect(sqlite_url) as client:
        for os in ("linux", "mac", "big sur"):
            client.push_many("builds", [1, 2], channel={"os": os})
        yield client


def test_rules_are_made_changed_and_listed(cli: Cli, hr: headrace.Headrace) -> None:
    assert cli("limit", "set", "os=*", "--limit", "1", "--name", "systems").code == 0
    assert cli("limit", "set", "os=*", "-n", "2").err == "limit 'systems': 2 running of os=*\n"
    cli("limit", "override", "systems", "os=big sur", "-n", "-1", "--name", "free")
    cli("limit", "set", "--all", "-n", "9", "--queue", "builds", "--per", "1m", "--name", "rate")
    assert cli("limit", "ls").out.split("\n") == [
        "RULE     LIMIT  OF                QUEUE   GROUP BY",
        "rate         9  running per 60 s  builds  (everything)",
        "systems      2  running           (all)   os=*",
        '  free      -1  -                 -       os="big sur"',
        "",
    ]
    [rate, systems] = cli("limit", "ls", "--json").json_lines
    assert (rate["kind"], rate["period"], rate["queue"], rate["group_by"]) == (
        *("rate", 60, "builds"),
        {},
    )
    assert systems["overrides"][0]["group_by"] == {"os": {"Type": 13, "Data": "big sur"}}
    assert [rule.id for rule in hr.limits()] == ["rate", "systems"]


def test_a_rule_is_tried_before_it_is_made(cli: Cli, hr: headrace.Headrace) -> None:
    answer = cli("limit", "test", "os=*", "--limit", "1")
    assert answer.err == "it would hold back 3 items of what waits now\n"
    assert answer.out.split("\n")[0] == "LIMIT  ACTIVE  WAITING  HELD BACK  VALUES"
    found = cli("limit", "test", "os=mac", "--limit", "1", "--json").json_lines
    assert [(one["waiting"], one["held_back"]) for one in found] == [(2, 1)]
    assert hr.limits() == []


def test_who_uses_it_is_shown(cli: Cli, hr: headrace.Headrace) -> None:
    hr.create_limit({"os": ANY}, 1, name="systems")
    [item] = hr.queue("builds").claim()
    out = cli("limit", "show", "systems").out
    assert f"   1      1  os=linux  item {item.id} of queue 'builds'" in out
    shown = cli("limit", "show", "systems", "--json").json
    assert [holder["item"] for use in shown["usage"] for holder in use["holders"]] == [item.id]


def test_rules_are_removed(cli: Cli, hr: headrace.Headrace) -> None:
    hr.create_limit({"os": ANY}, 1, name="systems")
    hr.override_limit("systems", {"os": "mac"}, 2, name="mac")
    assert cli("limit", "rm", "systems").code == 2
    assert cli("limit", "rm", "systems", "--override", "mac", "--yes").code == 0
    assert hr.limit("systems").overrides == ()
    assert cli("limit", "rm", "systems", "--yes").err.endswith("removed limit 'systems'\n")
    assert cli("limit", "show", "systems").code == 3


@pytest.mark.parametrize(
    "given",
    [
        ("os=*",),
        ("--limit", "1"),
        ("os=*", "--all", "--limit", "1"),
        ("os", "--limit", "1"),
        ("os=*", "--limit", "-2"),
        ("_os=1", "--limit", "1"),
        ("os=*", "--limit", "1", "--per", "0s"),
        ("os=*", "--limit", "1", "--per", "1m", "--enqueued"),
    ],
    ids=" ".join,
)
def test_mistakes_are_named(cli: Cli, hr: headrace.Headrace, given: tuple[str, ...]) -> None:
    answer = cli("limit", "set", *given)
    assert (answer.code, answer.out) == (2, "")
    assert "Traceback" not in answer.err
    assert hr.limits() == []
