"""Where a store is, as one process tells another that must open the same one.

Spark plans in one Python process and reads in others, perhaps on other machines. Each opens
the store by itself, once, and keeps it.
"""

from __future__ import annotations

import platform
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from headrace.contract.store import Store
from headrace.errors import UnknownStore, UnsupportedStore
from headrace.model.url import masked, parse_url, with_options
from headrace.stores import open_store

# A worker of Spark's serves many queries, one after another; the last few stores stay open.
KEPT_OPEN = 4
_opened: dict[Place, Store] = {}


class Place(NamedTuple):
    """A store's URL and, of a SQLite file, the machine and the very file."""

    url: str
    machine: str = ""
    file: tuple[int, int] = (0, 0)


def place_of(url: str) -> Place:
    """The place of a store that several processes can use; a file must be there already."""
    parts = parse_url(url)
    if parts.scheme == "memory":
        raise UnsupportedStore(
            "Spark works in several processes, and a store in memory is in one: "
            "use sqlite:///… or postgresql://…."
        )
    if parts.scheme != "sqlite":
        return Place(url)
    path = Path(parts.location).absolute()
    return Place(absolute(url), this_machine(), _identity(path))


def absolute(url: str) -> str:
    """The URL with a SQLite file's whole path: Spark's processes have folders of their own."""
    parts = parse_url(url)
    if parts.scheme != "sqlite":
        return url
    path = quote(str(Path(parts.location).absolute()))
    return with_options(f"sqlite:///{path}", parts.options)


def opened(place: Place) -> Store:
    """The store at a place, opened once in this process; it must have been made before."""
    if place.machine:
        _check_same_file(place)
    # By the place and not by its URL: another file may have taken the path.
    store = _opened.pop(place, None) or open_store(place.url, migrate="off")
    _opened[place] = store
    while len(_opened) > KEPT_OPEN:
        _opened.pop(next(iter(_opened))).close()
    return store


def this_machine() -> str:
    """A name for this machine, as long as it runs; containers have their own."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        boot = ""
    return f"{platform.node()} {boot}".strip()


def _identity(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except OSError as error:
        raise UnknownStore(
            f"there is no SQLite file {path} on {platform.node()}: a path that does not begin at "
            "the root is looked for where Spark was started; write the whole path into the URL.",
            path=str(path),
        ) from error
    return found.st_dev, found.st_ino


def _check_same_file(place: Place) -> None:
    path = Path(parse_url(place.url).location)
    if place.machine == this_machine() and _identity(path) == place.file:
        return
    raise UnsupportedStore(
        f"the SQLite file {path} is on {place.machine.split()[0]}, and an executor on "
        f"{platform.node()} cannot see that very file: with SQLite use a local master, such as "
        f"local[*]; on a cluster keep topics in PostgreSQL ({masked(place.url)}).",
        path=str(path),
    )
