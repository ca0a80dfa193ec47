"""docs/cli.md: complete, and what it shows works."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer.main

from headrace.cli.app import app
from headrace.cli.exits import MEANINGS
from headrace.model.settings import KINDS

PAGE = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()


def commands(group: Any = None, path: str = "headrace") -> Iterator[tuple[str, Any]]:
    """Every command by its whole name."""
    group = group or typer.main.get_command(app)
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{path} {name}")
        else:
            yield f"{path} {name}", command


def test_every_command_is_described() -> None:
    found = dict(commands())
    assert len(found) > 14
    for name in found:
        assert re.search(rf"\| `{name}\b", PAGE), name


def test_every_option_is_described() -> None:
    for name, command in commands():
        options = {option for param in command.params for option in param.opts}
        for option in options - {"--help", "-h"}:
            if option.startswith("-"):
                assert re.search(rf"`[^`]*{option}\b", PAGE), (name, option)


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


def test_the_examples_run(tmp_path: Path) -> None:
    """In order, in an empty folder, and none of them fails."""
    blocks = re.findall(r"```sh run\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) >= 4
    shim = tmp_path / "bin" / "headrace"
    shim.parent.mkdir()
    shim.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m headrace "$@"\n')
    shim.chmod(0o755)
    folder = tmp_path / "empty"
    folder.mkdir()
    for block in blocks:
        done = subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", block],
            cwd=folder,
            env={**os.environ, "PATH": f"{shim.parent}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        assert done.returncode == 0, (block, done.stderr)
    assert len((folder / "ids.txt").read_text().split()) == 5000
    assert "create schema" in (folder / "tables.sql").read_text()
