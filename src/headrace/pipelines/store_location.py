"""The location of a store, for other processes that must open the same one.

Spark plans in one Python process and reads in others, perhaps on other machines. Each of them
opens the store once and keeps it open.
"""

from __future__ import annotations

import platform
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from headrace.contract.store import Store
from headrace.errors import UnknownStore, UnsupportedStore
from headrace.model.url import NODE_SCHEMES, StoreUrl, masked, parse_url, with_options
from headrace.stores import open_store

# A worker of Spark serves many queries in turn; the last few stores stay open.
MAX_OPEN_STORES = 4
_open_stores: dict[StoreLocation, Store] = {}


class StoreLocation(NamedTuple):
    """A store's URL and, for a SQLite file, the machine, the device and the inode."""

    url: str
    machine: str = ""
    file: tuple[int, int] = (0, 0)

    def __repr__(self) -> str:
        return f"StoreLocation({masked(self.url)!r}, {self.machine!r}, {self.file!r})"


def location_of(url: str) -> StoreLocation:
    """The location of a store that several processes can use; a SQLite file must exist."""
    parts = _parse_shared(url)
    if parts.scheme != "sqlite":
        return StoreLocation(url)
    path = Path(parts.location).absolute()
    return StoreLocation(absolute_url(url), this_machine(), _identity(path))


def absolute_url(url: str) -> str:
    """The URL with the absolute path of a SQLite file: Spark's processes have other directories."""
    parts = _parse_shared(url)
    if parts.scheme != "sqlite":
        return url
    path = quote(str(Path(parts.location).absolute()))
    return with_options(f"sqlite:///{path}", parts.options)


def _parse_shared(url: str) -> StoreUrl:
    """The parts of the URL of a store that several processes can open."""
    parts = parse_url(url)
    if parts.scheme == "memory":
        raise UnsupportedStore(
            "Spark runs in several processes, and a store in memory exists in one only: "
            "use sqlite:///… or postgresql://…."
        )
    if parts.scheme in NODE_SCHEMES:
        raise UnsupportedStore(
            "Spark's executors read and write the database itself, not through a node: use the "
            "URL of the node's database."
        )
    return parts


def open_at(location: StoreLocation) -> Store:
    """The store at a location, opened once in this process; its tables must exist."""
    if location.machine:
        _check_same_file(location)
    # By location and not by URL: another file may be at the same path now.
    store = _open_stores.pop(location, None) or open_store(location.url, migrate="off")
    _open_stores[location] = store
    while len(_open_stores) > MAX_OPEN_STORES:
        _open_stores.pop(next(iter(_open_stores))).close()
    return store


def this_machine() -> str:
    """An identity of this machine until it restarts; containers have their own."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        boot = ""
    return f"{platform.node()} {boot}".strip()


def _identity(path: Path) -> tuple[int, int]:
    try:
        status = path.stat()
    except OSError as error:
        raise UnknownStore(
            f"there is no SQLite file {path} on {platform.node()}: a relative path is relative to "
            "the directory where Spark was started; write the absolute path into the URL.",
            path=str(path),
        ) from error
    return status.st_dev, status.st_ino


def _check_same_file(location: StoreLocation) -> None:
    path = Path(parse_url(location.url).location)
    if location.machine == this_machine() and _identity(path) == location.file:
        return
    raise UnsupportedStore(
        f"the SQLite file {path} is on {location.machine.split()[0]}, and an executor on "
        f"{platform.node()} cannot open that file: with SQLite use a local master, such as "
        f"local[*]; on a cluster keep topics in PostgreSQL ({masked(location.url)}).",
        path=str(path),
    )
