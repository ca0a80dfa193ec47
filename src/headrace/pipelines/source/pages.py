"""Reading a range in short transactions, a few megabytes at a time."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.contract.store import Store
from headrace.contract.values import StoredPage
from headrace.errors import HeadraceError, ProcOvertaken, UnknownSeq
from headrace.pipelines.source.ranges import SeqRange

# As much as stays in a processor's cache on its way: some thousand records of usual size.
PAGE_BYTES = 4 * 1024 * 1024
FIRST_RECORDS = 20_000
MOST_RECORDS = 50_000


def pages(store: Store, part: SeqRange, proc: str = "") -> Iterator[StoredPage]:
    """All records of a range, in order; no transaction stays open between pages.

    A range that was collected meanwhile raises an error of its own: with fewer records than
    were planned, the answer would be wrong.
    """
    low, limit = part.first, FIRST_RECORDS
    while low <= part.last:
        try:
            page = store.run(store.read_stored(part.topic, low, part.last, limit, PAGE_BYTES))
        except UnknownSeq as error:
            info = store.run(store.topic_info(part.topic))
            last = min(part.last, info.first_seq - 1)
            raise collected(SeqRange(part.topic, low, last), proc) from error
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


def _next_limit(limit: int, taken: int) -> int:
    """A little more than the bytes allow: the store looks at all records up to the limit."""
    if taken == limit:
        return min(2 * limit, MOST_RECORDS)
    return max(100, taken + taken // 4)


def collected(gone: SeqRange, proc: str = "") -> HeadraceError:
    """That records are gone which a read still needed."""
    what = f"the records :{gone.first} to :{gone.last} of topic {gone.topic!r} were collected"
    details = {"topic": gone.topic, "first": gone.first, "last": gone.last}
    if not proc:
        return UnknownSeq(
            f"{what} while they were being read: read again, without a start or with a later one.",
            seq=gone.first,
            **details,
        )
    return ProcOvertaken(
        f"{what} by max_age before the stream of proc {proc!r} had them. To go on without "
        "them, start with a new checkpoint and the option start='>'; the topic's max_age says "
        "how long it keeps records that are still wanted.",
        proc=proc,
        **details,
    )
