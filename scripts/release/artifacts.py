"""The files of a release, and what must be true of them without installing them."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from email.message import Message
from email.parser import BytesParser
from email.policy import compat32
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from packaging.metadata import Metadata
from readme_renderer import markdown
from trove_classifiers import classifiers

ROOT = Path(__file__).resolve().parents[2]

SDIST_NAMES = ("src", "tests", "docs", "scripts", "README.md", "LICENSE", "pyproject.toml")
STRAY_NAMES = ("__pycache__", ".venv", "build", "dist", ".git", ".pytest_cache", ".hypothesis")
STRAY_SUFFIXES = (".pyc", ".db", ".log", ".egg-info")


class Artifacts(NamedTuple):
    """What a release uploads."""

    wheel: Path
    sdist: Path


def build(folder: Path, source: Path = ROOT) -> Artifacts:
    """Build both from a source tree, with the build backend of this environment."""
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", folder],
        cwd=source,
        check=True,
        capture_output=True,
    )
    [wheel], [sdist] = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return Artifacts(wheel, sdist)


def problems(artifacts: Artifacts) -> Iterator[str]:
    """What is wrong with the files and their metadata."""
    with zipfile.ZipFile(artifacts.wheel) as wheel:
        names = wheel.namelist()
        yield from _wrong_wheel_files(names)
        [path] = [name for name in names if name.endswith(".dist-info/METADATA")]
        content = wheel.read(path)
    yield from _wrong_metadata(content)
    with tarfile.open(artifacts.sdist) as sdist:
        members = [PurePosixPath(name) for name in sdist.getnames()]
    yield from _wrong_sdist_files(members)


def wheel_from_sdist(sdist: Path, folder: Path) -> Path:
    """The wheel that users of the sdist build."""
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    [source] = folder.iterdir()
    return build(folder / "dist", source).wheel


def same_files(one: Path, other: Path) -> bool:
    """Whether two wheels hold the same files with the same content."""
    with zipfile.ZipFile(one) as first, zipfile.ZipFile(other) as second:
        return _digests(first) == _digests(second)


def version() -> str:
    """The version, from the one place where it is written."""
    source = (ROOT / "src" / "headrace" / "__init__.py").read_text("utf-8")
    [found] = re.findall(r"^__version__ = (.+)$", source, re.MULTILINE)
    return str(ast.literal_eval(found))


def _digests(wheel: zipfile.ZipFile) -> dict[str, int]:
    return {info.filename: info.CRC for info in wheel.infolist()}


def _wrong_wheel_files(names: list[str]) -> Iterator[str]:
    if "headrace/py.typed" not in names:
        yield "the wheel lacks headrace/py.typed"
    expected = set(_package_files())
    found = {name for name in names if ".dist-info/" not in name}
    yield from (f"the wheel lacks {name}" for name in sorted(expected - found))
    yield from (f"the wheel has a stray file: {name}" for name in sorted(found - expected))


def _package_files() -> Iterator[str]:
    """The files that users need: what git knows of src/, without notes for maintainers."""
    listed = subprocess.run(
        ["git", "ls-files", "src"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    for name in listed.stdout.splitlines():
        if not name.endswith(".md"):
            yield name.removeprefix("src/")


def _wrong_sdist_files(members: list[PurePosixPath]) -> Iterator[str]:
    top = {member.parts[1] for member in members if len(member.parts) > 1}
    yield from (f"the sdist lacks {name}" for name in SDIST_NAMES if name not in top)
    for member in members:
        if member.suffix in STRAY_SUFFIXES or set(member.parts) & set(STRAY_NAMES):
            yield f"the sdist has a stray file: {member}"


def _wrong_metadata(content: bytes) -> Iterator[str]:
    # Raises an error that names the field, if a field is not valid.
    metadata = Metadata.from_email(content, validate=True)
    raw: Message = BytesParser(policy=compat32).parsebytes(content)
    if str(metadata.version) != version():
        yield f"the metadata has version {metadata.version}, the package {version()}"
    if metadata.license_expression != "Apache-2.0" or metadata.license_files != ["LICENSE"]:
        yield "the licence must be Apache-2.0, with its file"
    for classifier in metadata.classifiers or []:
        if classifier not in classifiers:
            yield f"{classifier!r} is no classifier"
    if "Typing :: Typed" not in (metadata.classifiers or []):
        yield "the classifier 'Typing :: Typed' is missing"
    if str(metadata.requires_python) != ">=3.11":
        yield f"the metadata requires Python {metadata.requires_python}"
    yield from _wrong_readme(str(raw.get_payload()))


def _wrong_readme(text: str) -> Iterator[str]:
    page = markdown.render(text)
    if page is None:
        yield "the package page cannot show the README"
        return
    for link in re.findall(r'(?:href|src)="([^"]*)"', page):
        if not re.match(r"https?://|mailto:|#", link):
            yield f"on the package page this link of the README leads nowhere: {link}"
