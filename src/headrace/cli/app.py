"""The command ``headrace``: its subcommands, global options and exit codes."""

from __future__ import annotations

import functools
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

import headrace
from headrace.cli import (
    channel,
    client,
    config,
    counter,
    dead,
    doctor,
    item,
    limit,
    lock,
    maintain,
    migrate,
    output,
    pipeline,
    proc,
    push,
    queue,
    replay,
    schedule,
    sink,
    token,
    topic,
    up,
    worker,
)
from headrace.cli.command import CommandSession, DebugOption, JsonOption, UrlOption, is_usage_error
from headrace.cli.exit_codes import MEANINGS, Code
from headrace.cli.help import HelpGroup

EPILOG = "\n".join(["Exit codes:", *(f"{code:>3}  {text}" for code, text in MEANINGS.items())])


class Root(HelpGroup):
    """The outermost group. It prints a usage error as one line on stderr, like other errors."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        run = functools.partial(
            super().main, args, prog_name, complete_var, False, windows_expand_args, **extra
        )
        if not standalone_mode:
            return run()
        try:
            code = run()
        except Exception as error:
            if not is_usage_error(error):
                raise
            _print_usage_error(error)
            code = Code.USAGE
        sys.exit(code or Code.OK)


def _print_usage_error(error: Any) -> None:
    if type(error).__name__ == "NoArgsIsHelpError":
        typer.echo(error.ctx.get_help())
        return
    command = error.ctx.command_path if getattr(error, "ctx", None) else "headrace"
    message = error.format_message().strip()
    stop = "" if message.endswith((".", "?", "!")) else "."
    output.error(f"{message}{stop} Try '{command} --help'.")


app = typer.Typer(
    name="headrace",
    cls=Root,
    help="Durable topics, procs and queues in the database you already run.",
    epilog=EPILOG,
    no_args_is_help=True,
    context_settings={"help_option_names": ["--help", "-h"]},
    pretty_exceptions_enable=False,
)
app.add_typer(topic.app, name="topic")
app.add_typer(proc.app, name="proc")
app.add_typer(pipeline.app, name="pipeline")
app.add_typer(sink.app, name="sink")
app.add_typer(queue.app, name="queue")
app.add_typer(channel.app, name="channel")
app.add_typer(limit.app, name="limit")
app.add_typer(counter.app, name="counter")
app.add_typer(lock.app, name="lock")
push.register(app)
app.add_typer(item.app, name="item")
app.add_typer(dead.app, name="dead")
replay.register(app)
app.add_typer(schedule.app, name="schedule")
app.add_typer(client.app, name="client")
app.add_typer(token.app, name="token")
app.add_typer(config.app, name="config")
migrate.register(app)
maintain.register(app)
doctor.register(app)
worker.register(app)
up.register(app)


def _print_version(is_given: bool) -> None:
    if is_given:
        sys.stdout.write(f"headrace {headrace.__version__}\n")
        raise typer.Exit


@app.callback()
def root(
    ctx: typer.Context,
    *,
    url: UrlOption = None,
    is_json: JsonOption = False,
    is_debug: DebugOption = False,
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    ctx.obj = CommandSession(url, is_json, is_debug)
