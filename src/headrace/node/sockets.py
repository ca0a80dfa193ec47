"""Listening sockets: made by us, so that a node never takes the place of another one.

A Unix socket is created in a folder that no other user may write to, under a lock on
``<path>.lock``. The process that has the lock owns the path, and removes what a dead node left.
"""

from __future__ import annotations

import errno
import os
import re
import socket
import stat
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import quote

from headrace import local_nodes
from headrace.errors import InvalidOption, NodeExists
from headrace.local_nodes import FileLock, try_lock
from headrace.model.forks import renew_in_child
from headrace.node.port_owner import find_port_owner

BACKLOG = 1024
CONNECT_SECONDS = 1.0
MAX_PORT = 65_535
_ADDRESS = re.compile(r"(?:\[(?P<six>[^\[\]]+)\]|(?P<host>[^:\[\]]*)):(?P<port>\d{1,5})")


class ListeningSocket:
    """A listening socket, the URL that clients connect to, and for a Unix socket its lock."""

    def __init__(
        self, sock: socket.socket, url: str, path: Path | None, lock: FileLock | None
    ) -> None:
        self.socket = sock
        self.url = url
        self.path = path
        self.lock = lock
        renew_in_child(self, ListeningSocket._leave)

    @property
    def fds(self) -> tuple[int, ...]:
        """The descriptors that a process needs to listen in place of this one."""
        return (self.socket.fileno(), *(() if self.lock is None else (self.lock.fd,)))

    def close(self, *, keep_file: bool = False) -> None:
        """Stop listening, and remove the socket's file. The lock goes last: the path is ours.

        With ``keep_file`` the file stays for another process that listens on the same socket.
        """
        is_ours = self.lock is not None and self.lock.fd >= 0
        if self.path is not None and is_ours and not keep_file:
            self.path.unlink(missing_ok=True)
        self._leave()

    def _leave(self) -> None:
        # A child of a fork does not listen, and must not keep the lock of its parent.
        self.socket.close()
        if self.lock is not None:
            self.lock.release()


def parse_address(text: str) -> tuple[str, int]:
    """The host and port of ``host:port``; an IPv6 address stands in brackets."""
    found = _ADDRESS.fullmatch(text)
    if found is None or int(found["port"]) > MAX_PORT:
        raise InvalidOption(
            f"{text!r} is not an address to listen on: write host:port, as in 127.0.0.1:7070.",
            option="listen",
        )
    return found["six"] or found["host"] or "0.0.0.0", int(found["port"])  # noqa: S104  # as asked


def listen_tcp(host: str, port: int, *, is_tls: bool = False) -> ListeningSocket:
    """Listen on a TCP port; 0 is a free one. ``NodeExists`` names the process that has the port."""
    family, address = _resolve(host, port)
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind(address)
        sock.listen(BACKLOG)
        sock.setblocking(False)
    except OSError as error:
        sock.close()
        raise _not_bound(error, host, port) from error
    return ListeningSocket(sock, tcp_url(host, sock.getsockname()[1], is_tls=is_tls), None, None)


def tcp_url(host: str, port: int, *, is_tls: bool) -> str:
    """The URL at which clients of this machine reach a TCP socket."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104  # any address
    shown = f"[{host}]" if ":" in host else host
    return f"{'https' if is_tls else 'http'}://{shown}:{port}"


def is_loopback(host: str) -> bool:
    """Whether only processes of this machine reach an address."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def listen_unix(path: Path) -> ListeningSocket:
    """Listen on a Unix socket that only this user can connect to.

    ``NodeExists`` with its pid if a node listens there.
    """
    path = path.absolute()
    _check_folder(path)
    lock = try_lock(path.with_name(f"{path.name}.lock"))
    if not isinstance(lock, FileLock):
        raise _path_taken(path, lock)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _remove_dead(path)
        sock.bind(str(path))
        # No client can connect before listen(), so the mode that the umask gave does not matter.
        path.chmod(0o600)
        sock.listen(BACKLOG)
        sock.setblocking(False)
    except OSError as error:
        sock.close()
        lock.release()
        raise InvalidOption(
            f"cannot listen on {path}: {_reason(error)}; choose another path.", option="socket"
        ) from error
    except BaseException:
        sock.close()
        lock.release()
        raise
    return ListeningSocket(sock, unix_url(path), path, lock)


