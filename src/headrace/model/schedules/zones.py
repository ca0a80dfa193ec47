"""Time zones, from the package ``tzdata`` and not from the machine, so that all nodes agree."""

from __future__ import annotations

from datetime import UTC, tzinfo
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from headrace.errors import InvalidOption
from headrace.model.fields import shown

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

UTC_NAME = "UTC"


@cache
def zone_of(name: str) -> tzinfo:
    """The time zone of that name; it has passed ``check_zone`` here or on another machine."""
    if name == UTC_NAME:
        return UTC
    from zoneinfo import ZoneInfo

    check_zone(name)
    with _package().joinpath("zoneinfo", *name.split("/")).open("rb") as data:
        return ZoneInfo.from_file(data, key=name)


def check_zone(name: object) -> str:
    """Return ``name`` if it is a time zone of the IANA database, else raise ``InvalidOption``."""
    if isinstance(name, str) and name in zone_names():
        return name
    from difflib import get_close_matches

    near = [*get_close_matches(str(name), zone_names(), 1, 0.7), "Europe/Berlin"][0]
    raise InvalidOption(
        f"zone is {shown(name)}: use a time zone of the IANA database, like {near!r} or 'UTC'.",
        option="zone",
    )


@cache
def zone_names() -> frozenset[str]:
    """The names of all time zones."""
    return frozenset(_package().joinpath("zones").read_text("utf-8").split())


@cache
def zone_data() -> str:
    """The version of the time zone data, like ``2026a``; a newer one is greater."""
    version: str = import_module("tzdata").IANA_VERSION
    return version


def _package() -> Traversable:
    # Most programs have no schedules: they need not import this.
    from importlib.resources import files

    return files("tzdata")
