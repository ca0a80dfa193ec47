"""File permissions of a SQLite store."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

import headrace
from headrace.contract.values import CommitPart


@pytest.fixture
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def rights(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize(
    ("umask", "created", "changed", "side", "folder"),
    [
        (0o022, 0o644, 0o644, 0o600, 0o700),
        (0o077, 0o600, 0o600, 0o600, 0o700),
        (0o022, 0o644, 0o660, 0o660, 0o770),
        (0o022, 0o644, 0o666, 0o666, 0o777),
    ],
    indirect=["umask"],
)
@pytest.mark.usefixtures("umask")
def test_side_files_have_the_permissions_of_writers(
    quick_path: Path, created: int, changed: int, side: int, folder: int
) -> None:
    """The database gets what the umask leaves of 0644, and may be changed. SQLite gives its log the
    same permissions. The wake file and staged rows are for the owner, and for others only if they
    may write to the database."""
    path = quick_path / "flow.db"
    headrace.connect(f"sqlite:///{path}").close()
    assert rights(path) == created
    path.chmod(changed)
    with headrace.connect(f"sqlite:///{path}") as hr:
        hr.push("q", 1)
        hr._store.waiter("t").close()
        hr._store.run(hr._store.sinks.stage("token", [CommitPart("t", 1, "{}", None)]))
        assert {rights(quick_path / f"flow.db-{end}") for end in ("wal", "shm")} == {changed}
        assert rights(quick_path / "flow.db-wake") == side
        assert rights(quick_path / "flow.db-stage") == folder
        assert rights(quick_path / "flow.db-stage" / "token") == side


def test_a_wake_file_that_cannot_be_created_is_optional(quick_path: Path) -> None:
    """Waiting claims poll instead."""
    (quick_path / "flow.db-wake").symlink_to(quick_path / "nowhere" / "file")
    with headrace.connect(f"sqlite:///{quick_path}/flow.db") as hr:
        hr.push("q", 1)
        assert [item.payload for item in hr.queue("q").claim(wait=5)] == [1]
        assert hr.queue("q").claim(wait=0.3) == []
