"""The package as users get it; make release-check also installs and uses it."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import headrace
from headrace.drivers.postgres import schema
from headrace.drivers.sqlite import connections

ROOT = Path(__file__).resolve().parents[2]
MODULES = ("artifacts", "environments", "readme")


@pytest.fixture(autouse=True)
def scripts(monkeypatch):
    """The modules of the release check can be imported."""
    monkeypatch.syspath_prepend(str(ROOT / "scripts" / "release"))
    yield
    for name in MODULES:
        sys.modules.pop(name, None)


@pytest.fixture
def built(tmp_path):
    import artifacts

    (tmp_path / "dist").mkdir()
    return artifacts.build(tmp_path / "dist")


def test_the_artifacts_are_right(built, tmp_path):
    """Their files, their metadata, the README on the package page; the sdist makes the wheel."""
    import artifacts

    assert list(artifacts.problems(built)) == []
    (tmp_path / "unpacked").mkdir()
    again = artifacts.wheel_from_sdist(built.sdist, tmp_path / "unpacked")
    assert artifacts.same_files(built.wheel, again)


def test_a_wrong_wheel_is_noticed(built):
    import artifacts

    with zipfile.ZipFile(built.wheel, "a") as wheel:
        wheel.writestr("tests/test_x.py", "")
        wheel.writestr("headrace/notes.txt", "")
    assert list(artifacts.problems(built)) == [
        "the wheel has a stray file: headrace/notes.txt",
        "the wheel has a stray file: tests/test_x.py",
    ]


def test_wrong_metadata_is_noticed():
    import artifacts

    content = (
        b"Metadata-Version: 2.4\nName: headrace\nVersion: 9.9\nRequires-Python: >=3.12\n"
        b"Classifier: Colour :: Blue\nDescription-Content-Type: text/markdown\n\n"
        b"[docs](docs/guide.md)\n"
    )
    assert list(artifacts._wrong_metadata(content)) == [
        f"the metadata has version 9.9, the package {headrace.__version__}",
        "the licence must be Apache-2.0, with its file",
        "'Colour :: Blue' is no classifier",
        "the classifier 'Typing :: Typed' is missing",
        "the metadata requires Python >=3.12",
        "on the package page this link of the README leads nowhere: docs/guide.md",
    ]


def test_the_wheel_can_be_imported(built, tmp_path):
    with zipfile.ZipFile(built.wheel) as wheel:
        wheel.extractall(tmp_path / "site")
    code = "import headrace; print(headrace.__file__); headrace.connect('memory://').close()"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "site")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.startswith(str(tmp_path)), done.stderr


def test_the_page_of_platforms_names_the_versions_that_drivers_accept():
    page = (ROOT / "docs" / "stability.md").read_text("utf-8")
    assert f"| PostgreSQL | {schema.OLDEST} and newer |" in page
    major, minor, _ = connections.OLDEST
    assert f"| SQLite | {major}.{minor} and newer," in page
    assert "| Python | 3.11 and newer," in page


def test_windows_is_refused_with_the_way_out():
    """Windows has no fork, and its Python has neither of these functions."""
    code = "import os; del os.fork, os.register_at_fork; import headrace"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.endswith(
        "ImportError: Headrace needs Linux or macOS. On Windows run it in WSL or in a container.\n"
    )


def test_links_of_the_readme_become_text_on_the_package_page():
    from readme import for_package_page

    text = "![a picture](docs/a.svg)\n\nSee [the guide](docs/guide.md#x), [us](https://x.org).\n"
    assert for_package_page(text) == "See the guide, [us](https://x.org).\n"


def test_pins_include_what_packages_need():
    import environments

    needed = environments._closure(["psycopg[binary]", "typer"])
    assert {"psycopg", "psycopg-binary", "typer", "rich", "shellingham"} <= needed
    assert "pytest" not in needed
    pins = list(environments._pins(needed))
    assert len(pins) >= 8
    assert all("==" in pin and "--hash=sha256:" in pin for pin in pins)
