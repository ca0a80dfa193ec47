"""PipeProc's options, logs, records and errors, for both colours."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypedDict, TypeVar
from urllib.parse import quote

import msgspec

from headrace.core.commits import Entry
from headrace.errors import ClaimLost, HeadraceError, InvalidOption, NotConnected
from headrace.local_nodes import DEFAULT_NAMESPACE
from headrace.model.checks import MAX_NUMBER, positive
from headrace.model.fields import shown
from headrace.model.topics.positions import FROM_START
from headrace.model.topics.procs import ProcInfo
from headrace.model.topics.records import Record
from headrace.model.url import with_options
from headrace.node.spawn_arguments import GcArguments, SpawnArguments

T = TypeVar("T")
DEFAULT_LOCATION = "./pipeproc_data"
DEFAULT_GC_MS = 30_000
SPAWN_SECONDS = 30.0
NEVER = -1
"""PipeProc's ``reclaimTimeout`` of a proc whose claims do not time out."""

Strategy = Literal["disable", "continue", "dead_letter"]


class CommitLog(TypedDict):
    """A log to commit."""

    topic: str
    body: Any


class Log(TypedDict):
    """A committed log."""

    id: str
    body: Any


class GcOptions(TypedDict, total=False):
    """When old logs are collected, in milliseconds."""

    minPruneTime: int
    interval: int


class TcpOptions(TypedDict):
    """Where a node listens."""

    host: str
    port: int


class TlsFileOptions(TypedDict):
    """The paths of one side's files."""

    key: str
    cert: str
    ca: str


class TlsPairOptions(TypedDict):
    """The files of the node, and those of its clients."""

    server: TlsFileOptions
    client: TlsFileOptions


class SpawnOptions(TypedDict, total=False):
    """The options of ``spawn``."""

    namespace: str
    tcp: TcpOptions
    socket: str
    tls: TlsPairOptions | Literal[False]
    memory: bool
    location: str
    workers: int
    workerConcurrency: int
    workerRestartAfter: int
    gc: GcOptions | bool


class ConnectOptions(TypedDict, total=False):
    """The options of ``connect``. ``location`` opens a store without a node."""

    namespace: str
    tcp: TcpOptions
    socket: str
    tls: TlsFileOptions | Literal[False]
    timeout: int
    location: str


class RangeOptions(TypedDict, total=False):
    """The options of ``range`` and ``revrange``."""

    start: str
    end: str
    limit: int
    exclusive: bool


class ProcOptions(TypedDict, total=False):
    """The options of ``proc``; ``name`` is required."""

    name: str
    offset: str
    count: int
    maxReclaims: int
    reclaimTimeout: int
    onMaxReclaimsReached: Strategy


class AvailableProcOptions(ProcOptions, total=False):
    """The options of a proc for ``available_proc``."""

    topic: str


SystemProcOptions = TypedDict(
    "SystemProcOptions",
    {
        "name": str,
        "offset": str,
        "count": int,
        "maxReclaims": int,
        "reclaimTimeout": int,
        "onMaxReclaimsReached": Strategy,
        "from": "str | list[str]",
        "to": "str | list[str]",
        "processor": "str | Callable[..., Any]",
    },
    total=False,
)
"""The options of ``system_proc``; as a keyword, ``from`` is ``from_``."""


class LiveProcOptions(TypedDict, total=False):
    """The options of ``live_proc``; ``topic`` is required."""

    topic: str
    mode: Literal["live", "all"]
    count: int


class ProcRecord(TypedDict):
    """What ``inspect_proc`` returns. Times are milliseconds, 0 for never."""

    name: str
    topic: str
    offset: str
    createdAt: int
    status: Literal["active", "disabled"]
    lastClaimedAt: int
    lastAckedAt: int
    lastClaimedRange: str
    lastAckedRange: str
    previousClaimedRange: str
    reclaims: int
    maxReclaims: int
    reclaimTimeout: int
    onMaxReclaimsReached: Strategy


class AckCommitResult(TypedDict):
    """What ``ack_commit`` returns."""

    ackedLogId: str
    id: str | list[str]


class AvailableProc(TypedDict):
    """What ``available_proc`` returns."""

    procName: str
    log: Log | list[Log]


class PipeProcError(HeadraceError):
    """Every error of this module; ``code`` is PipeProc's word, ``__cause__`` the original error."""

    __module__ = "headrace.compat.pipeproc"  # its public home, for tracebacks and pickles

    def __init__(self, message: str, *, code: str, retryable: bool = False, **details: Any) -> None:
        super().__init__(message, code=code, retryable=retryable, **details)
        # One class for all of PipeProc's words.
        self.code = code  # type: ignore[misc]  # elsewhere a class has one code
        self.retryable = retryable  # type: ignore[misc]  # as above

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


Callback = Callable[[PipeProcError | None, Any], object]
"""Called with an error or None, and with the result or None."""

