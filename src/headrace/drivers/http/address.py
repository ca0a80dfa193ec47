"""Where a node is, and how to speak to it: from a URL to connected sockets.

A token in a URL is a secret: no message and no ``repr`` shows it.
"""

from __future__ import annotations

import re
import socket
import ssl
from typing import NamedTuple
from urllib.parse import unquote

from headrace.contract.wire import JSON, MSGPACK, Format
from headrace.errors import InvalidOption, InvalidUrl
from headrace.model.fields import shown
from headrace.model.url import StoreUrl

_SERVER = re.compile(
    r"(?:(?P<login>[^@/]*)@)?(?P<host>\[[0-9a-fA-F:.%]+\]|[^:/@#\s\[\]]+)(?::(?P<port>\d{1,5}))?(?P<path>/[^@#]*)?"
)
_OPTIONS = {"http": {"format", "token"}, "unix": {"format", "token"}} | {
    "https": {"format", "token", "ca", "cert", "key"}
}
_PORTS = {"http": 80, "https": 443}
_FORMATS: dict[str, Format] = {"msgpack": MSGPACK, "json": JSON}


class Address(NamedTuple):
    """A node's address. ``shown`` is its URL without secrets, for messages."""

    shown: str
    host: str
    port: int
    socket_path: str | None
    prefix: str
    tls: ssl.SSLContext | None
    token: str | None
    format: Format

    def __repr__(self) -> str:
        return f"<Address {self.shown}>"

    @property
    def authority(self) -> str:
        """The value of the header ``Host``."""
        if self.socket_path is not None:
            return "localhost"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def connect(self, seconds: float) -> socket.socket:
        """A connected socket. ``OSError`` if that fails, or takes longer than ``seconds``."""
        seconds = max(seconds, 0.001)
        if self.socket_path is None:
            made = socket.create_connection((self.host, self.port), seconds)
        else:
            made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            made.settimeout(seconds)
        try:
            if self.socket_path is not None:
                made.connect(self.socket_path)
                return made
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return self.tls.wrap_socket(made, server_hostname=self.host) if self.tls else made
        except BaseException:
            made.close()
            raise


def parse_address(url: StoreUrl) -> Address:
    """Read the URL of a node. ``InvalidUrl`` says what it should look like."""
    options = dict(url.options)
    location = url.location.partition("://")[2]
    _check_options(url.scheme, options)
    format = _FORMATS.get(options.get("format", "msgpack"))
    if format is None:
        raise InvalidOption("the option format is msgpack or json.", option="format")
    if url.scheme == "unix":
        return _unix(location, options, format)
    found = _SERVER.fullmatch(location)
    if found is None or int(found["port"] or 0) > 65535:
        raise InvalidUrl(
            f"the node's URL cannot be read: write it like {url.scheme}://host:7070, with a token "
            f"like {url.scheme}://:token@host:7070."
        )
    host = found["host"].strip("[]")
    port = int(found["port"] or _PORTS[url.scheme])
    prefix = (found["path"] or "").rstrip("/")
    # The token stands where a password does, or alone.
    login = found["login"] or ""
    token = options.get("token") or unquote(login.partition(":")[2] or login.partition(":")[0])
    _check_header("host", host)
    _check_header("path", prefix)
    _check_header("token", token)
    written = f"{url.scheme}://{found['host']}:{port}{prefix}"
    tls = _tls(options) if url.scheme == "https" else None
    return Address(written, host, port, None, prefix, tls, token or None, format)


def _check_options(scheme: str, options: dict[str, str]) -> None:
    known = ", ".join(sorted(_OPTIONS[scheme]))
    for name in options:
        if name not in _OPTIONS[scheme]:
            # Behind a token, an unknown name may be a part of it.
            which = "such an option" if "token" in options else f"option {shown(name)}"
            raise InvalidUrl(f"a {scheme} URL has no {which}: use {known}.")


def _unix(location: str, options: dict[str, str], format: Format) -> Address:
    path = unquote(location)
    if not path.startswith("/") or len(path) < 2:
        raise InvalidUrl("the URL of a Unix socket has three slashes: unix:///run/headrace.sock.")
    _check_header("token", options.get("token", ""))
    shown_url = f"unix://{location}"
    return Address(shown_url, "localhost", 0, path, "", None, options.get("token"), format)


def _check_header(name: str, value: str) -> None:
    """Check that a part of the URL can stand in the head of a request."""
    if not (value.isascii() and value.isprintable() and " " not in value):
        raise InvalidUrl(
            f"the {name} in the node's URL has characters that it cannot have: copy it again, and "
            "write names of hosts as xn--… if they are not ASCII."
        )


def _tls(options: dict[str, str]) -> ssl.SSLContext:
    """The TLS settings of a URL: who signs the node's certificate, and our own certificate."""
    for name in ("ca", "cert", "key"):
        if name in options:
            _check_file(name, options[name])
    if "key" in options and "cert" not in options:
        raise InvalidOption("the option key needs the option cert.", option="cert")
    try:
        context = ssl.create_default_context(cafile=options.get("ca"))
        if "cert" in options:
            context.load_cert_chain(options["cert"], options.get("key"))
    except (ssl.SSLError, OSError) as error:
        raise InvalidOption(
            f"the certificates of the URL cannot be used ({error}): give PEM files as ca, cert "
            "and key.",
            option="ca",
        ) from error
    return context


def _check_file(option: str, path: str) -> None:
    try:
        with open(path, "rb"):  # noqa: PTH123  # only checks that it can be read
            pass
    except OSError as error:
        raise InvalidOption(
            f"the file {shown(path)} of the option {option} cannot be read: {error.strerror}.",
            option=option,
        ) from error
