"""Users' code under type checkers: good code passes, and each mistake is found where it is."""

import json
import subprocess
import sys
from pathlib import Path

import mypy.api
import pytest

FOLDER = Path(__file__).parent
GOOD, BAD = FOLDER / "good.py", FOLDER / "bad.py"


def mistakes() -> set[int]:
    lines = BAD.read_text("utf-8").splitlines()
    return {number for number, line in enumerate(lines, 1) if line.endswith("# wrong")}


def by_mypy(file: Path, cache: Path) -> dict[int, str]:
    answer, problems, _ = mypy.api.run(
        ["--strict", "--config-file=", f"--cache-dir={cache}", "--no-error-summary", str(file)]
    )
    assert not problems, problems
    errors = [line.split(":", 2) for line in answer.splitlines() if ": error:" in line]
    return {int(line): text for _, line, text in errors}


def by_pyright(file: Path, cache: Path) -> dict[int, str]:
    settings = cache / "pyrightconfig.json"
    settings.write_text(json.dumps({"include": [str(file)], "typeCheckingMode": "strict"}))
    command = Path(sys.executable).with_name("basedpyright")
    done = subprocess.run(
        [command, "--outputjson", "--project", settings, "--pythonpath", sys.executable],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    found = json.loads(done.stdout)["generalDiagnostics"]
    return {
        one["range"]["start"]["line"] + 1: f"{one['message']} ({one.get('rule')})"
        for one in found
        if one["severity"] == "error"
    }


CHECKERS = pytest.mark.parametrize("errors_in", [by_mypy, by_pyright])


@CHECKERS
def test_good_code_passes(errors_in, tmp_path: Path) -> None:
    assert errors_in(GOOD, tmp_path) == {}


@CHECKERS
def test_each_mistake_is_found(errors_in, tmp_path: Path) -> None:
    """And nothing else is called one."""
    found = errors_in(BAD, tmp_path)
    assert set(found) == mistakes(), found
