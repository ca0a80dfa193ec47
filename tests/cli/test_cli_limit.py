"""``headrace limit``."""

from collections.abc import Iterator

import pytest
from run_cli import Cli

import headrace
from headrace import ANY


@pytest.fixture
def hr(sqlite_url: str) -> Iterator[headrace.Headrace]:
    """Queue ``builds`` with three channels of two items each."""
    with headrace.connect(sqlite_url) as client:
        for os in ("linux", "mac", "big sur"):
            client.push_many("builds", [1, 2], channel={"os": os})
        yield client


def test_rules_are_created_changed_and_listed(cli: Cli, hr: headrace.Headrace) -> None:
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
    assert systems["overrides"][0]["group_by"] == {"os": "big sur"}
    assert [rule.id for rule in hr.limits.list()] == ["rate", "systems"]


def test_a_dry_run_of_a_rule(cli: Cli, hr: headrace.Headrace) -> None:
    answer = cli("limit", "simulate", "os=*", "--limit", "1")
    assert answer.err == "it would hold back 3 items of those that wait now\n"
    assert answer.out.split("\n")[0] == "LIMIT  ACTIVE  WAITING  HELD BACK  VALUES"
    found = cli("limit", "simulate", "os=mac", "--limit", "1", "--json").json_lines
    assert [(one["waiting"], one["held_back"]) for one in found] == [(2, 1)]
    assert hr.limits.list() == []


def test_the_holders_of_a_limit_are_shown(cli: Cli, hr: headrace.Headrace) -> None:
    hr.limits.create({"os": ANY}, 1, name="systems")
    [item] = hr.queue("builds").claim()
    out = cli("limit", "show", "systems").out
    assert f"   1      1  os=linux  item {item.id} of queue 'builds'" in out
    shown = cli("limit", "show", "systems", "--json").json
    assert [holder["item"] for use in shown["usage"] for holder in use["holders"]] == [item.id]


def test_rules_are_removed(cli: Cli, hr: headrace.Headrace) -> None:
    hr.limits.create({"os": ANY}, 1, name="systems")
    hr.limits.override("systems", {"os": "mac"}, 2, name="mac")
    assert cli("limit", "delete", "systems").code == 2
    assert cli("limit", "delete", "systems", "--override", "mac", "--yes").code == 0
    assert hr.limits.get("systems").overrides == ()
    assert cli("limit", "delete", "systems", "--yes").err.endswith("removed limit 'systems'\n")
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
    assert hr.limits.list() == []


def test_a_mistyped_queue_or_key_is_noted(cli: Cli, hr: headrace.Headrace) -> None:
    """Not refused: items to come may be in such a channel."""
    match = "no channel of queue 'builds' matches now; there is one with the keys os\n"
    for command in ("set", "simulate"):
        rule = ("limit", command, "--limit", "1", "--queue", "builds")
        assert match in cli(*rule, "ox=*").err
        assert match in cli(*rule, "os=amiga").err
        assert "no channel" not in cli(*rule, "os=*").err
        assert "no channel" not in cli(*rule, "--all").err
    answer = cli("limit", "set", "os=*", "--limit", "1", "--queue", "bilds", "--name", "x")
    assert (answer.code, answer.err) == (
        0,
        "limit 'x': 1 running of os=*\nthere is no queue 'bilds' yet\n",
    )


def test_a_rule_that_nothing_matches_is_noted(cli: Cli, hr: headrace.Headrace) -> None:
    answer = cli("limit", "simulate", "ox=*", "--limit", "1")
    assert answer.err.startswith("no channel of any queue matches now\n")
    assert "no channel" not in cli("limit", "simulate", "os=*", "--limit", "1").err


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["set", "-n", "3"], "give KEY=VALUE pairs, or --all."),
        (["set", "os=*", "--all", "-n", "3"], "give KEY=VALUE pairs, or --all, not both."),
        (["override", "one", "-n", "3"], "give KEY=VALUE pairs: which values get this limit."),
        (["set", "os=null", "-n", "3"], "group_by[os]: None has no type: use text or a number."),
        (["set", "os=*", "-n", "3", "--per", "x"], "per is 'x': use seconds, or words like '5m'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_mistakes_are_named_in_words_of_the_command(
    cli: Cli, hr: headrace.Headrace, args: list[str], message: str
) -> None:
    answer = cli("limit", *args)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith(f"headrace: {message}")


def test_a_star_in_quotes_is_text(cli: Cli, hr: headrace.Headrace) -> None:
    assert cli("limit", "set", 'os="*"', "-n", "1", "--name", "x").err.endswith('of os="*"\n')
    assert hr.limits.get("x").pattern.plain == {"os": "*"}
    assert cli("limit", "set", "os=*", "-n", "1", "--name", "y").err.endswith("of os=*\n")
    assert hr.limits.get("y").pattern.has_any


def test_values_are_printed_as_set_reads_them(cli: Cli) -> None:
    """By every command with ``--json``, including ``item why``."""
    for _ in range(2):
        assert cli("push", "q", "{}", "--channel", "site=shop", "--channel", "n=5").code == 0
    assert cli("limit", "set", "site=*", "n=5", "--limit", "1", "--name", "one").code == 0
    assert cli("limit", "show", "one", "--json").json["group_by"] == {"n": 5, "site": "*"}
    found = cli("item", "why", "q", "2", "--json")
    assert (found.code, found.err) == (0, "")
    shown = cli("limit", "ls", "--json").json_lines[0]["group_by"]
    again = cli("limit", "set", *(f"{k}={v}" for k, v in shown.items()), "--limit", "2")
    assert again.code == 0
    assert cli("limit", "show", "one", "--json").json["limit"] == 2