_WORDS = {
    "nothing_claimed": "nothing_to_reclaim",
    "unknown_store": "no_active_node",
    "node_exists": "system_already_active",
}
"""PipeProc's words for errors that have another code in Headrace."""


def pipeproc_error(error: HeadraceError) -> PipeProcError:
    """An error as PipeProc's clients see it, caused by the original."""
    if isinstance(error, PipeProcError):
        return error
    word = _WORDS.get(error.code, error.code)
    found = PipeProcError(error.message, code=word, retryable=error.retryable, **error.details)
    found.__cause__ = error
    return found


def no_node_in(namespace: str) -> NotConnected:
    return NotConnected(f"namespace {namespace!r} has no node: spawn one.", namespace=namespace)


def no_node() -> NotConnected:
    return NotConnected("this client has no node: call spawn or connect first.")


def no_claim(proc: str) -> ClaimLost:
    return ClaimLost(
        f"this client has no claim on proc {shown(proc)}: only the client whose call of proc "
        "returned the logs can ack or reclaim them.",
        proc=proc,
    )


def read_options(
    kind: type, given: Mapping[str, Any] | None, keywords: Mapping[str, Any]
) -> dict[str, Any]:
    """Options from a mapping with PipeProc's keys and from keywords in snake_case."""
    if given is not None and not isinstance(given, Mapping):
        raise InvalidOption(f"the options are {shown(given)}: give a mapping.", option="options")
    options = {**(given or {}), **{_camel_case(name): value for name, value in keywords.items()}}
    known = kind.__annotations__
    for name in options:
        if name not in known:
            raise InvalidOption(
                f"there is no option {shown(name)}: use some of {', '.join(known)}.", option=name
            )
    return {name: value for name, value in options.items() if value is not None}


def _camel_case(name: str) -> str:
    first, *rest = name.rstrip("_").split("_")
    return first + "".join(part.capitalize() for part in rest)


class NodePlan(NamedTuple):
    """The options of ``spawn`` in Headrace's words: a store, and arguments of its node."""

    url: str
    workers: int
    worker_concurrency: int
    worker_restart_after: int
    arguments: SpawnArguments


def node_options(options: Mapping[str, Any]) -> NodePlan:
    """Read the options of ``spawn``."""
    location = options.get("location", DEFAULT_LOCATION)
    for name, least in (("workers", 0), ("workerConcurrency", 1), ("workerRestartAfter", 0)):
        given = options.get(name, 1)
        if isinstance(given, bool) or not isinstance(given, int) or given < least:
            raise InvalidOption(f"{name} is {shown(given)}: use {least} or more.", option=name)
    arguments = SpawnArguments(
        namespace=options.get("namespace", DEFAULT_NAMESPACE), timeout=SPAWN_SECONDS
    )
    address = _address(options)
    if isinstance(address, Path):
        arguments["socket"] = address
    elif address is not None:
        arguments["listen"] = address
    if options.get("tls"):
        arguments["tls"] = options["tls"]
    gc = options.get("gc")
    # A database of others is not cleared unless somebody asks for that.
    if gc is not None or options.get("memory") or "://" not in str(location):
        arguments["gc"] = _retention(gc)
    return NodePlan(
        "memory://" if options.get("memory") else url_of(location),
        options.get("workers", 1),
        options.get("workerConcurrency", 1),
        options.get("workerRestartAfter", 0),
        arguments,
    )


def _retention(gc: object) -> GcArguments:
    if gc is False:
        return GcArguments(min_age=None, interval=DEFAULT_GC_MS / 1000)
    ages: Any = read_options(GcOptions, None if gc is True else gc, {})  # type: ignore[arg-type]  # checked there
    return GcArguments(
        min_age=_gc_seconds(ages, "minPruneTime"), interval=_gc_seconds(ages, "interval")
    )


class ConnectPlan(NamedTuple):
    """Where ``connect`` finds its store. ``namespace`` is None unless it names the node."""

    url: str | None
    namespace: str | None
    options: dict[str, Any]


def connect_options(options: Mapping[str, Any]) -> ConnectPlan:
    """Read the options of ``connect``."""
    found: dict[str, Any] = {"migrate": "off"}
    if options.get("timeout"):
        found["patience"] = positive("timeout", options["timeout"], most=MAX_NUMBER) / 1000
    if "location" in options:
        return ConnectPlan(url_of(options["location"]), None, found)
    address = _address(options)
    files = options.get("tls") or {}
    for name in ("ca", "cert", "key") if files else ():
        if not files.get(name):
            raise InvalidOption(f"tls connect options require a client {name}.", option="tls")
    if isinstance(address, Path):
        return ConnectPlan(f"unix://{quote(str(address))}", None, found)
    if address is not None:
        scheme = "https" if files else "http"
        return ConnectPlan(with_options(f"{scheme}://{address}", dict(files)), None, found)
    return ConnectPlan(None, options.get("namespace", DEFAULT_NAMESPACE), found)


