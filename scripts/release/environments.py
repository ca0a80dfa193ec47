"""Empty environments with a release in them, and the interpreters and servers to try it on."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
LOCK = ROOT / "requirements.lock"
FLOOR = (3, 11)

Version = tuple[int, int]


def interpreters() -> dict[Version, str]:
    """The Pythons of this machine from the lowest that we support on, by version."""
    found: dict[Version, str] = {}
    for name in _candidates():
        version = _version_of(name)
        if version is not None and version >= FLOOR:
            found.setdefault(version, name)
    return dict(sorted(found.items()))


def postgres_folders(named: Iterable[str]) -> list[Path]:
    """Folders with PostgreSQL's server programs: those named, or all of this machine."""
    folders = [Path(name) for name in named]
    folders = folders or sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    if not folders and (initdb := shutil.which("initdb")):
        folders = [Path(initdb).parent]
    return [folder for folder in folders if (folder / "initdb").exists()]


def postgres_version(folder: Path) -> str:
    """Such as ``15.14``."""
    shown = subprocess.run(
        [folder / "postgres", "--version"], check=True, capture_output=True, text=True
    )
    return re.sub(r".*\(PostgreSQL\) (\S+).*\n", r"\1", shown.stdout)


def make(folder: Path, interpreter: str, artifact: Path, packages: Iterable[str]) -> Path:
    """An environment with the artifact and what the packages need, pinned; returns its Python."""
    subprocess.run([interpreter, "-m", "venv", folder], check=True)
    python = folder / "bin" / "python"
    pins = folder / "pins.txt"
    pins.write_text("\n".join(_pins(_closure(packages))) + "\n", "utf-8")
    _pip(python, "install", "--require-hashes", "--only-binary", ":all:", "-r", str(pins))
    _pip(python, "install", "--no-deps", "--no-index", "--no-build-isolation", str(artifact))
    _pip(python, "check")
    return python


def run(python: Path, *args: str | Path, cwd: Path, **environment: str) -> None:
    """Run Python in an environment, with no setting of ours and no path to the source."""
    clean = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "HEADRACE_", "VIRTUAL_ENV"))
    }
    path = f"{python.parent}{os.pathsep}{clean['PATH']}"
    subprocess.run([python, *args], cwd=cwd, env={**clean, "PATH": path, **environment}, check=True)


def _candidates() -> Iterator[str]:
    yield sys.executable
    for minor in range(FLOOR[1], 30):
        if (name := shutil.which(f"python3.{minor}")) is not None:
            yield name
    for root in filter(None, [os.environ.get("PYENV_ROOT"), Path.home() / ".pyenv"]):
        yield from map(str, sorted(Path(root, "versions").glob("3.*/bin/python")))
    if uv := shutil.which("uv"):
        listed = subprocess.run(
            [uv, "python", "list", "--only-installed", "--output-format", "json"],
            check=False,
            capture_output=True,
            text=True,
        )
        yield from re.findall(r'"path": *"([^"]+)"', listed.stdout)


def _version_of(interpreter: str) -> Version | None:
    """The version, or None if it does not run or cannot make an environment."""
    asked = "import sys, venv, ensurepip, sqlite3; print(*sys.version_info[:2])"
    done = subprocess.run([interpreter, "-c", asked], check=False, capture_output=True, text=True)
    if done.returncode:
        return None
    major, minor = map(int, done.stdout.split())
    return major, minor


def _closure(packages: Iterable[str]) -> set[str]:
    """The packages with everything they need, by the metadata of this environment."""
    found: set[str] = set()
    waiting = [Requirement(package) for package in packages]
    seen: set[str] = set()
    while waiting:
        requirement = waiting.pop()
        if str(requirement) in seen:
            continue
        seen.add(str(requirement))
        found.add(canonicalize_name(requirement.name))
        try:
            listed = requires(requirement.name) or []
        except PackageNotFoundError:
            # Another platform or Python needs it, not this one.
            continue
        waiting += [
            inner for inner in map(Requirement, listed) if _is_wanted(inner, requirement.extras)
        ]
    return found


def _is_wanted(requirement: Requirement, extras: set[str]) -> bool:
    if requirement.marker is None or "extra" not in str(requirement.marker):
        return True
    return any(requirement.marker.evaluate({"extra": extra}) for extra in extras)


def _pins(packages: set[str]) -> Iterator[str]:
    """The entries of the lock for these packages, with their hashes."""
    for entry in re.split(r"\n(?=[a-z0-9])", LOCK.read_text("utf-8")):
        name = re.match(r"[a-z0-9-]+(?===)", entry)
        if name and name[0] in packages:
            yield re.sub(r"(?m)^ *#.*\n?", "", entry).rstrip()


def _pip(python: Path, *args: str) -> None:
    subprocess.run([python, "-m", "pip", "--disable-pip-version-check", "-qq", *args], check=True)
