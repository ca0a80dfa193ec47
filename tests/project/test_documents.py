"""What the documents say is true: their code runs, their names exist, their paths are nobody's."""

import doctest
import inspect
import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from queue import SimpleQueue
from xml.etree import ElementTree as ET

import pytest
from documents import DOCUMENTS, ROOT, blocks, run_shell, write_files

import headrace
from headrace import errors
from headrace.testing.postgres import PrivatePostgres

EXAMPLE_URL = "postgresql://app@localhost/shop"
# The blocks of these pages are files or many commands, and have tests of their own.
OTHERWISE_TESTED = ("cli.md", "django.md")

_FILE = re.compile(r"`([\w/*]+\.(?:py|sql|md))`")
_MILLISECONDS = re.compile(r"\b\d{13}\b")


class Checker(doctest.OutputChecker):
    """Compares output, whatever the time was."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        return super().check_output(_timeless(want), _timeless(got), optionflags)


def _timeless(text: str) -> str:
    return _MILLISECONDS.sub("<ms>", text)


@pytest.mark.parametrize(
    "document",
    [path for path in DOCUMENTS if path.name not in OTHERWISE_TESTED],
    ids=lambda path: path.name,
)
def test_code_in_a_document_runs(document, tmp_path, monkeypatch, postgres, postgres_url, request):
    monkeypatch.chdir(tmp_path)
    text = document.read_text("utf-8")
    if "pipelines import session" in text or ".run_once()" in text:
        request.getfixturevalue("spark")
    write_files(document, tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    names: dict = {"__name__": document.stem}
    imported = set(sys.modules)
    try:
        run_document(document, names, postgres, postgres_url)
    finally:
        for name in set(sys.modules) - imported:
            if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
                del sys.modules[name]
        for value in names.values():
            if isinstance(value, headrace.Headrace):
                value.close()


def run_document(document: Path, names: dict, postgres: PrivatePostgres, postgres_url: str) -> None:
    for block in blocks(document):
        source = block.text.replace(EXAMPLE_URL, postgres_url)
        if block.language == "python" and source.startswith(">>>"):
            run_session(source, names, document, block.line)
        elif block.language == "python":
            # The line numbers of a traceback are those of the document.
            exec(compile("\n" * block.line + source, str(document), "exec"), names)
        elif block.language == "sql":
            assert run_sql(source, postgres, postgres_url)
        elif block.is_marked:
            run_shell(source, Path.cwd())


def run_session(source: str, names: dict, document: Path, line: int) -> None:
    test = doctest.DocTestParser().get_doctest(source, names, document.name, str(document), line)
    test.globs = names
    runner = doctest.DocTestRunner(Checker(), verbose=False, optionflags=doctest.REPORT_NDIFF)
    said: list[str] = []
    runner.run(test, out=said.append, clear_globs=False)
    assert not said, "".join(said)


def run_sql(source: str, postgres: PrivatePostgres, postgres_url: str) -> list:
    if "headrace." in source:
        schema = postgres_url.partition("schema=")[2]
        return postgres.execute(source.replace("headrace.", f"{schema}."))
    with sqlite3.connect("flow.db") as connection:
        rows = connection.execute(source).fetchall()
    connection.close()
    return rows


def test_the_commands_of_the_command_line_page_run(tmp_path):
    for block in blocks(ROOT / "docs" / "cli.md"):
        if block.is_marked:
            run_shell(block.text, tmp_path)
    assert len((tmp_path / "ids.txt").read_text().split()) == 5000
    assert "create schema" in (tmp_path / "tables.sql").read_text()


def test_the_readmes_example_prints_what_the_readme_shows(tmp_path, monkeypatch, capsys, spark):
    monkeypatch.chdir(tmp_path)
    found = list(blocks(ROOT / "README.md"))
    task, topic, pipeline = [block.text for block in found if block.language == "python"]
    [shown] = [block.text for block in found if block.language == "text"]
    said: SimpleQueue[tuple] = SimpleQueue()
    names: dict = {"__name__": "__main__", "print": lambda *words: said.put(words)}
    exec(compile(task, "README.md", "exec"), names)
    names["app"].work()
    assert said.get(timeout=60) == ("welcome,", "Ann")
    del names["print"]
    exec(compile(topic, "README.md", "exec"), names)
    assert _timeless(capsys.readouterr().out) == _timeless(shown)
    exec(compile(pipeline, "README.md", "exec"), names)
    hr = names["hr"]
    assert [record.body["tax"] for record in hr.range("taxed")] == [14.82, 91.2]
    hr.close()
    names["app"].client.close()


def test_the_readme_is_short():
    """An example comes first, and it fits on a page."""
    text = (ROOT / "README.md").read_text("utf-8")
    before, _, _ = text.partition("```python")
    assert len(before.split()) <= 60
    assert len(text.split()) <= 1000


def test_the_demo_ends(tmp_path):
    """With what it promises: nothing lost, a table, and a chart that is an image."""
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / "demo.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    steps = [line[:13].split() for line in done.stdout.splitlines()[:6]]
    assert [step[1] for step in steps] == [
        "connect",
        "spark",
        "commit",
        "pipeline",
        "stream",
        "worker",
    ]
    assert len(re.findall(r"^ +\d+( +[\d,]+){3}$", done.stdout, re.MULTILINE)) == 12
    chart = ET.parse(tmp_path / "demo.svg").getroot()
    assert len(chart.findall("{http://www.w3.org/2000/svg}rect")) == 36
    assert [path.name for path in tmp_path.iterdir()] == ["demo.svg"]


@pytest.mark.parametrize("name", headrace.__all__)
def test_public_name_is_documented(name):
    text = "\n".join(document.read_text("utf-8") for document in DOCUMENTS)
    assert re.search(rf"\b{name}\b", text)


def error_classes() -> dict[str, type[errors.HeadraceError]]:
    found = [errors.HeadraceError]
    for cls in found:
        found += cls.__subclasses__()
    return {cls.__name__: cls for cls in found if cls.__module__ == errors.__name__}


def test_the_tree_of_errors_is_the_classes():
    """The drawing says each class once, under its parent, with its code and flag."""
    drawn = {}
    parents = ["Exception"]
    for line in (errors.__doc__ or "").splitlines():
        match = re.fullmatch(r"    ([│├└─ ]*)([A-Z]\w+) *(.*)", line)
        if match:
            depth = len(match[1]) // 4
            drawn[match[2]] = (parents[depth], match[3])
            parents[depth + 1 :] = [match[2]]
    classes = error_classes()
    assert list(drawn) == [name for name in vars(errors) if name in classes]
    for name, (parent, words) in drawn.items():
        cls = classes[name]
        assert cls.__base__.__name__ == parent
        assert words.split()[:1] == [cls.code] or cls.__subclasses__(), f"{name} is {cls.code}"
        assert cls.retryable or "retryable" not in words


def test_every_error_has_a_code_of_its_own():
    codes = [cls.code for cls in error_classes().values()]
    assert len(set(codes)) == len(codes)


@pytest.mark.parametrize("name", error_classes())
def test_error_is_on_its_page_with_its_code(name):
    page = (ROOT / "docs" / "errors.md").read_text("utf-8")
    assert re.search(rf"\b{name}\b", page)
    code = error_classes()[name].code
    assert name == "HeadraceError" or f"`{code}`" in page


@pytest.mark.parametrize("name", headrace.types.QueueSettings.__struct_fields__)
def test_setting_of_a_queue_is_documented(name):
    assert f"`{name}`" in (ROOT / "docs" / "queues.md").read_text("utf-8")


def test_the_changelog_names_this_version():
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert f"## [{headrace.__version__}]" in changelog


def test_links_between_documents_lead_somewhere():
    for document in [*DOCUMENTS, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]:
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", document.read_text("utf-8")):
            assert "://" in target or (document.parent / target).exists(), f"{document}: {target}"


def our_files() -> Iterator[Path]:
    """Every file of the project, without what .gitignore names."""
    ignored = [line.rstrip("/") for line in (ROOT / ".gitignore").read_text().split()] + [".git"]
    for folder, folders, files in os.walk(ROOT):
        here = Path(folder).relative_to(ROOT)
        for name in [*folders, *files]:
            if any(fnmatch(name, rule) or fnmatch(str(here / name), rule) for rule in ignored):
                (folders if name in folders else files).remove(name)
        yield from (Path(folder) / name for name in files)


def test_files_of_the_architecture_exist():
    """By their whole path, or the end of it."""
    files = [f"/{path.relative_to(ROOT)}" for path in our_files()]
    documents = [path for path in DOCUMENTS if "architecture" in str(path.relative_to(ROOT))]
    assert documents
    for document in [ROOT / "CONTRIBUTING.md", *documents]:
        for name in _FILE.findall(document.read_text("utf-8")):
            assert any(fnmatch(file, f"*/{name}") for file in files), f"{document}: {name}"


def test_no_file_knows_a_machine_or_a_download_host():
    # Put together here, so that this file does not name them either.
    places = [f"/{name}/" for name in ("work", "root", "home", "opt")]
    hosts = ["pypi" + ".", "files" + ".pythonhosted", "registry" + ".npmjs", "deb" + ".debian"]
    found = [
        f"{path.relative_to(ROOT)}: {word}"
        for path in our_files()
        for word in places + hosts
        if word in path.read_text("utf-8", errors="replace")
    ]
    assert not found


def test_the_page_of_guarantees_is_what_the_drivers_say():
    loader = SourceFileLoader("guarantees", str(ROOT / "scripts" / "guarantees"))
    spec = spec_from_loader("guarantees", loader)
    module = module_from_spec(spec)
    loader.exec_module(module)
    assert set(module.meanings()) == set(headrace.types.Capabilities.__struct_fields__)
    assert (ROOT / "docs" / "guarantees.md").read_text("utf-8") == module.page()


ON_THE_API_PAGE = {
    "| on an `App`": headrace.App,
    "| on a `Task`": headrace.types.Task,
    "| data": headrace.Headrace,
    "| on a `Queue`": headrace.Queue,
    "| of an `Item`": headrace.Item,
    "| on a `ClaimedItem`": headrace.ClaimedItem,
    "| on `queue.dead`": headrace.types.DeadLetters,
    "| on a `Worker`": headrace.Worker,
    "| on a `Topic`": headrace.Topic,
    "| on a `Proc`": headrace.Proc,
    "| on a `Claim`,": headrace.Claim,
    "| on a `Pipeline`": headrace.Pipeline,
}


@pytest.mark.parametrize("title", ON_THE_API_PAGE)
def test_what_the_api_page_lists_exists(title):
    """Each name in the first column, with the arguments that it names."""
    _, _, rest = (ROOT / "docs" / "api.md").read_text("utf-8").partition(title)
    cls = ON_THE_API_PAGE[title]
    rows = [line.split(" | ")[0] for line in rest.split("\n\n")[0].splitlines()[2:]]
    assert rows
    for name, arguments in re.findall(r"`(?:@app\.|await )?(\w+)(?:\((.*?)\))?`", "".join(rows)):
        # A task is also called itself.
        member = cls if cls is headrace.types.Task and name == "task" else getattr(cls, name)
        if named := set(re.findall(r"(\w+)=", arguments)):
            parameters = inspect.signature(member).parameters.values()
            assert named <= {parameter.name for parameter in parameters} or any(
                parameter.kind is parameter.VAR_KEYWORD for parameter in parameters
            ), f"{name}: {named}"