def _address(options: Mapping[str, Any]) -> Path | str | None:
    """The path of a socket, or ``host:port``; None if the namespace decides."""
    if "socket" in options:
        text = str(options["socket"])
        scheme, _, rest = text.partition("://")
        if scheme == "ipc" and rest:
            return Path(rest)
        if scheme == "tcp" and rest:
            return rest
        raise InvalidOption(
            f"Invalid connection address: {shown(text)}. Write ipc:///path or tcp://host:port.",
            option="socket",
        )
    if "tcp" in options:
        tcp = read_options(TcpOptions, options["tcp"], {})
        if not tcp.get("host") or not tcp.get("port"):
            raise InvalidOption("tcp connection needs a host and a port.", option="tcp")
        return f"{tcp['host']}:{tcp['port']}"
    return None


def _gc_seconds(ages: GcOptions, name: Literal["minPruneTime", "interval"]) -> float:
    return positive(name, ages.get(name) or DEFAULT_GC_MS, most=MAX_NUMBER) / 1000


def url_of(location: object) -> str:
    """The URL of a location: a SQLite file, or a URL already."""
    if not isinstance(location, (str, Path)) or not str(location):
        raise InvalidOption(
            f"location is {shown(location)}: name a file, or give a store's URL.", option="location"
        )
    text = str(location)
    return text if "://" in text else f"sqlite:///{quote(text)}"


class ProcCall(msgspec.Struct, frozen=True):
    """The options of ``proc`` in Headrace's words."""

    name: str
    offset: str
    count: int
    settings: dict[str, Any]


def proc_call(options: Mapping[str, Any]) -> ProcCall:
    """Read the options of a proc. Zero means the default."""
    if "name" not in options:
        raise InvalidOption("the proc has no name: give the option name.", option="name")
    return ProcCall(
        options["name"],
        options.get("offset", FROM_START),
        options.get("count") or 1,
        proc_settings(options),
    )


def proc_settings(options: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a proc that are given and not zero."""
    settings: dict[str, Any] = {}
    if options.get("maxReclaims"):
        settings["max_attempts"] = options["maxReclaims"]
    if timeout := options.get("reclaimTimeout"):
        settings["lease"] = (
            None
            if timeout == NEVER
            else positive("reclaimTimeout", timeout, most=MAX_NUMBER) / 1000
        )
    if "onMaxReclaimsReached" in options:
        settings["on_exhausted"] = options["onMaxReclaimsReached"]
    return settings


def available_calls(procs: Iterable[Mapping[str, Any]]) -> dict[str, tuple[str, ProcCall]]:
    """Topics and procs to choose from, by name; entries without a name, topic or offset are left out."""
    calls = {}
    for given in procs:
        options = read_options(AvailableProcOptions, given, {})
        topic = options.pop("topic", None)
        if topic and options.get("name") and options.get("offset"):
            call = proc_call(options)
            calls[call.name] = (topic, call)
    return calls


def entry_of(log: object) -> Entry:
    """A log to commit, as Headrace has it."""
    if not isinstance(log, Mapping):
        raise InvalidOption(
            f"{shown(log)} is not a log: give its topic and its body.", option="log"
        )
    options = read_options(CommitLog, log, {})
    return options.get("topic", ""), options.get("body")


def entries_of(logs: object) -> tuple[list[Entry], bool]:
    """Logs to commit, and whether they were given as a list."""
    if isinstance(logs, (list, tuple)):
        return [entry_of(log) for log in logs], True
    return [entry_of(logs)], False


def log_of(record: Record) -> Log:
    """A record as a log."""
    return {"id": record.id, "body": record.body}


def logs_of(records: Iterable[Record], count: int) -> Log | list[Log]:
    """Claimed records: a list if more than one was asked for."""
    logs = [log_of(record) for record in records]
    return logs if count > 1 else logs[0]


def id_or_range(text: str) -> str:
    """A range, or one id if it has only one log."""
    first, _, last = text.partition("..")
    return first if first == last else text


def record_of(info: ProcInfo) -> ProcRecord:
    """A proc as PipeProc describes it."""
    return {
        "name": info.name,
        "topic": info.topic,
        "offset": info.offset,
        "createdAt": _ms(info.created_at),
        "status": info.status,
        "lastClaimedAt": _ms(info.last_claimed_at),
        "lastAckedAt": _ms(info.last_acked_at),
        "lastClaimedRange": info.last_claimed_range,
        "lastAckedRange": info.last_acked_range,
        "previousClaimedRange": info.previous_claimed_range,
        "reclaims": info.attempts,
        "maxReclaims": info.max_attempts,
        "reclaimTimeout": (NEVER if info.lease is None else round(info.lease * 1000)),
        "onMaxReclaimsReached": info.on_exhausted,
    }


def _ms(moment: datetime | None) -> int:
    return 0 if moment is None else round(moment.timestamp() * 1000)


def accepts(function: Callable[..., Any], count: int) -> bool:
    """Whether a function can be called with so many positional arguments."""
    try:
        inspect.signature(function).bind(*range(count))
    except TypeError:
        return False
    except ValueError:  # a built-in without a signature
        return True
    return True
