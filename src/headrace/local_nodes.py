"""Nodes on this machine: the folder of each namespace, and the file by which local tools find one.

A node writes its URL and token to ``node.json`` in its namespace's folder. The file has mode 0600,
so only processes of the same user read it. While the node runs, it holds a lock on ``node.lock``
beside it. The kernel releases that lock when the process ends, however it ends, so a file without
a lock was left behind by a dead node.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import stat
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from headrace.errors import InvalidOption, NodeExists
from headrace.model.fields import shown
from headrace.model.forks import renew_in_child

DEFAULT_NAMESPACE = "default"
DEFAULT_LISTEN = "127.0.0.1:7070"
FOLDER_VARIABLE = "HEADRACE_RUNTIME_DIR"
NODE_FILE = "node.json"
TOKEN_FILE = "token"  # noqa: S105  # a name
LOCK_FILE = "node.lock"
SOCKET_FILE = "node.sock"
LOCK_PATIENCE_SECONDS = 1.0
"""Readers hold a node's lock for microseconds, to see whether a node has it."""

_NAMESPACE = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,63}")
_MAX_FILE_BYTES = 65_536


class NodeRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What a node's file says: where it listens, and as which process and incarnation.

    ``private_url`` is that of its Unix socket, if it has one. ``is_open`` says that it needs no
    token.
    """

    url: str
    pid: int
    incarnation: str
    token: str | None = None
    private_url: str | None = None
    is_open: bool = False

    @property
    def local_url(self) -> str:
        """The URL for programs of the same user on this machine."""
        return self.private_url or self.url

    def __repr__(self) -> str:
        return f"NodeRecord(url={self.url!r}, pid={self.pid}, incarnation={self.incarnation!r})"


class FileLock:
    """A lock on a file that ends with this process, and with programs that inherit ``fd``.

    The child of a fork does not keep it.
    """

    def __init__(self, fd: int) -> None:
        self.fd = fd
        renew_in_child(self, FileLock.release)

    def set_holder(self, pid: int) -> None:
        """Write down which process holds the lock, for the errors of others."""
        os.ftruncate(self.fd, 0)
        os.pwrite(self.fd, f"{pid}\n".encode(), 0)

    def release(self) -> None:
        """Release the lock. Its file stays: another process may have it open already."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)


def runtime_folder() -> Path:
    """The folder with the namespaces of this user.

    ``HEADRACE_RUNTIME_DIR``, else ``headrace`` in ``XDG_RUNTIME_DIR``, else ``headrace-<uid>`` in
    the folder for temporary files.
    """
    if chosen := os.environ.get(FOLDER_VARIABLE):
        return Path(chosen).absolute()
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime and Path(runtime).is_dir():
        return Path(runtime).absolute() / "headrace"
    import tempfile  # rarely needed, and every process imports this module

    return Path(tempfile.gettempdir()).absolute() / f"headrace-{os.geteuid()}"


def namespace_folder(namespace: str) -> Path:
    """The folder of a namespace; ``InvalidOption`` if nothing can have that name."""
    if not isinstance(namespace, str) or not _NAMESPACE.fullmatch(namespace):
        raise InvalidOption(
            f"the namespace is {shown(namespace)}: use 1 to 64 letters, digits, '_', '-' or '.', "
            "and no '.' at the beginning.",
            option="namespace",
        )
    return runtime_folder() / namespace


