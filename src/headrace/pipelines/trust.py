"""Which functions a runner may import.

A pipeline's processor is stored as ``module:function``, and anyone with write access to the
database can change it. So a runner does not import a function only because the database names it:
it runs functions that this process named itself, and functions of modules that it was allowed to
trust.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Iterable
from typing import Any

from headrace.errors import InvalidOption
from headrace.model.fields import shown

Allow = str | Iterable[str]


def check_allow(allow: Allow) -> tuple[str, ...]:
    """The modules of the option ``allow``; ``InvalidOption`` for an invalid module name."""
    modules = (allow,) if isinstance(allow, str) else tuple(allow)
    for module in modules:
        if not isinstance(module, str) or not all(
            part.isidentifier() for part in module.split(".")
        ):
            raise InvalidOption(
                f"allow has {shown(module)}: name modules or packages, such as shop.jobs or shop.",
                option="allow",
            )
    return modules


class Trust:
    """The modules that a runner may import functions from, and single functions.

    ``named`` has the functions that this process named itself; it may grow while a runner runs.
    """

    def __init__(self, modules: Allow = (), named: Collection[str] = ()) -> None:
        self._modules = check_allow(modules)
        self._named = named

    def allows(self, reference: str) -> bool:
        """Whether ``module:function`` may be imported."""
        return reference in self._named or self._has_module(reference.partition(":")[0])

    def check(self, pipeline: str, reference: str) -> None:
        """Raise ``InvalidOption`` if the processor of a pipeline may not be imported."""
        if not self.allows(reference):
            raise InvalidOption(
                f"processor {shown(reference)} of pipeline {shown(pipeline)} is named by the database, and "
                "this runner was not told to trust it: run the app that declares it, or allow "
                "its module (allow=['package'], --allow package).",
                option="allow",
            )

    def check_imported(self, pipeline: str, reference: str, function: Callable[..., Any]) -> None:
        """The same for the imported function: a trusted module may have imported others."""
        module = _module_of(function)
        if reference in self._named or self._has_module(module):
            return
        raise InvalidOption(
            f"processor {shown(reference)} of pipeline {shown(pipeline)} is a function of "
            f"{module or 'Python itself'}, which this runner was not told to trust: allow that "
            "module too, or name a function of your own.",
            option="allow",
        )

    def _has_module(self, name: str) -> bool:
        return any(name == module or name.startswith(f"{module}.") for module in self._modules)


def _module_of(function: Any) -> str:
    """The module that defines a callable, or the class of a callable object."""
    while isinstance(function, functools.partial):
        function = function.func
    is_named = inspect.isroutine(function) or inspect.isclass(function)
    return str(getattr(function if is_named else type(function), "__module__", None) or "")