def unix_url(path: Path) -> str:
    """The URL of a Unix socket."""
    return f"unix://{quote(str(path))}"


def adopt(url: str, fds: list[int]) -> ListeningSocket:
    """The listener whose descriptors this process inherited."""
    sock = socket.socket(fileno=fds[0])
    sock.setblocking(False)
    for fd in fds:
        os.set_inheritable(fd, False)
    if sock.family != socket.AF_UNIX:
        return ListeningSocket(sock, url, None, None)
    lock = FileLock(fds[1])
    lock.set_holder(os.getpid())
    return ListeningSocket(sock, url, Path(sock.getsockname()), lock)


def _resolve(host: str, port: int) -> tuple[int, tuple[str, int]]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise InvalidOption(
            f"the host {host!r} is not known: listen on an address of this machine, as in "
            f"127.0.0.1:{port}.",
            option="listen",
        ) from error
    family, _, _, _, address = found[0]
    return family, address  # type: ignore[return-value]  # TCP addresses have a host and a port


def _not_bound(error: OSError, host: str, port: int) -> Exception:
    if error.errno == errno.EADDRINUSE:
        owner = _port_owner(port)
        return NodeExists(
            f"port {port} of {host} is taken{owner}: stop that process, or choose another port "
            f"with --listen {host}:PORT.",
            port=port,
        )
    return InvalidOption(
        f"cannot listen on {host}:{port}: {_reason(error)}; choose another address.",
        option="listen",
    )


def _port_owner(port: int) -> str:
    for record in local_nodes.find_all():
        if record.url.endswith(f":{port}"):
            return f" by a node with pid {record.pid}"
    owner = find_port_owner(port)
    return f" by {owner}" if owner else ""


def _check_folder(path: Path) -> None:
    folder = path.parent
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.stat()
    if found.st_uid not in (os.geteuid(), 0):
        raise InvalidOption(
            f"the folder {folder} belongs to another user, who could replace the socket: choose a "
            "folder of your own.",
            option="socket",
        )
    if stat.S_IMODE(found.st_mode) & 0o022:
        raise InvalidOption(
            f"other users may write to {folder} and replace the socket: choose a folder of your "
            f"own, or run chmod go-w {folder}.",
            option="socket",
        )


def _remove_dead(path: Path) -> None:
    """Remove the file of a dead node. The caller has the lock, so no node listens there."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise InvalidOption(
            f"{path} exists and is not a socket: remove it, or choose another path.",
            option="socket",
        )
    if found.st_uid != os.geteuid():
        raise InvalidOption(
            f"the socket {path} belongs to another user: choose another path.", option="socket"
        )
    if _is_served(path):
        raise NodeExists(
            f"a program that is not a node listens on {path}: choose another path.",
            path=str(path),
            pid=None,
        )
    path.unlink()


def _is_served(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(CONNECT_SECONDS)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            return False
        except OSError:
            return True  # a full backlog, for example
        return True


def _path_taken(path: Path, pid: int | None) -> NodeExists:
    by = f" with pid {pid}" if pid else ""
    return NodeExists(
        f"a node{by} listens on {path}: connect to {unix_url(path)}, stop that node, or choose "
        "another path.",
        path=str(path),
        pid=pid,
    )


def _reason(error: OSError) -> str:
    match error.errno:
        case errno.EACCES | errno.EPERM:
            return "this user may not do that"
        case errno.EADDRNOTAVAIL:
            return "it is not an address of this machine"
        case _:
            return error.strerror or str(error)
