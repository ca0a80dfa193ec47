"""Every command with arbitrary arguments ends with one of our exit codes, and never unexpectedly.

Commands and options are found by introspection, so a new one is tested from its first day.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any

import pytest
import typer
import values
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import headrace
from headrace.cli.app import app
from headrace.cli.exit_codes import Code

EXAMPLES = int(os.environ.get("HEADRACE_EXAMPLES", "0"))
# They run until they are stopped, or start Spark.
LEFT_OUT = {"worker", "pipeline run", "schedule run", "doctor"}
ENDLESS = {"--follow", "-f", "--watch", "--help", "--version", "--url", "--debug"}

DEEP = "[" * values.DEEP + "]" * values.DEEP
WORDS = [
    *(
        "",
        " ",
        "-",
        "--",
        "-1",
        "0",
        "1",
        "5m",
        "t",
        "q",
        "p",
        "rule",
        "subject",
        "a=1",
        "a=",
        "=1",
    ),
    *("a>1", "a in 1,2", "x" * 3000, "é" * 300, "\x01", "\x1b[31m", "{}", "[]", '{"a":1}', "null"),
    *("nan", "NaN", "1e999", "9" * 400, "-" + "9" * 30, '"\\ud800"', '{"a":"\\ud800"}', DEEP),
    *(
        '{"a":' * 2000 + "1" + "}" * 2000,
        "$>",
        ">",
        ":0",
        "1-0",
        "9" * 30 + "-1",
        "\udcff",
        "%s{0}",
    ),
    *(
        "2030-01-31T12:00:00Z",
        "9999-12-31T23:59:59-23:59",
        "/nowhere/file",
        "math:sqrt",
        "max_items=1",
    ),
    *("timeout=-1", "backoff={", "backoff=" + DEEP, "max_attempts=99999999999999999999", "yes"),
]
WORD = st.sampled_from(WORDS) | st.text(st.characters(codec="utf-8", exclude_characters="\0"))
INPUT = st.sampled_from(
    [b"", b"{}\n", b'{"a": 1}\n{"a": 2}\n', b"\xff\xfe", b"nonsense", DEEP.encode(), b"\0", b"y\n"]
)


def _commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    for name, found in group.commands.items():
        here = (*path, name)
        if hasattr(found, "commands"):
            yield from _commands(found, here)
        else:
            yield " ".join(here), found


COMMANDS = {
    name: found for name, found in _commands(typer.main.get_command(app)) if name not in LEFT_OUT
}


@pytest.fixture(autouse=True)
def alone(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("HEADRACE_") and name not in ("HEADRACE_PG_BIN", "HEADRACE_EXAMPLES"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def _line(draw: Any, found: Any) -> list[str]:
    words: list[str] = []
    for parameter in found.params:
        names = [name for name in parameter.opts if name.startswith("-")]
        if not names:
            words += [
                draw(WORD) for _ in range(draw(st.integers(0, 2)) if not parameter.required else 1)
            ]
        elif not ENDLESS & set(names) and draw(st.integers(0, 3)) == 0:
            words.append(draw(st.sampled_from(names)))
            if not parameter.is_flag:
                words.append(draw(WORD))
    return words


@pytest.mark.parametrize("name", COMMANDS)
def test_commands(name: str, memory_url: str) -> None:
    hr = headrace.connect(memory_url)
    hr.commit_many("t", [{"n": n} for n in range(3)])
    hr.procs.create("p", "t")
    hr.push("q", {"n": 1}, subject="subject", channel={"a": 1})
    hr.limits.set({"a": headrace.ANY}, 5, name="rule")

    @settings(
        max_examples=max(3, EXAMPLES),
        derandomize=not EXAMPLES,
        database=None,
        phases=[Phase.generate],
    )
    @given(st.data())
    def play(data: st.DataObject) -> None:
        words = [*name.split(), *_line(data.draw, COMMANDS[name])]
        answer = CliRunner().invoke(app, ["--url", memory_url, *words], input=data.draw(INPUT))
        printed = ascii([word[:80] for word in words])
        if answer.exception is not None and not isinstance(answer.exception, SystemExit):
            kind = type(answer.exception).__name__
            pytest.fail(f"{printed}: {kind} {ascii(str(answer.exception))[:200]}", pytrace=False)
        assert answer.exit_code in set(Code), printed
        assert not re.search(r"unexpected \w+:", answer.stderr), f"{printed}: {answer.stderr:.300}"

    try:
        play()
    finally:
        hr.close()
