"""From the arguments of ``spawn`` to a node that can be started, checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypedDict
from urllib.parse import quote

from headrace import local_nodes
from headrace.errors import InvalidOption
from headrace.local_nodes import SOCKET_FILE, NodeRecord
from headrace.model.checks import positive, seconds
from headrace.model.fields import shown
from headrace.model.times import duration_ms, optional_ms
from headrace.model.url import with_options
from headrace.node.options import (
    NodeOptions,
    RetentionChoice,
    check_store_url,
    listen_on,
    require_server,
)
from headrace.node.sockets import listen_unix
from headrace.node.spawner import Spawner
from headrace.node.tls import TlsFiles, server_context
from headrace.node.worker_processes import require_command, worker_commands


class TlsPaths(TypedDict, total=False):
    """Files of one side: its key, its certificate, and the CA that signs those of the other."""

    key: str
    cert: str
    ca: str


class TlsOptions(TypedDict, total=False):
    """TLS of a spawned node: the files of the node, and those of its clients."""

    server: TlsPaths
    client: TlsPaths


class GcArguments(TypedDict, total=False):
    """When old records are removed: after ``min_age`` seconds (None: never), each ``interval``."""

    min_age: float | None
    interval: float


class SpawnArguments(TypedDict, total=False):
    """The options of ``spawn``."""

    namespace: str
    listen: str | None
    socket: str | Path | None
    tls: TlsOptions | None
    workers: Sequence[str]
    pipelines: Sequence[str]
    worker_concurrency: int | None
    worker_restart_after: int
    gc: bool | GcArguments | None
    restarts: int
    detached: bool
    timeout: float
    durability: Literal["safe", "relaxed"] | None
    migrate: Literal["auto", "create", "off"] | None
    patience: float | None


class SpawnPlan(NamedTuple):
    """A node that can be started, and how its clients connect."""

    spawner: Spawner
    client_options: dict[str, str]

    def client_url(self, record: NodeRecord) -> str:
        """The URL of the node with what a client needs: the token and its TLS files."""
        url = record.url
        if record.token is not None:
            scheme, _, rest = url.partition("://")
            url = f"{scheme}://:{quote(record.token)}@{rest}"
        return with_options(url, self.client_options)


def plan_spawn(url: str, options: SpawnArguments) -> SpawnPlan:
    """Check the options, lock the namespace and listen. ``NodeExists`` if another node does."""
    known = SpawnArguments.__annotations__
    for name in options:
        if name not in known:
            raise InvalidOption(
                f"spawn has no option {shown(name)}: use some of {', '.join(known)}.", option=name
            )
    require_server()
    check_store_url(url)
    tls, client_options = _tls(options.get("tls"))
    retention = _retention(options.get("gc"))
    namespace = options.get("namespace", local_nodes.DEFAULT_NAMESPACE)
    restarts = options.get("restarts", 3)
    if isinstance(restarts, bool) or not isinstance(restarts, int) or restarts < 0:
        raise InvalidOption(f"restarts is {shown(restarts)}: use 0 or more.", option="restarts")
    timeout = seconds("timeout", options.get("timeout", 10.0))
    listen, path = options.get("listen"), options.get("socket")
    if tls is not None and (listen is None or path is not None):
        raise InvalidOption(
            "TLS is for TCP: give listen='127.0.0.1:0', or leave tls out.", option="tls"
        )
    connect = {
        name: options[name]
        for name in ("durability", "migrate", "patience")
        if options.get(name) is not None
    }
    if "patience" in connect:
        seconds("patience", connect["patience"])
    node = NodeOptions(
        url=url,
        namespace=namespace,
        tls=tls,
        workers=_worker_commands(url, options),
        # A worker that needs longer must not make the node too slow.
        start_seconds=timeout / 2,
        connect=connect,
        retention=retention,
    )
    lock = local_nodes.lock_namespace(namespace)
    try:
        if path is not None:
            listener = listen_unix(Path(path))
        elif listen is not None:
            [listener] = listen_on(listen, None, is_tls=tls is not None)
        else:
            listener = listen_unix(local_nodes.namespace_folder(namespace) / SOCKET_FILE)
    except BaseException:
        lock.release()
        raise
    spawner = Spawner(
        node,
        listener,
        lock,
        restarts=restarts,
        timeout=timeout,
        is_detached=bool(options.get("detached")),
    )
    return SpawnPlan(spawner, client_options)


def _worker_commands(url: str, options: SpawnArguments) -> list[list[str]]:
    apps = _targets("workers", options.get("workers", ()))
    pipelines = _targets("pipelines", options.get("pipelines", ()))
    concurrency = options.get("worker_concurrency")
    if concurrency is not None:
        positive("worker_concurrency", concurrency)
    restart_after = options.get("worker_restart_after", 0)
    if restart_after:
        positive("worker_restart_after", restart_after)
    if apps or pipelines:
        require_command()
    return worker_commands(
        apps, pipelines, url=url, concurrency=concurrency, restart_after=restart_after
    )


def _targets(option: str, targets: object) -> list[str]:
    if isinstance(targets, str) or not isinstance(targets, Sequence):
        raise InvalidOption(
            f"{option} is {shown(targets)}: give apps as a list of 'module:app'.", option=option
        )
    for target in targets:
        if not isinstance(target, str) or ":" not in target:
            raise InvalidOption(
                f"{shown(target)} is not of the form module:app, as in shop.jobs:app.",
                option=option,
            )
    return list(targets)


def _retention(given: bool | GcArguments | None) -> RetentionChoice | None:
    if given is None or given is False:
        return None
    chosen: Mapping[str, Any] = {} if given is True else given
    if not isinstance(chosen, Mapping) or set(chosen) - {"min_age", "interval"}:
        raise InvalidOption(
            f"gc is {shown(given)}: use True, or a mapping with min_age and interval.", option="gc"
        )
    choice = RetentionChoice(**chosen)
    optional_ms("min_age", choice.min_age)
    duration_ms("interval", choice.interval, least=1)
    return choice


def _tls(given: TlsOptions | None) -> tuple[TlsFiles | None, dict[str, str]]:
    """The files of the node, and the options of a client's URL."""
    if given is None:
        return None, {}
    for side in ("server", "client"):
        if side not in given:
            raise InvalidOption(f"tls needs {side}: its key, cert and ca.", option="tls")
        for name in ("ca", "cert", "key"):
            if not given[side].get(name):
                raise InvalidOption(
                    f"tls.{side} has no {name}: give the path of a PEM file.", option="tls"
                )
    server, client = given["server"], given["client"]
    files = TlsFiles(server["cert"], server["key"], server["ca"])
    server_context(files)
    server_context(TlsFiles(client["cert"], client["key"], client["ca"]))
    return files, {name: str(client[name]) for name in ("ca", "cert", "key")}
