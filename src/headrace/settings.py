"""Where settings come from: arguments, the environment, files, defaults, in that order.

The environment has ``HEADRACE_URL`` and so on. Files are ``headrace.toml``, or
``pyproject.toml`` with a table ``[tool.headrace]``; the nearest one counts, from the
working directory upwards.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from headrace.errors import InvalidSetting, InvalidUrl
from headrace.model.settings import KINDS, Given, Setting, Settings, check_known, resolve
from headrace.model.url import parse_url, with_options

__all__ = ["Given", "Setting", "Settings", "load"]

PREFIX = "HEADRACE_"
FILE = "headrace.toml"
PROJECT_FILE = "pyproject.toml"


def load(
    *,
    folder: Path | None = None,
    environ: Mapping[str, str] | None = None,
    **arguments: object,
) -> Settings:
    """Resolve all settings; an argument that is None counts as not given.

    An argument may be a ``Given``, to name where it came from. ``InvalidSetting`` names
    what is wrong and where it stands.
    """
    check_known(list(arguments), "the call")
    return resolve(
        [
            _from_arguments(arguments),
            _from_environment(os.environ if environ is None else environ),
            _from_file(Path.cwd() if folder is None else folder),
        ]
    )


def _from_arguments(arguments: Mapping[str, object]) -> dict[str, Given]:
    return {
        name: value if isinstance(value, Given) else Given(value, f"the argument {name}")
        for name, value in arguments.items()
        if value is not None
    }


def _from_environment(environ: Mapping[str, str]) -> dict[str, Given]:
    # An empty variable is how many tools say "not set".
    variables = {name: PREFIX + name.upper() for name in KINDS}
    return {
        name: Given(environ[variable], variable)
        for name, variable in variables.items()
        if environ.get(variable)
    }


def _from_file(folder: Path) -> dict[str, Given]:
    folder = folder.resolve()
    for place in (folder, *folder.parents):
        if (place / FILE).is_file():
            path = place / FILE
            return _given(_parse(path), str(path), place)
        if (place / PROJECT_FILE).is_file():
            path = place / PROJECT_FILE
            tools = _parse(path).get("tool")
            if isinstance(tools, dict) and "headrace" in tools:
                return _given(tools["headrace"], f"{path} [tool.headrace]", place)
    return {}


def _parse(path: Path) -> dict[str, Any]:
    import tomllib  # seldom needed, and this module is imported by all

    try:
        return tomllib.loads(path.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidSetting(f"{path} is not valid TOML: {error}.", origin=str(path)) from error
    except OSError as error:
        raise InvalidSetting(
            f"{path} cannot be read: {error.strerror}.", origin=str(path)
        ) from error


def _given(table: object, origin: str, place: Path) -> dict[str, Given]:
    if not isinstance(table, dict):
        raise InvalidSetting(f"{origin} is not a table of settings.", origin=origin)
    check_known(list(table), origin)
    if "url" in table:
        table = {**table, "url": _anchored(table["url"], place)}
    return {name: Given(value, origin) for name, value in table.items()}


def _anchored(url: object, place: Path) -> object:
    """A URL with a relative file, from where the settings file is: it must mean the same
    file in every folder below."""
    try:
        parts = parse_url(url)
    except InvalidUrl:
        # Whoever uses it says what is wrong, and names the file.
        return url
    if parts.scheme != "sqlite" or Path(parts.location).is_absolute():
        return url
    return with_options(f"sqlite:///{quote(str(place / parts.location))}", parts.options)
