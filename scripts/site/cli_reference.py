"""The reference of the command line, from the commands themselves."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from typing import Any

from typer.main import get_command

from headrace.cli.app import app
from headrace.cli.exit_codes import MEANINGS
from headrace.cli.help import Row, meaning, option_names, usage_word

GLOBAL_OPTIONS = ("url", "is_json", "is_debug")


def page() -> str:
    """The page, in Markdown."""
    return "\n".join(_page()) + "\n"


def _page() -> Iterator[str]:
    root: Any = get_command(app)
    options = {param.name: param for param in root.params}
    yield "# Command reference\n"
    yield f"{root.help}\n"
    yield "Every command accepts these options, before or after its name:\n"
    yield from _table("Option", [options[name] for name in GLOBAL_OPTIONS])
    yield "Options of `headrace` itself:\n"
    rest = [param for name, param in options.items() if name not in GLOBAL_OPTIONS]
    yield from _table("Option", rest)
    yield "| Exit code | Meaning |\n|---|---|"
    yield from (f"| {code:d} | {meaning} |" for code, meaning in MEANINGS.items())
    yield ""
    commands = sorted(root.commands.items(), key=lambda pair: pair[0])
    for name, command in commands:
        yield from _command(f"headrace {name}", command, 2)


def _command(path: str, command: Any, level: int) -> Iterator[str]:
    yield f"{'#' * level} {path}\n"
    yield f"{inspect.cleandoc(command.help or '')}\n"
    if hasattr(command, "commands"):
        for name, inner in command.commands.items():
            yield from _command(f"{path} {name}", inner, level + 1)
        return
    arguments = [param for param in command.params if param.param_type_name == "argument"]
    options = [
        param
        for param in command.params
        if param.param_type_name == "option" and param.name not in GLOBAL_OPTIONS
    ]
    yield "```text"
    yield " ".join([path, *(["[OPTIONS]"] if options else []), *map(usage_word, arguments)])
    yield "```\n"
    yield from _table("Argument", arguments)
    yield from _table("Option", options)
    for title, rows in command.sections():
        yield from _rows(title.removesuffix("s"), rows)


def _table(title: str, params: list[Any]) -> Iterator[str]:
    names = usage_word if title == "Argument" else option_names
    yield from _rows(title, [(names(param), meaning(param)) for param in params])


def _rows(title: str, rows: Sequence[Row]) -> Iterator[str]:
    if not rows:
        return
    yield f"| {title} | Meaning |\n|---|---|"
    for name, text in rows:
        yield f"| `{_cell(name)}` | {_cell(text)} |"
    yield ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
