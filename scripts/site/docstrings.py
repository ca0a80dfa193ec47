"""A griffe extension: docstrings as Markdown, with doctests and literal blocks as code."""

from __future__ import annotations

import re
from typing import Any

import griffe

_DOCTEST = re.compile(r"^(?P<indent> *)>>> .*\n?(?:(?P=indent)\S.*\n?)*", re.MULTILINE)


class Docstrings(griffe.Extension):
    """Turns the reStructuredText that our docstrings use into Markdown."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        if obj.docstring:
            obj.docstring.value = to_markdown(obj.docstring.value)


def to_markdown(text: str) -> str:
    """The text with doctests in fences, and literal blocks introduced by one colon."""
    text = re.sub(r"^::\n\n", "", text, flags=re.MULTILINE)
    text = re.sub(r"::$", ":", text, flags=re.MULTILINE)
    return _DOCTEST.sub(_fenced, text)


def _fenced(match: re.Match[str]) -> str:
    lines = [line.removeprefix(match["indent"]) for line in match[0].splitlines()]
    return "\n".join(["```pycon", *lines, "```", ""])
