"""Build the documentation as a site in build/site, and fail on a broken link.

The pages are put together in build/docs first, so that the generator reads nothing but
Markdown and build/mkdocs.yml. The generator checks links between pages and their anchors;
this script checks links to other files and the navigation.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pages
import yaml

BUILD = pages.ROOT / "build"


def main(folder: Path = BUILD) -> int:
    """Build the site in a folder; the exit code is 1 if anything is wrong with it."""
    config = _config()
    texts = pages.all_pages()
    _assemble(folder, config, texts)
    problems = [*_wrong_links(folder / "docs", texts), *_wrong_nav(config["nav"], texts)]
    for problem in problems:
        print(f"docs: {problem}", file=sys.stderr)
    generator = [sys.executable, "-m", "zensical", "build", "--strict", "--clean"]
    done = subprocess.run(
        [*generator, "--config-file", folder / "mkdocs.yml"],
        capture_output=True,
        text=True,
        check=False,
    )
    # Its own traceback after the warnings says nothing more.
    print(done.stdout, done.stderr.partition("Traceback")[0], sep="", end="", file=sys.stderr)
    if problems or done.returncode:
        return 1
    _write_llms_txt(folder / "site", config, texts)
    print(f"docs: {len(texts)} pages in {folder / 'site'}")
    return 0


def _config() -> dict[str, Any]:
    """What mkdocs.yml says, with the references in the navigation and the places of the code."""
    config: dict[str, Any] = yaml.safe_load((pages.ROOT / "mkdocs.yml").read_text("utf-8"))
    [reference] = [entry for entry in config["nav"] if "Reference" in entry]
    reference["Reference"] = pages.reference_nav()
    [handlers] = [
        plugin["mkdocstrings"]["handlers"]
        for plugin in config["plugins"]
        if "mkdocstrings" in plugin
    ]
    handlers["python"]["paths"] = [str(pages.ROOT / "src")]
    handlers["python"]["options"]["extensions"] = [str(Path(__file__).parent / "docstrings.py")]
    return config


def _assemble(folder: Path, config: dict[str, Any], texts: dict[str, str]) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(pages.ROOT / "docs", folder / "docs", ignore=shutil.ignore_patterns("*.md"))
    _write_texts(folder / "docs", texts)
    (folder / "mkdocs.yml").write_text(yaml.safe_dump(config, sort_keys=False), "utf-8")


def _write_texts(folder: Path, texts: dict[str, str]) -> None:
    for uri, text in texts.items():
        path = folder / uri
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")


def _wrong_links(docs: Path, texts: dict[str, str]) -> Iterator[str]:
    for uri, text in texts.items():
        for target in pages.LINK.findall(text):
            if not (docs / uri).parent.joinpath(target).exists():
                yield f"{uri} links to {target}, which does not exist"


def _wrong_nav(nav: list[Any], texts: dict[str, str]) -> Iterator[str]:
    named = set(_nav_pages(nav))
    yield from (f"the navigation names {uri}, which does not exist" for uri in named - set(texts))
    for uri in sorted(set(texts) - named - set(pages.REPOSITORY_PAGES.values())):
        yield f"{uri} is not in the navigation: add it to mkdocs.yml"


def _nav_pages(nav: Any) -> Iterator[str]:
    match nav:
        case str():
            yield nav
        case dict():
            yield from _nav_pages(list(nav.values()))
        case _:
            for entry in nav:
                yield from _nav_pages(entry)


def _write_llms_txt(site: Path, config: dict[str, Any], texts: dict[str, str]) -> None:
    """Write llms.txt, an index for language models, and the pages that it names as Markdown."""
    prose = {uri: text for uri, text in texts.items() if uri not in pages.MODULES.values()}
    _write_texts(site, prose)
    lines = [f"# {config['site_name']}", "", f"> {config['site_description']}"]
    for title, uris in _sections(config["nav"]):
        lines += ["", f"## {title}", ""]
        for uri in uris:
            # What is made from docstrings exists as HTML only.
            link = uri if uri in prose else f"{uri.removesuffix('.md')}/index.html"
            lines.append(f"- [{_title(texts[uri], uri)}]({link}){_summary(texts[uri])}")
    (site / "llms.txt").write_text("\n".join(lines) + "\n", "utf-8")


def _sections(nav: list[Any]) -> Iterator[tuple[str, list[str]]]:
    """The sections of the navigation with their pages; pages outside of sections come first."""
    entries = [entry for part in nav for entry in part.items()]
    yield "Overview", [entry for _, entry in entries if isinstance(entry, str)]
    for title, entry in entries:
        if not isinstance(entry, str):
            yield title, list(_nav_pages(entry))


def _title(text: str, uri: str) -> str:
    match = re.search(r"^# (.+)$", text, re.MULTILINE)
    return match[1] if match else uri


def _summary(text: str) -> str:
    """The first sentence of a page."""
    prose = [part for part in text.split("\n\n") if re.match(r"(?!```)[A-Za-z`\[]", part)]
    if not prose:
        return ""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", prose[0]).replace("\n", " ")
    return f": {re.split(r'(?<=[.]) (?=[A-Z`])', plain)[0].rstrip(':')}"


if __name__ == "__main__":
    sys.exit(main())
