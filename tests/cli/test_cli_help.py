"""What --help prints, and how tables fit a terminal."""

import re

import pytest
import typer.main
from run_cli import Cli, on_terminal, run
from test_cli_docs import commands

import headrace
from headrace.cli import output
from headrace.cli.app import app
from headrace.cli.help import metavar_of
from headrace.cli.settings_help import setting_meanings
from headrace.model.queues.settings import OPTIONS
from headrace.model.topics.procs import Strategy


def helps(bare: Cli) -> dict[str, str]:
    """The help of every command and group, by name."""
    groups = ["", *typer.main.get_command(app).commands]  # type: ignore[attr-defined]  # a group
    names = [*groups, *(name.removeprefix("headrace ") for name, _ in commands())]
    return {name: bare(*name.split(), "--help").out for name in names}


def test_help_shows_words_not_python_types(bare: Cli) -> None:
    for name, text in helps(bare).items():
        assert not re.search(r"<\w+|\[str|None\b", text), (name, text)


def test_help_fits_the_terminal(bare: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for name, text in helps(bare).items():
        lines = [line for line in text.splitlines() if not line.lstrip().startswith("{")]
        assert max(map(len, lines)) <= 80, name


def test_every_value_has_a_word() -> None:
    for name, command in commands():
        for param in command.params:
            if param.param_type_name == "option" and not param.is_flag:
                assert param.metavar, (name, param.name)


def test_the_word_for_a_value_follows_its_type() -> None:
    assert metavar_of("queue_name", str | None) == "NAME"
    assert metavar_of("id", list[int] | None) == "N"
    assert metavar_of("strategy", Strategy | None) == "disable|continue|dead_letter"
    assert metavar_of("yes", bool) is None


@pytest.mark.parametrize("command", ["create", "set"])
def test_help_lists_the_settings_of_a_queue(bare: Cli, command: str) -> None:
    text = " ".join(bare("queue", command, "--help").out.split())
    for option in OPTIONS:
        assert f" {option} " in text
    assert "fifo, lifo or priority; default: priority]" in text
    assert "names separated by commas; default: none]" in text


def test_every_setting_has_a_meaning() -> None:
    assert list(setting_meanings()) != []
    assert set(setting_meanings()) == set(OPTIONS)


def test_a_table_fits_the_terminal(sqlite_url: str) -> None:
    """Only there: a pipe gets every value in full."""
    long = "a-queue-with-a-name-" + "x" * 100
    with headrace.connect(sqlite_url) as hr:
        hr.push(long, 1)
    args = ("-u", sqlite_url, "queue", "ls")
    _, _, screen = on_terminal(*args, is_data_shown=True)
    plain = re.sub(r"\x1b\[\d*m", "", screen).splitlines()
    assert all(len(line) <= 100 for line in plain), plain
    assert "a-queue-with-a-name-x" in plain[1]
    assert "x…" in plain[1]
    assert plain[1].endswith(" no")
    assert long in run(*args).out


@pytest.mark.parametrize(
    ("widths", "total", "fitted"),
    [
        ([10, 10], 22, [10, 10]),
        ([100, 10], 52, [40, 10]),
        ([50, 40, 10], 64, [25, 25, 10]),
        ([60, 60], 30, [14, 14]),
        ([60, 60], 10, [12, 12]),
        ([8, 60], 10, [8, 12]),
    ],
)
def test_the_widest_columns_become_narrower(
    widths: list[int], total: int, fitted: list[int]
) -> None:
    """Down to a width at which they still say something."""
    assert output._fitted(widths, total) == fitted


def test_a_truncated_cell_counts_wide_characters() -> None:
    assert output._truncated("日本語日本語", 6) == "日本…"
    assert output.cell_len("日本…") == 5
