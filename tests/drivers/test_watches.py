"""Watches of SQLite's wake file, which waiters use again."""

import os
import sys
from pathlib import Path

import pytest

import headrace
from headrace.drivers.sqlite.inotify import MAX_IDLE_WATCHES, WatchPool

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="inotify is Linux's")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "wake"
    path.touch()
    return path


def test_a_watch_is_used_again_without_old_hints(file: Path) -> None:
    pool = WatchPool(file)
    first = pool.open()
    assert first is not None
    first.close()
    file.write_bytes(b"x")
    again = pool.open()
    assert again is first
    with pytest.raises(BlockingIOError):
        os.read(again.fileno(), 4096)
    file.write_bytes(b"y")
    assert os.read(again.fileno(), 4096)
    again.end()


def test_a_file_that_was_made_again_has_a_new_watch(file: Path) -> None:
    pool = WatchPool(file)
    first = pool.open()
    assert first is not None
    first.close()
    other = file.with_name("other")
    other.touch()
    other.replace(file)
    second = pool.open()
    assert second is not None
    assert second is not first
    file.write_bytes(b"x")
    assert os.read(second.fileno(), 4096)
    second.end()


def test_few_are_kept_and_none_after_the_end(file: Path) -> None:
    pool = WatchPool(file)
    watches = [pool.open() for _ in range(MAX_IDLE_WATCHES + 2)]
    for watch in watches:
        assert watch is not None
        watch.close()
    assert len(pool._idle) == MAX_IDLE_WATCHES
    late = pool.open()
    assert late is not None
    pool.close()
    late.close()
    assert pool._idle == []
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(late.fileno())


def test_claims_that_wait_one_after_the_other_share_a_watch(sqlite_url: str) -> None:
    with headrace.connect(sqlite_url) as hr:
        descriptors = set()
        for _ in range(3):
            assert hr.queue("q").claim(wait=0.01) == []
            pool = hr._store.notifier._watches
            descriptors |= {watch.fileno() for watch in pool._idle}
        assert len(descriptors) == 1
