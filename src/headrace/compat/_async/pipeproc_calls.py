"""How PipeProc's calls answer: with PipeProc's errors, or by a callback."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

from headrace.client._runtime.aio import call
from headrace.compat.pipeproc_values import pipeproc_error
from headrace.errors import HeadraceError

P = ParamSpec("P")
T = TypeVar("T")
# ASYNC
Method = Callable[P, Coroutine[Any, Any, T]]
# SYNC
# Method = Callable[P, T]
# END


def answers(method: Method[P, T]) -> Method[P, T]:
    """Raise PipeProc's errors; with a ``callback``, call it with the error or the result.

    A function in place of the options is the callback.
    """
    names = list(inspect.signature(method).parameters)
    position = names.index("callback") if "callback" in names else len(names)
    options = names.index("options") if "options" in names else len(names)

    @functools.wraps(method)
    async def answer(*args: P.args, **kwargs: P.kwargs) -> T:
        if len(args) == options + 1 and callable(args[options]):
            return await answer(*args[:options], None, *args[options:], **kwargs)  # type: ignore[arg-type]  # the same arguments
        given: Any = args[position] if len(args) > position else kwargs.get("callback")
        try:
            result = await method(*args, **kwargs)
        except HeadraceError as error:
            failed = pipeproc_error(error)
            if given is None:
                raise failed from failed.__cause__
            await call(given, failed, None)
            return None  # type: ignore[return-value]  # the callback has the answer
        if given is None:
            return result
        await call(given, None, result)
        return None  # type: ignore[return-value]  # as above

    return answer
