"""The documentation builds as a site, and no link in it leads nowhere."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def build(monkeypatch):
    """The script that builds the site."""
    monkeypatch.syspath_prepend(str(ROOT / "scripts" / "site"))
    import build as script

    yield script
    for name in ("build", "pages", "cli_reference", "docstrings"):
        sys.modules.pop(name, None)


def test_the_site_builds(build, tmp_path, capfd):
    assert build.main(tmp_path / "built") == 0, capfd.readouterr().err
    site = tmp_path / "built" / "site"
    assert "<h1" in (site / "index.html").read_text("utf-8")
    assert "Open the store at" in (site / "reference/headrace/index.html").read_text("utf-8")
    assert "headrace topic commit" in (site / "reference/cli/index.html").read_text("utf-8")
    index = (site / "llms.txt").read_text("utf-8")
    links = build.pages.LINK.findall(index)
    assert "guarantees.md" in links
    assert [link for link in links if not (site / link).exists()] == []


def test_a_broken_link_fails_the_build(build, tmp_path, capfd, monkeypatch):
    """A page, an anchor, a picture that do not exist; a page that the navigation lacks."""
    monkeypatch.setattr(
        build.pages,
        "all_pages",
        lambda: {
            "index.md": "# Home\n\n[gone](gone.md) ![gone](gone.svg) [here](#nowhere)\n",
            "lonely.md": "# Lonely\n",
        },
    )
    assert build.main(tmp_path / "built") == 1
    printed = capfd.readouterr().err
    for problem in [
        "index.md links to gone.md",
        "index.md links to gone.svg",
        "anchor does not exist",
        "lonely.md is not in the navigation",
        "the navigation names guarantees.md",
    ]:
        assert problem in printed


def test_docstrings_become_markdown(build, tmp_path):
    from docstrings import to_markdown

    assert to_markdown("For example::\n\n    code\n") == "For example:\n\n    code\n"
    assert to_markdown("A tree.\n\n::\n\n    A\n") == "A tree.\n\n    A\n"
    assert to_markdown("Adds.\n\n>>> 1 + 1\n2\n\nEnd.") == (
        "Adds.\n\n```pycon\n>>> 1 + 1\n2\n```\n\nEnd."
    )
