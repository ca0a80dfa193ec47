"""Which process listens on a TCP port, where Linux lets this user know it."""

from __future__ import annotations

from pathlib import Path

_LISTEN = "0A"


def find_port_owner(port: int) -> str | None:
    """The process that listens on a port, as ``name (pid 42)``; None if it cannot be known."""
    inodes = {f"socket:[{inode}]" for table in ("tcp", "tcp6") for inode in _inodes(table, port)}
    if not inodes:
        return None
    for process in Path("/proc").glob("[0-9]*"):
        if _has_any(process, inodes):
            return f"{_name(process)} (pid {process.name})"
    return None


def _inodes(table: str, port: int) -> list[str]:
    try:
        lines = Path("/proc/net", table).read_text("ascii").splitlines()[1:]
    except OSError:
        return []
    rows = [line.split() for line in lines]
    return [row[9] for row in rows if row[1].endswith(f":{port:04X}") and row[3] == _LISTEN]


def _has_any(process: Path, inodes: set[str]) -> bool:
    try:
        return any(str(fd.readlink()) in inodes for fd in (process / "fd").iterdir())
    except OSError:
        return False  # another user's process, or one that has just ended


def _name(process: Path) -> str:
    try:
        return (process / "comm").read_text("utf-8", errors="replace").strip()
    except OSError:
        return "a process"
