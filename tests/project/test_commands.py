"""Every command line in the documents is one that ``headrace`` accepts."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main
from documents import DOCUMENTS, ROOT, blocks

from headrace.cli.app import app
from headrace.cli.command import is_usage_error

ROOT_COMMAND: Any = typer.main.get_command(app)
GLOBAL_OPTIONS = {"--url": 1, "-u": 1, "--json": 0, "--debug": 0}
_CODE = re.compile(r"`headrace ([a-z][^`]*)`")
_END_OF_COMMAND = re.compile(r"^(#.*|[|<>&;].*|\d>.*)$")


def shown_in_blocks(document: Path) -> Iterator[str]:
    """The commands in shell blocks, without variables before them."""
    for block in blocks(document):
        if block.language != "sh":
            continue
        without_files = re.sub(r"<<'END'\n.*?^END$", "", block.text, flags=re.DOTALL | re.MULTILINE)
        for line in without_files.replace("\\\n", " ").splitlines():
            for part in line.split(" | "):
                match = re.match(r"(?:[A-Z_]+=\S+ )*headrace (.*)", part.strip())
                if match:
                    yield match[1]


def words(command: str) -> list[str]:
    """The arguments, up to a comment, a pipe or a redirection."""
    found: list[str] = []
    for word in shlex.split(command, comments=True):
        if _END_OF_COMMAND.match(word):
            break
        found.append(word)
    return found


def leaf(arguments: list[str]) -> tuple[Any, list[str]]:
    """The command that arguments name, and those that are left for it."""
    command, rest = ROOT_COMMAND, list(arguments)
    kept: list[str] = []
    while rest:
        word = rest.pop(0)
        if word in GLOBAL_OPTIONS:
            del rest[: GLOBAL_OPTIONS[word]]
        elif hasattr(command, "commands") and not word.startswith("-"):
            assert word in command.commands, f"there is no command {word!r}"
            command = command.commands[word]
        else:
            kept.append(word)
    return command, kept


def check(arguments: list[str], *, is_whole: bool) -> None:
    command, rest = leaf(arguments)
    if hasattr(command, "commands") or not is_whole:
        options = (o for param in command.params for o in (*param.opts, *param.secondary_opts))
        known = {*options, "--help"}
        named = [word for word in rest if word.startswith("-") and word != "-"]
        assert set(named) <= known, f"{named} of {arguments}"
        return
    if "--help" in rest:
        return
    try:
        command.make_context(command.name, rest)
    except Exception as error:
        if not is_usage_error(error):
            raise
        pytest.fail(f"headrace {shlex.join(arguments)}: {error}")


PAGES = [*DOCUMENTS, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]


@pytest.mark.parametrize("document", PAGES, ids=lambda path: path.name)
def test_commands_in_blocks_are_right(document):
    for command in shown_in_blocks(document):
        check(words(command), is_whole=True)


@pytest.mark.parametrize("document", PAGES, ids=lambda path: path.name)
def test_commands_in_sentences_exist_with_their_options(document):
    for command in _CODE.findall(document.read_text("utf-8")):
        check(words(command), is_whole=False)


def test_wrong_commands_are_noticed():
    with pytest.raises(AssertionError):
        check(["queue", "resumee", "mail"], is_whole=False)
    with pytest.raises(AssertionError):
        check(["queue", "ls", "--colour"], is_whole=False)
    with pytest.raises(pytest.fail.Exception):
        check(["queue", "pause"], is_whole=True)
    with pytest.raises(pytest.fail.Exception):
        check(["push", "mail", "{}", "--subjet", "x"], is_whole=True)
