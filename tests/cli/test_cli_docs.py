"""The page of the command line, and the reference that is made from the commands."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from headrace.cli.app import app
from headrace.cli.exit_codes import MEANINGS
from headrace.model.settings import KINDS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "cli.md").read_text()
GLOBAL_OPTIONS = ("url", "is_json", "is_debug")


def commands(group: Any = None, path: str = "headrace") -> Iterator[tuple[str, Any]]:
    """Every command by its full name."""
    group = group or typer.main.get_command(app)
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{path} {name}")
        else:
            yield f"{path} {name}", command


@pytest.fixture
def reference(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The page of the site that is made from the commands."""
    monkeypatch.syspath_prepend(str(ROOT / "scripts" / "site"))
    import cli_reference

    yield cli_reference.page()
    sys.modules.pop("cli_reference", None)


def test_the_reference_has_every_command_with_every_option(reference: str) -> None:
    found = dict(commands())
    assert len(found) > 14
    for name, command in found.items():
        _, heading, section = reference.partition(f"# {name}\n")
        assert heading, name
        section = re.split(r"^##+ ", section, maxsplit=1, flags=re.MULTILINE)[0]
        for param in command.params:
            for option in param.opts if param.name not in GLOBAL_OPTIONS else ():
                assert not option.startswith("-") or f"{option}" in section, (name, option)


def test_every_command_says_what_it_does() -> None:
    for name, command in commands():
        assert command.help, name


def test_the_exit_codes_are_those_of_the_help() -> None:
    for code, meaning in MEANINGS.items():
        assert f"| {code.value} | {meaning} |" in PAGE


def test_every_setting_is_described() -> None:
    for name, kind in KINDS.items():
        default = (
            "none"
            if kind.default is None
            else f"`{kind.default:g}`"
            if isinstance(kind.default, float)
            else f"`{kind.default}`"
        )
        assert f"| `{name}` | `HEADRACE_{name.upper()}` | {default} |" in PAGE
