"""Where settings come from: arguments, the environment, files, defaults, in that order.

The environment has ``HEADRACE_URL`` and so on. The file is ``headrace.toml``, or
``pyproject.toml`` with a table ``[tool.headrace]``: the nearest one from the working directory up
to the root of the project. The root is the first directory with ``.git`` or ``pyproject.toml``, or
the home directory. Without a root, only the working directory is searched: a shared directory
further up may belong to another user.
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
ROOT_MARKERS = (".git", PROJECT_FILE)


def load(
    *,
    folder: Path | None = None,
    environ: Mapping[str, str] | None = None,
    **arguments: object,
) -> Settings:
    """Resolve all settings; an argument that is None counts as not given.

    An argument may be a ``Given``, to name its origin. ``InvalidSetting`` names the setting and
    its origin.
    """
    check_known(list(arguments), "the call")
    start = (Path.cwd() if folder is None else folder).resolve()
    root = _find_root(start)
    path, from_file = _from_file(start, root or start)
    return resolve(
        [
            _from_arguments(arguments),
            _from_environment(os.environ if environ is None else environ),
            from_file,
        ],
        file=None if path is None else str(path),
        root=None if root is None else str(root),
    )


def _from_arguments(arguments: Mapping[str, object]) -> dict[str, Given]:
    return {
        name: value if isinstance(value, Given) else Given(value, f"the argument {name}")
        for name, value in arguments.items()
        if value is not None
    }


def _from_environment(environ: Mapping[str, str]) -> dict[str, Given]:
    # Many tools set an empty variable to unset it.
    variables = {name: PREFIX + name.upper() for name in KINDS}
    return {
        name: Given(environ[variable], variable)
        for name, variable in variables.items()
        if environ.get(variable)
    }


def _find_root(folder: Path) -> Path | None:
    """The root of the project that contains a folder, or the home directory that does."""
    home = _home()
    for directory in (folder, *folder.parents):
        if directory == home or any((directory / marker).exists() for marker in ROOT_MARKERS):
            return directory
    return None


def _home() -> Path | None:
    try:
        return Path.home().resolve()
    except RuntimeError:
        return None  # an account without a home directory


def _from_file(folder: Path, root: Path) -> tuple[Path | None, dict[str, Given]]:
    for directory in (folder, *folder.parents):
        path = directory / FILE
        if path.is_file():
            return path, _from_table(_parse(path), str(path), directory)
        path = directory / PROJECT_FILE
        if path.is_file():
            tools = _parse(path).get("tool")
            if isinstance(tools, dict) and "headrace" in tools:
                origin = f"{path} [tool.headrace]"
                return path, _from_table(tools["headrace"], origin, directory)
        if directory == root:
            break
    return None, {}


def _parse(path: Path) -> dict[str, Any]:
    import tomllib  # rarely needed, and every process imports this module

    try:
        return tomllib.loads(path.read_text("utf-8"))
    except tomllib.TOMLDecodeError as error:
        message = f"{path} is not valid TOML: {error}."
    except UnicodeDecodeError:
        message = f"{path} is not valid TOML: it is not UTF-8."
    except OSError as error:
        message = f"{path} cannot be read: {error.strerror}."
    # Outside of the handlers: those errors may hold the text of the file with its password.
    raise InvalidSetting(message, origin=str(path))


def _from_table(table: object, origin: str, directory: Path) -> dict[str, Given]:
    if not isinstance(table, dict):
        raise InvalidSetting(f"{origin} is not a table of settings.", origin=origin)
    check_known(list(table), origin)
    if "url" in table:
        table = {**table, "url": _absolute_url(table["url"], directory)}
    return {name: Given(value, origin) for name, value in table.items()}


def _absolute_url(url: object, directory: Path) -> object:
    """The URL with a relative path resolved against the directory of the settings file.

    So it names the same file in every directory below.
    """
    try:
        parts = parse_url(url)
    except InvalidUrl:
        # Resolving the settings reports the error with its origin.
        return url
    if parts.scheme != "sqlite" or Path(parts.location).is_absolute():
        return url
    return with_options(f"sqlite:///{quote(str(directory / parts.location))}", parts.options)
