"""How a function becomes a command: the options of every command, and how errors are reported."""

from __future__ import annotations

import functools
import inspect
import os
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Concatenate, ParamSpec, get_args

import typer
from typer.models import OptionInfo

from headrace import local_nodes, settings
from headrace._sync.headrace import Headrace, connect
from headrace.cli.error_words import message_of
from headrace.cli.exit_codes import Code, code_of
from headrace.cli.help import HelpCommand, HelpGroup, metavar_of
from headrace.cli.output import error
from headrace.errors import HeadraceError
from headrace.node.start_pipe import report_start
from headrace.settings import Settings

P = ParamSpec("P")

_PANEL = "Global options"
UrlOption = Annotated[
    str | None,
    typer.Option(
        "--url",
        "-u",
        metavar="URL",
        help="The store; default: HEADRACE_URL, headrace.toml, or the node of this user.",
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
class CommandSession:
    """The global options that a command was called with."""

    url: str | None = field(default=None, repr=False)
    is_json: bool = False
    is_debug: bool = False

    def with_url(self, url: str | None) -> CommandSession:
        """The same session for another store, if one is given."""
        return self if url is None else replace(self, url=url)

    def settings(self) -> Settings:
        """All settings, with their origins."""
        given = settings.Given(self.url, "--url") if self.url else None
        return settings.load(url=given)

    def client_settings(self) -> Settings:
        """All settings of a client: if no source names a store, the node that runs here is one."""
        loaded = self.settings()
        if loaded["url"].value is None and (node := local_nodes.find()) is not None:
            return settings.load(url=settings.Given(node.local_url, "the running node"))
        return loaded

    def open(self, *, may_create_tables: bool = False, patience: float | None = None) -> Headrace:
        """A client for the store. Commands that only read never create or upgrade tables.

        ``patience`` applies if the settings have none.
        """
        loaded = self.client_settings()
        options = loaded.options()
        if patience is not None:
            options.setdefault("patience", patience)
        if not may_create_tables:
            options["migrate"] = "off"
        return connect(loaded.url, **options)


def group(help: str) -> typer.Typer:
    """A group of commands, such as ``headrace queue``."""
    return typer.Typer(help=help, cls=HelpGroup, no_args_is_help=True)


def command(
    app: typer.Typer, name: str | None = None, *, cls: type[HelpCommand] = HelpCommand
) -> Callable[
    [Callable[Concatenate[CommandSession, P], None]], Callable[Concatenate[CommandSession, P], None]
]:
    """Register a function whose first argument is the session."""

    def register(
        function: Callable[Concatenate[CommandSession, P], None],
    ) -> Callable[Concatenate[CommandSession, P], None]:
        app.command(name, cls=cls)(_with_session(function))
        return function

    return register


def _with_session(function: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(function)
    def run(ctx: typer.Context, **arguments: Any) -> None:
        url, is_json, is_debug = (arguments.pop(name) for name in ("url", "is_json", "is_debug"))
        # The same options may also precede the command.
        outer: CommandSession = ctx.find_root().obj or CommandSession()
        session = CommandSession(
            url or outer.url, is_json or outer.is_json, is_debug or outer.is_debug
        )
        run_guarded(session, lambda: function(session, **arguments))

    own = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
    for parameter in own:
        _name_value(parameter)
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


def _name_value(parameter: inspect.Parameter) -> None:
    """Give an option a word for its value, if it has none of its own."""
    kind, *metadata = get_args(parameter.annotation)
    for info in metadata:
        if isinstance(info, OptionInfo) and info.metavar is None:
            info.metavar = metavar_of(parameter.name, kind)


def run_guarded(session: CommandSession, action: Callable[[], None]) -> None:
    """Run a command, and turn every error into one line on stderr and an exit code."""
    try:
        action()
        # Buffered output may meet a closed pipe, which is handled here but not at exit.
        sys.stdout.flush()
    except KeyboardInterrupt:
        raise typer.Exit(Code.INTERRUPTED) from None
    except BrokenPipeError:
        # The reader, such as head, has closed the pipe.
        discard_stdout()
        raise typer.Exit(Code.OK) from None
    except HeadraceError as error:
        _report_error(session, message_of(error))
        if code_of(error) is Code.USAGE:
            report_start(message_of(error))
        raise typer.Exit(code_of(error)) from None
    except (typer.Exit, typer.Abort):
        raise
    except Exception as error:
        # A bug, unless it is one of typer's usage errors.
        if is_usage_error(error):
            raise
        _report_error(session, f"unexpected {type(error).__name__}: {error} (--debug shows where)")
        raise typer.Exit(Code.FAILED) from None


def is_usage_error(error: Exception) -> bool:
    """Whether this is one of typer's usage errors, whose class is private to typer."""
    return hasattr(error, "format_message") and hasattr(error, "exit_code")


def discard_stdout() -> None:
    """Send the rest of stdout to /dev/null, since flushing a closed pipe at exit would fail."""
    try:
        devnull = os.open(os.devnull, os.O_WRONLY)
        os.dup2(devnull, sys.stdout.fileno())
        os.close(devnull)
    except (OSError, ValueError):
        # stdout has no file descriptor, so the flush at exit cannot fail.
        return


def _report_error(session: CommandSession, message: str) -> None:
    if session.is_debug:
        traceback.print_exc()
    error(message)
