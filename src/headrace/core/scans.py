"""Reading a range page by page."""

from __future__ import annotations

from headrace.contract.values import Page, RangeQuery
from headrace.errors import InvalidOption
from headrace.model.codec import records
from headrace.model.position import Position, parse_end
from headrace.model.record import Record

PAGE_RECORDS = 10_000
PAGE_BYTES = 2 * 1024 * 1024


class Scan:
    """Which page to ask for next, and what is in the one that came.

    Ask for ``query`` until it is None; give every page to ``take``. The end of the range
    is fixed by the first page, so a scan ends even while records are being committed.
    """

    def __init__(
        self,
        topic: str,
        *,
        start: object,
        end: object,
        exclusive: bool,
        limit: int | None,
        descending: bool,
    ) -> None:
        # PipeProc: revrange starts at the high end.
        first, second = parse_end(start), parse_end(end)
        low, high = (second, first) if descending else (first, second)
        self._left = _checked(limit)
        self.query: RangeQuery | None = RangeQuery(
            topic=topic,
            start=low,
            end=high,
            exclusive=exclusive,
            descending=descending,
            limit=self._page_limit(),
            max_bytes=PAGE_BYTES,
        )

    def _page_limit(self) -> int:
        return PAGE_RECORDS if self._left is None else min(self._left, PAGE_RECORDS)

    def take(self, page: Page) -> list[Record]:
        """The records of a page in reading order; decides what the next query is."""
        assert self.query is not None
        found: list[Record] = []
        for batch in page.batches:
            some = records(page.topic.name, batch, page.first, page.last)
            found.extend(reversed(some) if self.query.descending else some)
        if self._left is not None:
            self._left -= len(found)
        self.query = self._next(page, self.query)
        return found

    def _next(self, page: Page, query: RangeQuery) -> RangeQuery | None:
        low, high = page.low, page.high
        if query.descending:
            high = page.first - 1
        else:
            low = page.last + 1
        if high < low or self._left == 0:
            return None
        return RangeQuery(
            topic=query.topic,
            start=Position(seq=low),
            end=Position(seq=high),
            descending=query.descending,
            limit=self._page_limit(),
            max_bytes=query.max_bytes,
        )


def _checked(limit: object) -> int | None:
    """How many records at the most; None for all, as is any number below 1."""
    if limit is None:
        return None
    if not isinstance(limit, int) or isinstance(limit, bool):
        raise InvalidOption(f"limit is {limit!r}: use a whole number, or None.", option="limit")
    return limit if limit > 0 else None
