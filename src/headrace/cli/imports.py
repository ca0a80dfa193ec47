"""Import objects of the user's code, named as ``module:name``."""

from __future__ import annotations

import importlib
import sys
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Any

from headrace.errors import InvalidOption


def load_object(target: str) -> Any:
    """Import the object, also from the working directory; ``InvalidOption`` says why it failed."""
    module, colon, name = target.partition(":")
    if not (module and colon and name) or module.endswith(".py"):
        raise InvalidOption(
            f"{target!r} is not of the form module:name: did you mean "
            f"'{_dotted(module)}:{name or 'app'}'?",
            option="target",
        )
    loaded: Any = _import_module(module)
    for part in name.split("."):
        try:
            loaded = getattr(loaded, part)
        except AttributeError as error:
            raise InvalidOption(
                f"module {module!r} has no {name!r}{_did_you_mean(loaded, part)}", option="target"
            ) from error
    return loaded


def _dotted(path: str) -> str:
    """The module in a file, as it is imported: ``shop.jobs`` for ``shop/jobs.py``."""
    parts = Path(path.removesuffix(".py")).parts
    return ".".join(part for part in parts if part.isidentifier()) or path or "module"


def _did_you_mean(loaded: Any, name: str) -> str:
    """The name in a module that is like this one, otherwise its apps."""
    from headrace.worker import App

    if not isinstance(loaded, ModuleType):
        return "."
    public = {each: value for each, value in vars(loaded).items() if not each.startswith("_")}
    own = [each for each, value in public.items() if not isinstance(value, ModuleType)]
    apps = [each for each, value in public.items() if isinstance(value, App)]
    meant = get_close_matches(name, own, 1) or apps
    return f": did you mean {' or '.join(map(repr, meant))}?" if meant else "."


def _import_module(name: str) -> Any:
    directory = str(Path.cwd())
    if directory not in sys.path:
        sys.path.insert(0, directory)
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:
        # The user's module may raise anything while it is imported.
        is_missing = isinstance(error, ModuleNotFoundError) and f"{name}.".startswith(
            f"{error.name}."
        )
        if is_missing:
            message = f"there is no module {name!r} in the working directory or on sys.path"
        else:
            message = f"module {name!r} cannot be imported: {type(error).__name__}: {error}"
        raise InvalidOption(f"{message}.", option="target") from error
