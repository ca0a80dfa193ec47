"""The settings of a queue, as the help lists them.

Their meaning comes from the docstring of ``QueueSettings``, and their defaults from its fields.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence

from headrace.cli.parse_settings import allowed_values, none_word
from headrace.cli.queue_views import format_setting
from headrace.model.queues.settings import DEFAULTS, OPTIONS, QueueSettings

_ENTRY = re.compile(r"^``(\w+)`` +(.*(?:\n +.*)*)", re.MULTILINE)


def describe_settings() -> Sequence[tuple[str, str]]:
    """Each setting with its meaning, the values it accepts, and its default."""
    meanings = setting_meanings()
    return [(option, _describe(option, meanings.get(option, ""))) for option in OPTIONS]


def setting_meanings() -> dict[str, str]:
    """What each setting means. Empty if Python runs without docstrings."""
    text = inspect.getdoc(QueueSettings) or ""
    return {option: _one_line(meaning) for option, meaning in _ENTRY.findall(text)}


def _describe(option: str, meaning: str) -> str:
    text = meaning[:1].upper() + meaning[1:].replace("None:", f"{none_word(option)}:")
    default = format_setting(DEFAULTS, option) or "none"
    return f"{text} [{allowed_values(option)}; default: {default}]".lstrip()


def _one_line(text: str) -> str:
    return " ".join(text.split()).replace("``", "")
