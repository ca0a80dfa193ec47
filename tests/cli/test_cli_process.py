"""The command as a process: signals, pipes, terminals, exit codes."""

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from run_cli import command, on_terminal, run

import headrace


@pytest.fixture
def numbers(sqlite_url: str) -> str:
    """A store with more records in topic ``t`` than a pipe holds."""
    with headrace.connect(sqlite_url) as hr:
        hr.commit_many("t", [{"n": n, "text": "x" * 50} for n in range(5000)])
    return sqlite_url


@contextlib.contextmanager
def running(*args: str, **options: Any) -> Iterator[subprocess.Popen[str]]:
    """A process that ends with the test."""
    process = subprocess.Popen(command(*args), text=True, **options)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (["topic", "ls"], 0),
        (["proc", "resume", "p"], 1),
        (["topic", "tail"], 2),
        (["topic", "tail", "no good"], 2),
        (["topic", "tail", "nope"], 3),
        (["topic", "ls", "-u", "postgresql://127.0.0.1:1/db"], 4),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else str(value),
)
def test_exit_codes(
    numbers: str, args: list[str], code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_PATIENCE", "0")
    with headrace.connect(numbers) as hr:
        hr.procs.create("p", "t")
    answer = run("-u", numbers, *args)
    assert answer.code == code, answer
    assert "Traceback" not in answer.err
    assert (answer.err == "") == (code == 0)


@pytest.mark.parametrize("extra", [[], ["--json"]])
def test_a_reader_that_goes_away_is_no_error(numbers: str, extra: list[str]) -> None:
    """As with ``| head``: the command is silent and closes the store."""
    with running(
        *("-u", numbers, "topic", "range", "t", *extra),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(60) == 0


@pytest.mark.parametrize(
    "args", [["topic", "ls"], ["topic", "tail", "t", "-n", "1"], ["config", "show", "--json"]]
)
def test_a_reader_that_never_was_is_no_error(numbers: str, args: list[str]) -> None:
    """Buffered output meets a closed pipe only at the end."""
    reading, writing = os.pipe()
    os.close(reading)
    with running("-u", numbers, *args, stdout=writing, stderr=subprocess.PIPE) as process:
        os.close(writing)
        assert process.stderr is not None
        assert process.stderr.read() == ""
        assert process.wait(60) == 0


@pytest.mark.parametrize("extra", [[], ["--json"]])
def test_the_exit_code_is_right_without_a_reader(extra: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with running("-u", "sqlite:///nowhere.db", "doctor", *extra, stdout=writing) as process:
        os.close(writing)
        assert process.wait(60) == 3


def test_commits_continue_without_a_reader_of_the_ids(sqlite_url: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with running(
        *("-u", sqlite_url, "topic", "commit", "t", "-"),
        stdin=subprocess.PIPE,
        stdout=writing,
        stderr=subprocess.PIPE,
    ) as process:
        os.close(writing)
        _, err = process.communicate("".join(f'{{"n":{n}}}\n' for n in range(3500)), timeout=60)
    assert process.returncode == 0
    assert "committed 3,500 records" in err
    with headrace.connect(sqlite_url) as hr:
        assert hr.topic("t").length() == 3500


def test_interrupting_tail_is_silent(numbers: str) -> None:
    """Ctrl-C is the way to leave it: exit code 130, and no traceback."""
    with running(
        *("-u", numbers, "topic", "tail", "t", "-n", "1", "-f"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert "4999" in process.stdout.readline()
        with headrace.connect(numbers) as hr:
            hr.commit("t", {"live": True})
        assert '{"live":true}' in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, "", "")


def test_interrupting_a_commit_reports_its_progress(sqlite_url: str) -> None:
    """A producer stopped in the middle: the lines so far are committed, and reported."""
    with running(
        *("-u", sqlite_url, "topic", "commit", "t", "-"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write('{"n":1}\n')
        process.stdin.flush()
        assert process.stdout.readline().endswith("-0\n")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err == "committed 1 record before this, and perhaps the batch in progress\n"


def test_a_progress_bar_goes_to_stderr(sqlite_url: str) -> None:
    """Ids still go to stdout."""
    lines = "".join(f'{{"n":{n}}}\n' for n in range(3000))
    code, out, screen = on_terminal("-u", sqlite_url, "topic", "commit", "t", "-", input=lines)
    assert code == 0
    assert len(out.splitlines()) == 3000
    assert re.search(r"[\d,]+ records, [\d,]+/s", screen)
    assert out.splitlines()[0] not in screen
    code, out, screen = on_terminal("-u", sqlite_url, "topic", "range", "t", "--json")
    assert (code, len(out.splitlines())) == (0, 3000)
    assert "records, " in screen


def test_no_bar_among_records_on_the_screen(numbers: str) -> None:
    code, _, screen = on_terminal(
        "-u", numbers, "topic", "range", "t", "-n", "3", is_data_shown=True
    )
    assert code == 0
    assert len(screen.splitlines()) == 3
    assert "records, " not in screen


@pytest.mark.parametrize(("typed", "is_there"), [("y\n", False), ("n\n", True)])
def test_a_person_is_asked(numbers: str, typed: str, is_there: bool) -> None:
    with headrace.connect(numbers) as hr:
        hr.procs.create("p", "t")
        code, out, screen = on_terminal("-u", numbers, "proc", "delete", "p", typed=typed)
        assert "Go on? [y/N]" in screen
        assert (code, out) == (1 if is_there else 0, "")
        assert bool(hr.procs.list()) == is_there


def test_no_color_is_respected(numbers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    args = ("-u", numbers, "doctor")
    _, _, screen = on_terminal(*args, is_data_shown=True)
    assert "\x1b[32m" in screen
    monkeypatch.setenv("NO_COLOR", "1")
    _, _, screen = on_terminal(*args, is_data_shown=True)
    assert "\x1b[32m" not in screen
    assert "ok    durability" in screen


@pytest.mark.parametrize("missing", ["typer", "rich"])
def test_without_typer_it_says_what_to_install(missing: str) -> None:
    code = f"import sys; sys.modules[{missing!r}] = None; from headrace.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "headrace: the command line needs typer and rich: pip install 'headrace[cli]'\n"
    )


def test_the_library_does_not_need_the_command_line() -> None:
    code = "import sys, headrace; print({'typer', 'rich'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_json_is_utf8_whatever_the_terminal_is(sqlite_url: str) -> None:
    with headrace.connect(sqlite_url) as hr:
        hr.commit("t", {"text": "smörgås €"})
    environ = {**os.environ, "PYTHONIOENCODING": "latin-1", "PYTHONUTF8": "0"}
    done = subprocess.run(
        command("-u", sqlite_url, "topic", "tail", "t", "--json"),
        capture_output=True,
        timeout=60,
        env=environ,
        check=True,
    )
    assert "smörgås €" in done.stdout.decode()
    plain = subprocess.run(
        command("-u", sqlite_url, "topic", "tail", "t"),
        capture_output=True,
        timeout=60,
        env=environ,
        check=True,
    )
    assert "smörgås" in plain.stdout.decode("latin-1")
    assert plain.stderr == b""