def make_private_folder(folder: Path) -> None:
    """Create a folder that only this user can enter, or check that it is one."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise InvalidOption(
            f"{folder} is not a folder: remove it, or set {FOLDER_VARIABLE} to another one.",
            option="namespace",
        )
    if found.st_uid != os.geteuid():
        raise InvalidOption(
            f"the folder {folder} belongs to another user: set {FOLDER_VARIABLE} to a folder of "
            "your own.",
            option="namespace",
        )
    if stat.S_IMODE(found.st_mode) & 0o077:
        raise InvalidOption(
            f"other users may enter the folder {folder}: run chmod 700 {folder}.",
            option="namespace",
        )


def lock_namespace(namespace: str) -> FileLock:
    """Lock a namespace for a node of this process; ``NodeExists`` if another node has it."""
    folder = namespace_folder(namespace)
    make_private_folder(runtime_folder())
    make_private_folder(folder)
    lock = try_lock(folder / LOCK_FILE)
    if isinstance(lock, FileLock):
        return lock
    record = _read_file(folder / NODE_FILE)
    where = f" at {record.url}" if record else ""
    raise NodeExists(
        f"namespace {namespace!r} has a node already{where}{_pid_words(lock)}: connect to it, stop "
        "it, or choose another namespace.",
        namespace=namespace,
        pid=lock,
        url=record.url if record else None,
    )


def try_lock(path: Path) -> FileLock | int | None:
    """Lock a file, which is created if needed; if another process has it, return its pid.

    None if that process did not write its pid yet.
    """
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise InvalidOption(
            f"{path} cannot be locked: {error.strerror}; choose another path.", option="socket"
        ) from error
    try:
        if os.fstat(fd).st_uid != os.geteuid():
            raise InvalidOption(
                f"{path} belongs to another user: choose another path.", option="socket"
            )
        deadline = time.monotonic() + LOCK_PATIENCE_SECONDS
        while not _flock(fd, fcntl.LOCK_EX):
            if time.monotonic() > deadline:
                text = os.pread(fd, 32, 0).strip()
                os.close(fd)
                return int(text) if text.isdigit() else None
            time.sleep(0.01)
    except InvalidOption:
        os.close(fd)
        raise
    lock = FileLock(fd)
    lock.set_holder(os.getpid())
    return lock


def write(namespace: str, record: NodeRecord) -> None:
    """Write the file of a namespace's node: complete from the moment it exists, and private."""
    _write_file(namespace_folder(namespace) / NODE_FILE, msgspec.json.encode(record) + b"\n")


def local_token(namespace: str, new: str) -> str:
    """The token of a namespace for programs of this user; ``new`` if it has none yet.

    It stays the same when a node is restarted, so that its clients go on. The caller has the lock
    of the namespace.
    """
    path = namespace_folder(namespace) / TOKEN_FILE
    text = _read_private(path)
    if text is not None and text.strip():
        return text.decode("ascii", "replace").strip()
    _write_file(path, f"{new}\n".encode())
    return new


def _write_file(path: Path, text: bytes) -> None:
    import tempfile  # only nodes need it

    fd, temporary = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)  # with mode 0600
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(text)
        Path(temporary).replace(path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            Path(temporary).unlink()
        raise


def remove(namespace: str, incarnation: str) -> None:
    """Remove the file of a namespace's node, unless it is another node's by now."""
    path = namespace_folder(namespace) / NODE_FILE
    record = _read_file(path)
    if record is not None and record.incarnation == incarnation:
        with contextlib.suppress(FileNotFoundError):
            path.unlink()


def find(namespace: str = DEFAULT_NAMESPACE) -> NodeRecord | None:
    """The running node of a namespace; None if there is none."""
    folder = namespace_folder(namespace)
    record = _read_file(folder / NODE_FILE)
    return record if record is not None and _is_locked(folder / LOCK_FILE) else None


def find_by_url(url: str) -> NodeRecord | None:
    """The running node of this user and machine that listens at a URL; None if there is none."""
    wanted = _comparable(url)
    return next((record for record in find_all() if _comparable(record.url) == wanted), None)


def _comparable(url: str) -> str:
    return url.rstrip("/").replace("://localhost:", "://127.0.0.1:")


def find_all() -> Iterator[NodeRecord]:
    """All running nodes of this user on this machine."""
    try:
        names = sorted(folder.name for folder in runtime_folder().iterdir())
    except OSError:
        return
    for name in names:
        if _NAMESPACE.fullmatch(name) and (record := find(name)) is not None:
            yield record


def _read_file(path: Path) -> NodeRecord | None:
    """A node's file; None if there is none, or one that this user did not write."""
    text = _read_private(path)
    try:
        return None if text is None else msgspec.json.decode(text, type=NodeRecord)
    except msgspec.MsgspecError:
        return None


def _read_private(path: Path) -> bytes | None:
    """A file that only this user can read; None if there is no such file."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(fd, "rb") as file:
        found = os.fstat(fd)
        is_private = found.st_uid == os.geteuid() and not stat.S_IMODE(found.st_mode) & 0o077
        return file.read(_MAX_FILE_BYTES) if stat.S_ISREG(found.st_mode) and is_private else None


def _is_locked(path: Path) -> bool:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return not _flock(fd, fcntl.LOCK_SH)
    finally:
        os.close(fd)


def _flock(fd: int, kind: int) -> bool:
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _pid_words(pid: int | None) -> str:
    return f" (pid {pid})" if pid else ""
