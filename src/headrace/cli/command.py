"""How a function becomes a command: the options every command has, and what errors do."""

from __future__ import annotations

import functools
import inspect
import os
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Concatenate, ParamSpec

import typer

from headrace import settings
from headrace.api import Headrace, connect
from headrace.cli.exits import Code, code_of
from headrace.cli.output import complain
from headrace.errors import HeadraceError

P = ParamSpec("P")

_PANEL = "Everywhere"
UrlOption = Annotated[
    str | None,
    typer.Option(
        "--url",
        "-u",
        metavar="URL",
        help="The store; otherwise HEADRACE_URL or headrace.toml say.",
        rich_help_panel=_PANEL,
    ),
]
JsonOption = Annotated[
    bool, typer.Option("--json", help="Print JSON for programs.", rich_help_panel=_PANEL)
]
DebugOption = Annotated[
    bool, typer.Option("--debug", help="Show where an error came from.", rich_help_panel=_PANEL)
]


@dataclass(frozen=True)
class Session:
    """What a command was called with beside its own arguments."""

    url: str | None = None
    is_json: bool = False
    is_debug: bool = False

    def settings(self) -> settings.Settings:
        """All settings, with where they come from."""
        given = settings.Given(self.url, "--url") if self.url else None
        return settings.load(url=given)

    def open(self, *, makes_tables: bool = False) -> Headrace:
        """A client for the store. Commands that only look never make or upgrade tables."""
        found = self.settings()
        options = found.options()
        if not makes_tables:
            options["migrate"] = "off"
        return connect(found.url, **options)


def command(
    app: typer.Typer, name: str | None = None
) -> Callable[[Callable[Concatenate[Session, P], None]], Callable[Concatenate[Session, P], None]]:
    """Register a function whose first argument is the session."""

    def register(
        function: Callable[Concatenate[Session, P], None],
    ) -> Callable[Concatenate[Session, P], None]:
        app.command(name)(_with_session(function))
        return function

    return register


def _with_session(function: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(function)
    def run(ctx: typer.Context, **arguments: Any) -> None:
        url, is_json, is_debug = (arguments.pop(name) for name in ("url", "is_json", "is_debug"))
        # The same options may also stand before the noun.
        above: Session = ctx.find_root().obj or Session()
        session = Session(url or above.url, is_json or above.is_json, is_debug or above.is_debug)
        guarded(session, lambda: function(session, **arguments))

    own = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
    kind = inspect.Parameter.KEYWORD_ONLY
    parameters = [
        inspect.Parameter("ctx", kind, annotation=typer.Context),
        *(parameter.replace(kind=kind) for parameter in own),
        inspect.Parameter("url", kind, annotation=UrlOption, default=None),
        inspect.Parameter("is_json", kind, annotation=JsonOption, default=False),
        inspect.Parameter("is_debug", kind, annotation=DebugOption, default=False),
    ]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # inspect reads it
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def guarded(session: Session, action: Callable[[], None]) -> None:
    """Run a command; whatever goes wrong is one line and an exit code."""
    try:
        action()
        # What is still buffered may hit a closed pipe; better here than at exit.
        sys.stdout.flush()
    except KeyboardInterrupt:
        raise typer.Exit(Code.INTERRUPTED) from None
    except BrokenPipeError:
        # Whoever read us has seen enough.
        hush()
        raise typer.Exit(Code.OK) from None
    except HeadraceError as error:
        _tell(session, str(error))
        raise typer.Exit(code_of(error)) from None
    except (typer.Exit, typer.Abort):
        raise
    except Exception as error:
        # A mistake of ours, unless typer knows it as one of the user's.
        if is_usage(error):
            raise
        _tell(session, f"unexpected {type(error).__name__}: {error} (--debug shows where)")
        raise typer.Exit(Code.FAILED) from None


def is_usage(error: Exception) -> bool:
    """Whether typer says that the command was called wrongly.

    By its form: the class is private to typer.
    """
    return hasattr(error, "format_message") and hasattr(error, "exit_code")


def hush() -> None:
    """Write no more to stdout, whose reader is gone; Python would complain at exit."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
    except (OSError, ValueError):
        # Not a real file: then nobody complains.
        return


def _tell(session: Session, message: str) -> None:
    if session.is_debug:
        traceback.print_exc()
    complain(message)
