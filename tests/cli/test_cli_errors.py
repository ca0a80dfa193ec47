"""Errors name the next step as a command, not as a call in Python."""

import re

import pytest
from run_cli import Cli

from headrace.cli.error_words import message_of
from headrace.errors import ItemActive, SchemaTooOld, UnknownLock, UpdateRefused
from headrace.model.error_messages import item_active, unknown_lock
from headrace.model.query.key_values import KeyValues


@pytest.mark.parametrize(
    ("command", "step"),
    [
        ("proc show nope", "create it with `headrace proc create nope --topic TOPIC`."),
        ("queue show nope", "create it with `headrace queue create nope`"),
        ("queue create here", "change it with `headrace queue set here OPTION=VALUE`."),
        ("topic show nope", "list topics with `headrace topic ls`"),
        ("limit show nope", "list limits with `headrace limit ls`."),
        ("limit delete systems --override nope --yes", "list limits with `headrace limit ls`."),
        ("lock force-release a=1 --yes", "list locks with `headrace lock ls`."),
        ("pipeline show nope", "list pipelines with `headrace pipeline ls`."),
    ],
)
def test_the_next_step_is_a_command(cli: Cli, command: str, step: str) -> None:
    cli("queue", "create", "here")
    cli("limit", "set", "os=*", "--limit", "1", "--name", "systems")
    answer = cli(*command.split())
    assert answer.code in (1, 3)
    assert step in answer.err
    assert not re.search(r"\w\(|\w=(?!VALUE)\S", answer.err.replace("a=1", ""))


def test_a_name_with_a_colon_stays_whole(cli: Cli) -> None:
    cli("queue", "create", "a: b")
    assert cli("queue", "create", "a: b").err == (
        "headrace: queue 'a: b' exists already: change it with "
        "`headrace queue set 'a: b' OPTION=VALUE`.\n"
    )


def test_a_value_with_a_colon_stays_whole() -> None:
    error = unknown_lock(KeyValues.of({"a": "b: c"}).form, None)
    assert isinstance(error, UnknownLock)
    assert message_of(error).startswith('no client holds the lock a="b: c": list locks')


def test_arguments_are_options() -> None:
    item = item_active("mail", 1)
    assert isinstance(item, ItemActive)
    assert message_of(item) == "item 1 of queue 'mail' is in flight: wait for its outcome."
    too_old = SchemaTooOld(
        "they need 11: connect once with migrate='auto' or run headrace migrate, when alone."
    )
    assert message_of(too_old) == "they need 11: run `headrace migrate`, when alone."
    refused = UpdateRefused("these had not stopped: w. Wait for them, or use strict=False.")
    assert message_of(refused) == "these had not stopped: w. Wait for them, or leave --strict out."


def test_a_proc_of_an_unknown_topic_says_so(cli: Cli) -> None:
    """The topic may begin later, so the proc is created."""
    answer = cli("proc", "create", "p", "--topic", "ordres")
    assert answer.code == 0
    assert "topic 'ordres' has no records yet" in answer.err
    assert "`headrace proc delete p`" in answer.err
    cli("topic", "commit", "orders", "{}")
    assert "no records" not in cli("proc", "create", "q", "--topic", "orders").err


def test_limits_that_apply_are_found(cli: Cli) -> None:
    cli("queue", "create", "builds")
    cli("limit", "set", "os=*", "--limit", "3", "--name", "systems")
    cli("limit", "set", "os=mac", "branch=*", "--limit", "1", "--name", "macs")
    cli("limit", "set", "--all", "--limit", "9", "--name", "total")
    cli("limit", "override", "systems", "os=linux", "--limit", "5", "--name", "linux")

    def found(*args: str) -> list[str]:
        return [line["rule"] for line in cli("limit", "ls", *args, "--json").json_lines]

    assert found("--where", "os=linux") == ["systems", "total"]
    assert found("-w", "os=mac", "-w", "branch=main") == ["macs", "systems", "total"]
    assert found("--where", "branch=main") == ["total"]
    assert found() == ["macs", "systems", "total"]
    [systems, _] = cli("limit", "ls", "-w", "os=mac", "--json").json_lines
    assert systems["overrides"] == []
    assert cli("limit", "ls", "-w", "os=mac", "--query", "{}").code == 2


@pytest.mark.parametrize(
    "command",
    [
        "topic commit _own {}",
        "push _own 1",
        "queue create _own",
        "proc create _own --topic t",
    ],
)
def test_names_of_headrace_are_refused(cli: Cli, command: str) -> None:
    answer = cli(*command.split())
    assert answer.code == 2
    assert "names that begin with '_' are Headrace's own" in answer.err
    assert "use another name" in answer.err
