"""``headrace up``: a node that serves a store to clients of other processes."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from headrace import local_nodes
from headrace.cli import output
from headrace.cli.command import CommandSession, command
from headrace.local_nodes import DEFAULT_LISTEN, DEFAULT_NAMESPACE, NodeRecord
from headrace.settings import Settings

_CONNECT = ("durability", "patience", "migrate")
"""The settings that are options of the store."""

Store = Annotated[
    str | None,
    typer.Argument(metavar="[URL]", help="The store to serve; default: that of --url."),
]
Listen = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT", help=f"Listen on TCP; default without --socket: {DEFAULT_LISTEN}."
    ),
]
Socket = Annotated[
    str | None,
    typer.Option(metavar="PATH", help="Listen on a Unix socket that only this user can use."),
]
Namespace = Annotated[str, typer.Option(help="The name by which local tools find this node.")]
TlsCert = Annotated[
    str | None, typer.Option(metavar="FILE", help="The certificate of the node (PEM).")
]
TlsKey = Annotated[
    str | None, typer.Option(metavar="FILE", help="The key of that certificate (PEM).")
]
TlsClientCa = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="Clients need a certificate that this CA has signed."),
]
Open = Annotated[bool, typer.Option("--open", help="Need no token; on a loopback address only.")]
Willow = Annotated[bool, typer.Option(help="Also serve Willow's API, below /v1.")]
Host = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME", help="A name by which clients reach the node, as in their URL; repeatable."
    ),
]
Workers = Annotated[
    list[str] | None,
    typer.Option(metavar="MODULE:APP", help="Also run a worker process for this app; repeatable."),
]
PipelineApps = Annotated[
    list[str] | None,
    typer.Option(metavar="MODULE:APP", help="Also run the pipelines of this app; repeatable."),
]
Concurrency = Annotated[
    int | None, typer.Option(min=1, help="How many handlers run concurrently for each queue.")
]
RestartAfter = Annotated[
    int | None, typer.Option(min=1, help="Start worker processes again after this many items.")
]


def register(app: typer.Typer) -> None:
    """Add the command to the app."""
    command(app)(up)


def up(
    session: CommandSession,
    store: Store = None,
    *,
    listen: Listen = None,
    socket: Socket = None,
    namespace: Namespace = DEFAULT_NAMESPACE,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    tls_client_ca: TlsClientCa = None,
    is_open: Open = False,
    willow: Willow = True,
    host: Host = None,
    worker: Workers = None,
    pipeline: PipelineApps = None,
    worker_concurrency: Concurrency = None,
    worker_restart_after: RestartAfter = None,
) -> None:
    """Serve a store over HTTP. SIGTERM or Ctrl-C stops gracefully, a second signal immediately.

    Clients connect to its URL: headrace.connect("http://127.0.0.1:7070"), or --url of any command.
    Clients of the same user and machine need no token: they find it in a private file.
    """
    # Other commands need none of this, and start faster without it.
    from headrace.node import options as node_options
    from headrace.node.process import NodeProcess
    from headrace.node.tls import tls_files
    from headrace.node.worker_processes import worker_commands

    node_options.require_server()
    session, settings = _settings(session, store)
    tls = tls_files(tls_cert, tls_key, tls_client_ca)
    if is_open:
        node_options.check_open(listen)
    options = node_options.NodeOptions(
        url=settings.url,
        namespace=namespace,
        tls=tls,
        is_open=is_open,
        willow=willow,
        hosts=host or (),
        workers=worker_commands(
            worker or (),
            pipeline or (),
            url=settings.url,
            concurrency=worker_concurrency,
            restart_after=worker_restart_after,
        ),
        connect={name: value for name, value in settings.options().items() if name in _CONNECT},
    )
    lock = local_nodes.lock_namespace(namespace)
    try:
        listeners = node_options.listen_on(listen, socket, is_tls=tls is not None)
    except BaseException:
        lock.release()
        raise
    for listener in listeners:
        output.note(f"listening on {listener.url}")
    NodeProcess(
        options,
        listeners,
        lock,
        on_ready=lambda record: _print_ready(session, record),
        on_stop=lambda: output.note(
            "stopping: running requests finish; a second signal stops immediately"
        ),
    ).run()


def _settings(session: CommandSession, store: str | None) -> tuple[CommandSession, Settings]:
    """The settings for the store of the argument, or of ``--url``."""
    from headrace.node.options import check_store_url

    session = session.with_url(store)
    settings = session.settings()
    check_store_url(settings.url)
    return session, settings


def _print_ready(session: CommandSession, record: NodeRecord) -> None:
    if session.is_json:
        output.json_line({"url": record.url, "pid": record.pid, "incarnation": record.incarnation})
        sys.stdout.flush()
    else:
        output.note(f"ready: headrace.connect({record.url!r}), or --url {record.url}")
