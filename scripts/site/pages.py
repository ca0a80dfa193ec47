"""The pages of the site, as Markdown: those in docs/, and those made from elsewhere.

The README, the changelog and the like become pages, and so do the examples. The references
are made from the package: from its docstrings and from its commands.
"""

from __future__ import annotations

import importlib
import inspect
import posixpath
import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import cli_reference
from docstrings import to_markdown

ROOT = Path(__file__).resolve().parents[2]

REPOSITORY_PAGES = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "LICENSE": "license.md",
    "bench/README.md": "benchmarks.md",
    **{
        f"examples/{path.name}": f"examples/{path.stem}.md"
        for path in sorted((ROOT / "examples").glob("*.py"))
    },
}

# Modules with a page each in the API reference: those of them that exist.
MODULES = {
    "headrace": "reference/headrace.md",
    "headrace.types": "reference/types.md",
    "headrace.errors": "reference/errors.md",
    "headrace.pipelines": "reference/pipelines.md",
    "headrace.telemetry": "reference/telemetry.md",
    "headrace.compat.fetchq": "reference/compat-fetchq.md",
    "headrace.compat.gopq": "reference/compat-gopq.md",
    "headrace.compat.pipeproc": "reference/compat-pipeproc.md",
    "headrace.compat.willow": "reference/compat-willow.md",
}
CLI_PAGE = "reference/cli.md"

# Links to the references, which only the site has.
_LINKS_TO_REFERENCES = {
    "docs/cli.md": f"The [command reference]({CLI_PAGE}) has every argument and option.",
    "docs/api.md": "The [reference](reference/headrace.md) has every name with its signature.",
}

_ABOUT_ASYNC = (
    "Every class that reads or writes has an async twin, such as `AsyncQueue` for `Queue`, with "
    "the same methods, to be awaited. They are not listed again."
)

# What follows the language of a code block is for the tests.
_MARK = re.compile(r"(?<=^```sh)( run)$", re.MULTILINE)
LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)#\s]+)")


def all_pages() -> dict[str, str]:
    """Every page of the site by its path, with the links between them mended."""
    return {uri: _with_links(source, uri, _MARK.sub("", text)) for source, uri, text in _sources()}


def reference_nav() -> list[dict[str, str]]:
    """The entries of the navigation under Reference."""
    modules = [{name: uri} for name, uri in MODULES.items() if _exists(name)]
    return [*modules, {"Commands": CLI_PAGE}]


def _sources() -> Iterator[tuple[str, str, str]]:
    """The file that each page is made from, its path on the site, and its text."""
    for path in sorted((ROOT / "docs").rglob("*.md")):
        source = path.relative_to(ROOT).as_posix()
        text = path.read_text("utf-8")
        if link := _LINKS_TO_REFERENCES.get(source):
            title, first, rest = text.split("\n\n", 2)
            text = f"{title}\n\n{first}\n\n{link}\n\n{rest}"
        yield source, source.removeprefix("docs/"), text
    for source, uri in REPOSITORY_PAGES.items():
        yield source, uri, _as_markdown(ROOT / source)
    for name, uri in MODULES.items():
        if _exists(name):
            yield f"docs/{uri}", uri, _module_page(name)
    yield f"docs/{CLI_PAGE}", CLI_PAGE, cli_reference.page()


def _as_markdown(path: Path) -> str:
    text = path.read_text("utf-8")
    if path.suffix == ".md":
        return text
    title, language = ("Licence", "text") if path.suffix != ".py" else (path.name, "python")
    return f"# {title}\n\n```{language}\n{text}```\n"


def _with_links(source: str, uri: str, text: str) -> str:
    """The text with links between files of the repository as links between pages."""

    def link(match: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), match[1]))
        page = REPOSITORY_PAGES.get(path) or path.removeprefix("docs/")
        return posixpath.relpath(page, posixpath.dirname(uri) or ".")

    return LINK.sub(link, text)


def _exists(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _module_page(name: str) -> str:
    module = importlib.import_module(name)
    lines = [f"# {name}", "", to_markdown(inspect.getdoc(module) or ""), ""]
    if "AsyncHeadrace" in getattr(module, "__all__", ()):
        lines += [_ABOUT_ASYNC, ""]
    for public in _public_names(module):
        lines += [
            f"::: {_path_of(getattr(module, public), name, public)}",
            "    options:",
            f"      heading: {public}",
            f"      toc_label: {public}",
            "",
        ]
    return "\n".join(lines)


def _public_names(module: ModuleType) -> list[str]:
    """What a module offers: without modules, which have pages, and without async twins."""
    names = getattr(module, "__all__", None) or [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    ]
    return [
        name
        for name in names
        if not isinstance(getattr(module, name), ModuleType)
        and not (name.startswith("Async") and name.removeprefix("Async") in names)
    ]


def _path_of(value: Any, module: str, name: str) -> str:
    """Where a thing is defined, so that its docstring is found without following imports."""
    if inspect.isclass(value) or inspect.isfunction(value):
        return f"{value.__module__}.{value.__qualname__}"
    return f"{module}.{name}"
