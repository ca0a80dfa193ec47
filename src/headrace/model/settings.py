"""Settings: their names, their checks, and which of several sources wins. No I/O."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from headrace.errors import InvalidSetting, InvalidUrl
from headrace.model.codec import DEFAULT_MAX_BODY
from headrace.model.url import masked, parse_url


class Given(NamedTuple):
    """A value as a user wrote it, and where."""

    value: object
    origin: str

    def __repr__(self) -> str:
        return f"Given({masked(repr(self.value))}, {self.origin!r})"


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """One setting, resolved from all sources.

    ``origin`` is None if no source sets it; ``value`` is then the default.
    """

    name: str
    value: Any
    origin: str | None = None

    @property
    def shown(self) -> Any:
        """The value without its secrets."""
        return masked(self.value) if self.name == "url" and self.value else self.value

    def __repr__(self) -> str:
        return f"Setting(name={self.name!r}, value={self.shown!r}, origin={self.origin!r})"


class Settings(msgspec.Struct, frozen=True):
    """All settings by name.

    >>> settings = headrace.settings.load()
    >>> hr = headrace.connect(settings.url, **settings.options())
    """

    all: tuple[Setting, ...]
    file: str | None = None
    """The settings file that was read, if there is one."""
    root: str | None = None
    """Where the search for it ended: the project's root, or the home folder. None if there is
    neither above the folder, so that only the folder itself was searched."""

    def __getitem__(self, name: str) -> Setting:
        return next(setting for setting in self.all if setting.name == name)

    @property
    def url(self) -> str:
        """The store's URL; ``InvalidSetting`` if no source sets one."""
        url = self["url"].value
        if url is None:
            raise InvalidSetting(
                "no store is configured: give --url, set HEADRACE_URL, or write "
                'url = "sqlite:///flow.db" in headrace.toml.',
                setting="url",
                origin=None,
            )
        return str(url)

    def options(self) -> dict[str, Any]:
        """The settings that a source sets, apart from the URL, as arguments for ``connect``.

        The others are left out, so that defaults of ``connect`` and options of the URL apply.
        """
        return {s.name: s.value for s in self.all if s.origin is not None and s.name != "url"}


class Kind(NamedTuple):
    """The kind of a setting: ``read`` returns the value or raises ValueError."""

    default: Any
    read: Callable[[object], Any]


def resolve(
    sources: Sequence[Mapping[str, Given]], *, file: str | None = None, root: str | None = None
) -> Settings:
    """Resolve each setting from the first source that has it, and check its value."""
    found = []
    for name, kind in KINDS.items():
        given = next((source[name] for source in sources if name in source), None)
        if given is None:
            found.append(Setting(name=name, value=kind.default))
        else:
            value = _read(name, kind, given)
            found.append(Setting(name=name, value=value, origin=given.origin))
    return Settings(tuple(found), file, root)


def check_known(names: Sequence[str], origin: str) -> None:
    """Refuse an unknown name, so that a misspelt setting is noticed."""
    for name in names:
        if name not in KINDS:
            shown = masked(name)
            raise InvalidSetting(
                f"{origin} has the unknown key {shown!r}: it may set {', '.join(KINDS)}.",
                setting=shown,
                origin=origin,
            )


def _read(name: str, kind: Kind, given: Given) -> Any:
    try:
        return kind.read(given.value)
    except InvalidUrl as error:
        raise InvalidSetting(
            f"the url in {given.origin} is wrong: {error}", setting=name, origin=given.origin
        ) from error
    except ValueError as error:
        raise InvalidSetting(
            f"{name} in {given.origin} is {masked(repr(given.value))}: use {error}.",
            setting=name,
            origin=given.origin,
        ) from error


def _url(value: object) -> object:
    parse_url(value)
    return value


def _one_of(*words: str) -> Callable[[object], str]:
    def read(value: object) -> str:
        if value not in words:
            raise ValueError(f"{', '.join(words[:-1])} or {words[-1]}")
        return str(value)

    return read


def _seconds(value: object) -> float:
    number: float | None = _number(value, float)
    if number is None or not math.isfinite(number) or number < 0:
        raise ValueError("seconds from 0 on")
    return number


def _size(value: object) -> int:
    number: int | None = _number(value, int)
    if number is None or number < 2:
        raise ValueError("a whole number of bytes from 2 on")
    return number


def _number(value: object, kind: type[Any]) -> Any:
    """A number from TOML, or from text; None if it is neither."""
    is_number = isinstance(value, kind) or (kind is float and isinstance(value, int))
    if isinstance(value, bool) or not (is_number or isinstance(value, str)):
        return None
    try:
        return kind(value)
    except ValueError:
        return None


KINDS: dict[str, Kind] = {
    "url": Kind(None, _url),
    "durability": Kind("safe", _one_of("safe", "relaxed")),
    "patience": Kind(30.0, _seconds),
    "max_body": Kind(DEFAULT_MAX_BODY, _size),
    "migrate": Kind("create", _one_of("auto", "create", "off")),
}
