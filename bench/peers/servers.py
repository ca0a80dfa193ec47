"""Server programs from Debian packages, unpacked privately; servers on loopback."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.context import PeerMissing

PEERS = Path(__file__).parents[1] / "out" / "peers"
DOWNLOAD_SECONDS = 300
START_SECONDS = 20.0


def program(name: str, packages: Sequence[str]) -> Path:
    """The program, from the path or out of Debian packages that are only unpacked.

    Unpacking touches nothing of the system and starts no service.
    """
    on_path = shutil.which(name)
    if on_path:
        return Path(on_path)
    root = PEERS / packages[0]
    if not _unpacked(root, name):
        _download(root, packages)
    found = _unpacked(root, name)
    if found is None:
        raise PeerMissing(f"{name} is not in the Debian packages {', '.join(packages)}")
    return found


def unpacked(package: str, path: str) -> Path:
    """A file out of a Debian package that is only unpacked."""
    found = PEERS / package / path
    if not found.exists():
        _download(PEERS / package, [package])
    if not found.exists():
        raise PeerMissing(f"{path} is not in the Debian package {package}")
    return found


def _unpacked(root: Path, name: str) -> Path | None:
    places = (root / "usr" / "bin" / name, root / "usr" / "sbin" / name)
    return next((place for place in places if place.exists()), None)


def _download(root: Path, packages: Sequence[str]) -> None:
    if not (shutil.which("apt-get") and shutil.which("dpkg")):
        raise PeerMissing(f"install {packages[0]}: it is not on the path, and this is not Debian")
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    print(f"  fetching {', '.join(packages)}", flush=True)
    _run(["apt-get", "download", "-q", *packages], root)
    for package in sorted(root.glob("*.deb")):
        _run(["dpkg", "-x", package.name, "."], root)


def _run(command: Sequence[str], folder: Path) -> None:
    done = subprocess.run(
        command,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=DOWNLOAD_SECONDS,
        check=False,
    )
    if done.returncode:
        last = (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()[-1]
        raise PeerMissing(f"{command[0]} {command[1]} failed: {last}")


def version(path: Path) -> str:
    """What the program says of itself."""
    done = subprocess.run(
        [path, "--version"], capture_output=True, text=True, env=_environment(path), check=False
    )
    return done.stdout.strip() or done.stderr.strip()


@contextmanager
def running(command: Sequence[str | Path], port: int, log: Path) -> Iterator[int]:
    """A server from its first answer on ``port`` until it is no longer needed; yields its pid."""
    with log.open("ab") as output:
        process = subprocess.Popen(
            [str(part) for part in command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=_environment(Path(command[0])),
            cwd=log.parent,
            start_new_session=True,
        )
    try:
        _wait_until_it_answers(process, port, log)
        yield process.pid
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_until_it_answers(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    give_up = time.monotonic() + START_SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            if process.poll() is not None or time.monotonic() > give_up:
                end = log.read_text(errors="replace")[-300:]
                raise PeerMissing(f"it did not start: {end}") from None
            time.sleep(0.02)
        else:
            return


def _environment(path: Path) -> dict[str, str]:
    """Unpacked programs find the libraries that were unpacked with them."""
    libraries = sorted((path.parents[2] / "usr" / "lib").glob("*-linux-*"))
    if not path.is_relative_to(PEERS):
        return dict(os.environ)
    return {**os.environ, "LD_LIBRARY_PATH": ":".join(map(str, libraries))}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
