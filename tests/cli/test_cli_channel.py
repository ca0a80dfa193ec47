"""``headrace channel``, and channels of ``push``."""

from collections.abc import Iterator

import pytest
from run_cli import Cli

import headrace
from headrace import where
from headrace.errors import ItemGone


@pytest.fixture
def hr(sqlite_url: str) -> Iterator[headrace.Headrace]:
    """Queue ``builds`` with three channels, one of them with an item in flight."""
    with headrace.connect(sqlite_url) as client:
        client.push_many("builds", [1, 2], channel={"os": "linux", "tries": 3})
        client.push("builds", 3, channel={"os": "mac", "tries": "3"})
        client.push("builds", 4, channel={"os": "big sur"})
        yield client


def test_channels_are_listed(cli: Cli, hr: headrace.Headrace) -> None:
    hr.queue("builds").claim(select=where(os="linux"))
    answer = cli("channel", "ls", "builds")
    assert answer.out.split("\n") == [
        "WAITING  ACTIVE  DELAYED UNTIL  CHANNEL",
        '      1       0  -              os="big sur"',
        "      1       1  -              os=linux tries=3",
        '      1       0  -              os=mac tries="3"',
        "",
    ]
    found = cli("channel", "ls", "builds", "--where", "tries__gt=2", "--json").json_lines
    [linux] = found
    assert (linux["waiting"], linux["active"]) == (1, 1)
    assert linux["key_values"]["tries"] == 3


def test_printed_key_values_can_be_passed_back(cli: Cli, hr: headrace.Headrace) -> None:
    """Quotes distinguish text from numbers."""
    assert hr
    for given, waiting in (('tries="3"', 1), ("tries=3", 0)):
        answer = cli("channel", "show", "builds", "os=mac", given, "--json")
        assert (answer.code, answer.json["waiting"]) == (0, waiting)
    answer = cli("channel", "show", "builds", "os=big sur")
    assert "types          os is string" in answer.out


def test_a_delayed_channel_is_listed(cli: Cli, hr: headrace.Headrace) -> None:
    """With the end of its delay."""
    hr.queue("builds").channels.delay({"os": "big sur"}, at="2050-01-31T12:00:00Z")
    answer = cli("channel", "show", "builds", "os=big sur")
    assert "delayed until  2050-01-31T12:00:00.000Z" in answer.out
    found = cli("channel", "ls", "builds", "--json").json_lines
    assert [one["delayed_until"] for one in found] == ["2050-01-31T12:00:00Z", None, None]


def test_a_channel_is_delayed_and_resumed(cli: Cli, hr: headrace.Headrace) -> None:
    name = ("builds", "os=big sur")
    answer = cli("channel", "delay", *name, "--at", "2050-01-31T12:00:00Z", "--json")
    assert (answer.code, answer.json["delayed_until"]) == (0, "2050-01-31T12:00:00Z")
    answer = cli("channel", "delay", *name, "--delay", "5m")
    assert answer.err.endswith("is delayed until 2050-01-31T12:00:00.000Z\n")
    assert hr.queue("builds").claim(select=where(os="big sur")) == []
    answer = cli("channel", "resume", *name)
    assert "was delayed until 2050-01-31T12:00:00.000Z; it is not delayed now" in answer.err
    assert len(hr.queue("builds").claim(select=where(os="big sur"))) == 1
    assert "was not delayed" in cli("channel", "resume", *name, "--json").err


@pytest.mark.parametrize(
    "options", [(), ("--delay", "5m", "--at", "2050-01-31T12:00Z"), ("--delay", "soon")]
)
def test_a_duration_is_required(cli: Cli, hr: headrace.Headrace, options: tuple[str, ...]) -> None:
    answer = cli("channel", "delay", "builds", "os=mac", *options)
    assert (answer.code, answer.err.count("\n")) == (2, 1)
    assert hr.queue("builds").channels.get({"os": "mac"}).delayed_until is None
    assert cli("channel", "resume", "none", "os=mac").code == 3


def test_a_query_in_willows_json(cli: Cli, hr: headrace.Headrace) -> None:
    assert hr
    found = cli("channel", "ls", "builds", "--query", where(os="mac").form, "--json").json_lines
    assert [one["key_values"]["os"] for one in found] == ["mac"]
    answer = cli("channel", "ls", "builds", "--query", '{"Selectoin": {}}')
    assert (answer.code, "Selectoin" in answer.err) == (2, True)


def test_no_channels(cli: Cli, hr: headrace.Headrace) -> None:
    hr.push("plain", 1)
    answer = cli("channel", "ls", "plain")
    assert (answer.code, answer.out, answer.err) == (0, "", "queue 'plain' has no channels\n")
    assert "unknown" not in cli("channel", "ls", "builds", "-w", "os=bsd").err
    assert cli("channel", "ls", "none").code == 3


def test_channels_are_deleted(cli: Cli, hr: headrace.Headrace) -> None:
    """With their items in flight, after a warning."""
    [item] = hr.queue("builds").claim(select=where(os="linux"))
    answer = cli("channel", "delete", "builds", "--where", "os=linux")
    assert (answer.code, "1 in flight" in answer.err) == (2, True)
    answer = cli("channel", "delete", "builds", "--where", "os=linux", "--yes", "--json")
    assert answer.json == {"channels": 1, "items": 2}
    with pytest.raises(ItemGone):
        item.complete()
    assert cli("channel", "delete", "builds", "--all", "--yes").code == 0
    assert hr.queue("builds").channels.list() == []


@pytest.mark.parametrize("which", [(), ("--all", "--where", "os=linux")])
def test_a_selection_is_required(cli: Cli, hr: headrace.Headrace, which: tuple[str, ...]) -> None:
    answer = cli("channel", "delete", "builds", "--yes", *which)
    assert answer.code == 2
    assert len(hr.queue("builds").channels.list()) == 3


@pytest.mark.parametrize("pair", ["os", "=linux", "_os=1", "os=null"])
def test_a_wrong_key_value_is_named(cli: Cli, hr: headrace.Headrace, pair: str) -> None:
    assert hr
    answer = cli("channel", "show", "builds", pair)
    assert answer.code == 2
    assert answer.err.count("\n") == 1


def test_push_to_a_channel(cli: Cli, hr: headrace.Headrace) -> None:
    answer = cli("push", "builds", "5", "--channel", "os=bsd", "--channel", "tries=1")
    assert answer.code == 0
    assert hr.queue("builds").channels.get({"os": "bsd", "tries": 1}).waiting == 1
