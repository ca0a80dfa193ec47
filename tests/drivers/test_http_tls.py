"""TLS between the driver over HTTP and a node: certificates, and peers that do not speak it."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography.x509 import DNSName

import headrace
from certificates import write_certificate
from headrace.errors import HeadraceError, StoreError, StoreUnavailable
from headrace.node.app import NodeApp
from headrace.node.guard import OpenGuard
from headrace.node.server import NodeServer
from headrace.node.sockets import listen_tcp
from headrace.node.tls import TlsFiles, tls_files
from headrace.stores import open_store

PATIENCE = 60.0
FOR_EVER = 3600.0
"""The patience of clients that are refused: they do not wait for anything."""


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certificates")
    for name in ("node", "client", "stranger"):
        write_certificate(folder, name)
    write_certificate(folder, "elsewhere", DNSName("elsewhere.example"))
    write_certificate(folder, "expired", ends_in=-timedelta(days=1))
    return folder


@contextmanager
def node(files: TlsFiles | None) -> Iterator[str]:
    """The URL of a node with these certificates."""
    listener = listen_tcp("127.0.0.1", 0, is_tls=files is not None)
    is_ready = threading.Event()
    server = NodeServer(
        lambda: open_store("memory://tls"),
        lambda store, client, root, closing: NodeApp(store, guard=OpenGuard(), closing=closing),
        [listener],
        tls=files,
        on_ready=is_ready.set,
    )
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        assert is_ready.wait(PATIENCE)
        yield listener.url
    finally:
        server.stop()
        thread.join(PATIENCE)
        listener.close()


def files_of(folder: Path, name: str, client: str | None = None) -> TlsFiles | None:
    paths = [str(folder / f"{name}.pem"), str(folder / f"{name}.key")]
    return tls_files(*paths, None if client is None else str(folder / f"{client}.pem"))


def test_operations_and_notifications(certificates: Path) -> None:
    with node(files_of(certificates, "node", client="client")) as url:
        options = f"?ca={certificates}/node.pem"
        options += f"&cert={certificates}/client.pem&key={certificates}/client.key"
        with headrace.connect(url + options) as hr:
            pusher = threading.Timer(0.1, hr.queue("q").push, ["it"])
            pusher.start()
            [item] = hr.queue("q").claim(wait=PATIENCE)
            item.complete()
            pusher.join()

        async def use() -> None:
            async with headrace.aconnect(url + options) as hr:
                await asyncio.gather(*(hr.queue("q").push(n) for n in range(50)))
                assert (await hr.queue("q").stats()).pending == 50

        asyncio.run(use())


@pytest.mark.parametrize(
    ("name", "ca", "words"),
    [
        ("node", "client", r"self-signed certificate.*\?ca="),
        ("node", None, r"self-signed certificate.*\?ca="),
        ("elsewhere", "elsewhere", "IP address mismatch.*a name that the certificate has"),
        ("expired", "expired", "has expired"),
    ],
)
def test_a_certificate_that_is_not_accepted(
    certificates: Path, name: str, ca: str | None, words: str
) -> None:
    """A wrong CA, no CA, a wrong host and an expired certificate are named without delay."""
    options = "" if ca is None else f"?ca={certificates}/{ca}.pem"
    with node(files_of(certificates, name)) as url, pytest.raises(StoreError, match=words):
        headrace.connect(url + options, patience=FOR_EVER)


@pytest.mark.parametrize("client", [None, "stranger"])
def test_a_client_that_the_node_refuses(certificates: Path, client: str | None) -> None:
    options = f"?ca={certificates}/node.pem"
    if client is not None:
        options += f"&cert={certificates}/{client}.pem&key={certificates}/{client}.key"
    with (
        node(files_of(certificates, "node", client="client")) as url,
        pytest.raises(StoreUnavailable, match=r"a certificate that it accepts as in \?cert="),
    ):
        headrace.connect(url + options, patience=0.2)


def test_a_node_without_tls() -> None:
    with node(None) as url, pytest.raises(StoreError, match=r"not speak TLS.*use http://"):
        headrace.connect(url.replace("http://", "https://"), patience=FOR_EVER)


def test_a_node_with_tls(certificates: Path) -> None:
    with (
        node(files_of(certificates, "node")) as url,
        pytest.raises(HeadraceError, match="this node speaks TLS: use https://"),
    ):
        headrace.connect(url.replace("https://", "http://"), patience=FOR_EVER)
