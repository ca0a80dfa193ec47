"""TLS of a node: its files, checked before it starts."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path

import msgspec

from headrace.errors import InvalidOption


class TlsFiles(msgspec.Struct, frozen=True):
    """The certificate and key of a node.

    With ``client_ca`` every client must have a certificate that it signed.
    """

    cert: str
    key: str
    client_ca: str | None = None


def tls_files(cert: str | None, key: str | None, client_ca: str | None) -> TlsFiles | None:
    """The files if there are any; ``InvalidOption`` names one that is missing or wrong."""
    if cert is None and key is None and client_ca is None:
        return None
    for name, given in (("--tls-cert", cert), ("--tls-key", key)):
        if given is None:
            raise InvalidOption(f"TLS needs a certificate and its key: give {name}.", option=name)
    assert cert is not None
    assert key is not None
    files = TlsFiles(cert, key, client_ca)
    server_context(files)
    return files


def server_context(files: TlsFiles) -> ssl.SSLContext:
    """The TLS settings of a node with these files; ``InvalidOption`` names a file that is wrong."""
    for name, path in _paths(files):
        try:
            Path(path).open("rb").close()
        except OSError as error:
            raise InvalidOption(
                f"the {name} {path} cannot be read: {error.strerror}.", option=name
            ) from error
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(files.cert, files.key)
    except ssl.SSLError as error:
        raise InvalidOption(
            f"the TLS certificate {files.cert} and the key {files.key} cannot be used: both must "
            "be PEM files, and the key must be that of the certificate.",
            option="tls",
        ) from error
    if files.client_ca is not None:
        try:
            context.load_verify_locations(files.client_ca)
        except ssl.SSLError as error:
            raise InvalidOption(
                f"the TLS client CA {files.client_ca} cannot be used: it must be a PEM file with "
                "certificates.",
                option="tls",
            ) from error
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def _paths(files: TlsFiles) -> Iterator[tuple[str, str]]:
    yield "TLS certificate", files.cert
    yield "TLS key", files.key
    if files.client_ca is not None:
        yield "TLS client CA", files.client_ca
