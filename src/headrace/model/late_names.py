"""Names of a package that are imported when they are first used."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any, NoReturn


def no_such_name(package: str, name: str) -> NoReturn:
    """Raise what an attribute that does not exist raises."""
    raise AttributeError(f"module {package!r} has no attribute {name!r}", name=name)


def late(
    package: str, missing: Callable[[str, str], Any] = no_such_name, /, **modules: str
) -> Callable[[str], Any]:
    """A ``__getattr__`` for a package that imports each of these names from its module.

    The package keeps what was imported, so that this happens once. A module that is named here
    is itself the value. ``missing`` is called with the package for any other name.
    """

    def get(name: str) -> Any:
        if name not in modules:
            return missing(package, name)
        module = import_module(modules[name])
        value = module if modules[name] == f"{package}.{name}" else getattr(module, name)
        setattr(sys.modules[package], name, value)
        return value

    return get
