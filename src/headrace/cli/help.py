"""What ``--help`` prints: plain text that fits the terminal, with bold titles."""

from __future__ import annotations

import inspect
import shutil
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import typer
from typer.core import TyperCommand, TyperGroup

MAX_WIDTH = 100
MAX_NAME_WIDTH = 30

Row = tuple[str, str]
Section = tuple[str, Sequence[Row]]


class HelpCommand(TyperCommand):
    """A command whose help is in our layout."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        formatter.write(_help_text(self, ctx, self.sections()))

    def sections(self) -> Sequence[Section]:
        """What the help says after the options."""
        return ()


class HelpGroup(TyperGroup):
    """A group of commands whose help is in our layout."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        rows = [(name, inner.get_short_help_str(MAX_WIDTH)) for name, inner in commands if inner]
        formatter.write(_help_text(self, ctx, [("Commands", rows)]))


def metavar_of(option: str, annotation: Any) -> str | None:
    """The word for an option's value, by its type; None for a flag.

    >>> metavar_of("prefix", str), metavar_of("limit", int | None), metavar_of("json", bool)
    ('PREFIX', 'N', None)
    """
    inner = [kind for kind in _alternatives(annotation) if kind is not NoneType]
    kind = inner[0] if inner else str
    if get_origin(kind) is list:
        [kind] = get_args(kind)
    if kind is bool:
        return None
    if get_origin(kind) is Literal:
        return "|".join(get_args(kind))
    return "N" if kind is int else option.rpartition("_")[2].upper()


def _alternatives(annotation: Any) -> tuple[Any, ...]:
    return get_args(annotation) if get_origin(annotation) in (UnionType, Union) else (annotation,)


def usage_word(argument: Any) -> str:
    """An argument as the usage line shows it."""
    word = str(argument.metavar or argument.name.upper())
    if argument.nargs != 1 and not word.endswith("..."):
        word += "..."
    return word if argument.required or word.startswith("[") else f"[{word}]"


def option_names(option: Any) -> str:
    """An option's names, the short one first, and the word for its value."""
    names = sorted((*option.opts, *option.secondary_opts), key=len)
    value = "" if option.is_flag else f" {option.metavar}"
    return ", ".join(names) + value


def meaning(param: Any) -> str:
    """What an argument or option means, with its default."""
    text = str(param.help or "")
    if param.param_type_name == "option" and param.required:
        return f"{text} Required."
    is_shown = param.show_default and param.default not in (None, False, "", ())
    return f"{text} Default: {param.default}." if is_shown else text


def _help_text(command: Any, ctx: Any, more: Iterable[Section]) -> str:
    width = min(shutil.get_terminal_size().columns, MAX_WIDTH)
    paragraphs = [f"{_title('Usage')} {_usage(command, ctx)}"]
    paragraphs += [
        textwrap.fill(" ".join(text.split()), width)
        for text in inspect.cleandoc(command.help or "").split("\n\n")
    ]
    sections = [*_param_sections(command.get_params(ctx)), *more]
    paragraphs += [
        "\n".join([_title(title), *_columns(rows, width)]) for title, rows in sections if rows
    ]
    if command.epilog:
        paragraphs.append(inspect.cleandoc(command.epilog))
    return "\n\n".join(paragraphs)


def _usage(command: Any, ctx: Any) -> str:
    arguments = [p for p in command.get_params(ctx) if p.param_type_name == "argument"]
    words = [ctx.command_path, "[OPTIONS]", *map(usage_word, arguments)]
    return " ".join([*words, "COMMAND"] if isinstance(command, TyperGroup) else words)


def _param_sections(params: Sequence[Any]) -> Iterator[Section]:
    arguments = [p for p in params if p.param_type_name == "argument"]
    yield "Arguments", [(usage_word(param), meaning(param)) for param in arguments]
    panels: dict[str, list[Row]] = {"Options": []}
    for param in params:
        if param.param_type_name == "option" and not param.hidden:
            rows = panels.setdefault(param.rich_help_panel or "Options", [])
            rows.append((option_names(param), meaning(param)))
    yield from panels.items()


def _columns(rows: Sequence[Row], width: int) -> Iterator[str]:
    """Names and their meanings side by side; a long name has a line of its own."""
    column = min(max(len(name) for name, _ in rows), MAX_NAME_WIDTH) + 4
    for name, text in rows:
        lines = textwrap.wrap(text, max(width - column, 20)) or [""]
        if len(name) + 4 > column:
            yield f"  {name}"
        else:
            yield f"  {name:<{column - 2}}{lines.pop(0)}".rstrip()
        yield from (f"{'':<{column}}{line}" for line in lines)


def _title(text: str) -> str:
    return typer.style(f"{text}:", bold=True)
