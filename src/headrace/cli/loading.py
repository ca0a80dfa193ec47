"""Objects of the user's own code, named as ``module:name``."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

from headrace.errors import InvalidOption


def load(target: str) -> Any:
    """The object; ``InvalidOption`` says why there is none. The working folder is looked in too."""
    module, colon, name = target.partition(":")
    if not (module and colon and name):
        raise InvalidOption(
            f"{target!r} is not of the form module:name, as in shop.jobs:app.", option="target"
        )
    found: Any = _module(module)
    for part in name.split("."):
        try:
            found = getattr(found, part)
        except AttributeError as error:
            raise InvalidOption(f"module {module!r} has no {name!r}.", option="target") from error
    return found


def _module(name: str) -> Any:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:
        # The user's code may raise anything while it is imported.
        is_missing = isinstance(error, ModuleNotFoundError) and f"{name}.".startswith(
            f"{error.name}."
        )
        if is_missing:
            words = f"there is no module {name!r} here, nor where Python looks"
        else:
            words = f"module {name!r} cannot be imported: {type(error).__name__}: {error}"
        raise InvalidOption(f"{words}.", option="target") from error
