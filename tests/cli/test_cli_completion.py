"""The shell completes names from the store, and never has to wait or to read an error."""

import socket
import time
from collections.abc import Iterator

import pytest
from run_cli import run

import headrace
from headrace.cli import completion


@pytest.fixture
def shop(sqlite_url: str) -> str:
    """A store with a few names."""
    with headrace.connect(sqlite_url) as hr:
        hr.push("mail", 1)
        hr.push("mailbox", 1)
        hr.push("orders", 1)
        hr.commit("sales", {})
        hr.procs.create("tax", "sales")
        hr.limits.set({"os": headrace.ANY}, 1, name="systems")
    return sqlite_url


@pytest.fixture
def silent_url() -> Iterator[str]:
    """A server that accepts connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"postgresql://app@127.0.0.1:{server.getsockname()[1]}/db"


def completed(words: str, monkeypatch: pytest.MonkeyPatch, **environment: str) -> list[str]:
    """What a shell would offer for the last of the words."""
    monkeypatch.setenv("_HEADRACE_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(words.count(" ")))
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    answer = run()
    assert answer.err == ""
    return answer.out.split()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("headrace que", ["queue"]),
        ("headrace queue show mai", ["mail", "mailbox"]),
        ("headrace queue set mai", ["mail", "mailbox"]),
        ("headrace queue set mail dis", ["discipline="]),
        ("headrace push o", ["orders"]),
        ("headrace topic tail ", ["sales"]),
        ("headrace proc ls --topic s", ["sales"]),
        ("headrace proc show t", ["tax"]),
        ("headrace replay s", ["sales"]),
        ("headrace dead move mail or", ["orders"]),
        ("headrace limit show s", ["systems"]),
        ("headrace tok", ["token"]),
        ("headrace item ls mail --state d", ["dead"]),
        ("headrace queue create mai", []),
    ],
)
def test_names_are_offered(
    shop: str, words: str, offered: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert completed(words, monkeypatch, HEADRACE_URL=shop) == offered


def test_the_url_on_the_command_line_counts(shop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert completed(f"headrace -u {shop} queue show o", monkeypatch) == ["orders"]
    assert completed(f"headrace queue show -u {shop} o", monkeypatch) == ["orders"]


@pytest.mark.parametrize(
    "url", ["", "nonsense", "sqlite:///not-there.db", "postgresql://127.0.0.1:1/db"]
)
def test_without_a_store_nothing_is_offered(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert completed("headrace queue show m", monkeypatch, HEADRACE_URL=url) == []


def test_a_silent_server_is_not_waited_for(
    silent_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = time.monotonic()
    assert completed("headrace queue show m", monkeypatch, HEADRACE_URL=silent_url) == []
    assert time.monotonic() - begun < completion.TIME_LIMIT_SECONDS + 9


def test_completion_can_be_installed(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    # Else typer asks for the shell that runs the tests.
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    shown = run("--show-completion", "bash")
    assert "_HEADRACE_COMPLETE=complete_bash" in shown.out
    installed = run("--install-completion", "bash")
    assert installed.code == 0, installed
    assert ".bash_completions" in (tmp_path / ".bashrc").read_text()
