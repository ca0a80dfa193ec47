"""Read a range in short transactions, a few megabytes at a time."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.contract.store import Store
from headrace.contract.values import StoredPage
from headrace.errors import HeadraceError, ProcOvertaken, UnknownSeq
from headrace.pipelines.source.ranges import SeqRange

# Small enough for a CPU's cache: some thousand records of usual size.
PAGE_BYTES = 4 * 1024 * 1024
INITIAL_RECORDS = 20_000
MAX_RECORDS = 50_000


def pages(store: Store, part: SeqRange, proc: str = "") -> Iterator[StoredPage]:
    """All records of a range, in order; no transaction stays open between pages.

    If retention removes records of the range meanwhile, the read fails: with fewer records than
    planned, its result would be wrong.
    """
    low, limit = part.first, INITIAL_RECORDS
    while low <= part.last:
        try:
            page = store.run(
                store.topics.read_stored(part.topic, low, part.last, limit, PAGE_BYTES)
            )
        except UnknownSeq as error:
            info = store.run(store.topics.info(part.topic))
            last = min(part.last, info.first_seq - 1)
            raise removed_error(SeqRange(part.topic, low, last), proc) from error
        yield page
        low, limit = page.last + 1, _next_limit(limit, page.last - page.first + 1)


def by_batch(page: StoredPage) -> list[StoredPage]:
    """A page for each of a page's batches."""
    return [
        StoredPage(
            page.topic,
            max(page.first, batch.base_seq),
            min(page.last, batch.last_seq),
            (batch,),
        )
        for batch in page.batches
    ]


def _next_limit(limit: int, count: int) -> int:
    """A little more than the bytes allow, since the store scans all records up to the limit."""
    if count == limit:
        return min(2 * limit, MAX_RECORDS)
    return max(100, count + count // 4)


def removed_error(missing: SeqRange, proc: str = "") -> HeadraceError:
    """The error for records that retention removed before they were read."""
    subject = (
        f"the records :{missing.first} to :{missing.last} of topic {missing.topic!r} were removed"
    )
    details = {"topic": missing.topic, "first": missing.first, "last": missing.last}
    if not proc:
        return UnknownSeq(
            f"{subject} while they were being read: read again, without a start or with a later one.",
            seq=missing.first,
            **details,
        )
    return ProcOvertaken(
        f"{subject} by max_age before the stream of proc {proc!r} read them. To continue without "
        "them, start with a new checkpoint and the option start='>'; the topic's max_age says "
        "how long it keeps records that are not read yet.",
        proc=proc,
        **details,
    )
