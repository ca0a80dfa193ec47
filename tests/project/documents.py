"""The documents of the repository, and the code blocks in them."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

_BLOCK = re.compile(r"^```(\w+)( run)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE_NAME = re.compile(r"# ([\w./@-]+\.\w+)\n")


class Block(NamedTuple):
    """A code block. A block of shell commands that is marked ``run`` can run in its turn."""

    language: str
    is_marked: bool
    line: int
    text: str

    @property
    def file(self) -> str | None:
        """The name that its first line gives, if it is the content of a file."""
        match = _FILE_NAME.match(self.text)
        return match[1] if match else None


def blocks(document: Path) -> Iterator[Block]:
    text = document.read_text("utf-8")
    for match in _BLOCK.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        yield Block(match[1], bool(match[2]), line, match[3])


def environment(folder: Path) -> dict[str, str]:
    """An environment in which ``headrace`` and ``python`` are those of this interpreter."""
    programs = folder / ".bin"
    programs.mkdir(exist_ok=True)
    for name, module in {"headrace": "-m headrace", "python": ""}.items():
        shim = programs / name
        shim.write_text(f'#!/bin/sh\nexec "{sys.executable}" {module} "$@"\n')
        shim.chmod(0o755)
    path = f"{programs}:{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "PYTHONUNBUFFERED": "1"}


def write_files(document: Path, folder: Path) -> None:
    """The Python files that a page shows."""
    for block in blocks(document):
        if block.language == "python" and block.file:
            path = folder / block.file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, "utf-8")


def run_shell(commands: str, folder: Path, **variables: str) -> str:
    """Run commands in a folder until the first one fails, and return what they print."""
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", commands],
        cwd=folder,
        env=environment(folder) | variables,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, f"{commands}\n{done.stdout}\n{done.stderr}"
    return done.stdout
