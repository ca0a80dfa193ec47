"""Reading a range page by page."""

from __future__ import annotations

from headrace.contract.values import Page, RangeQuery
from headrace.errors import InvalidOption
from headrace.model.codec import records
from headrace.model.fields import shown
from headrace.model.topics.positions import Position, parse_end
from headrace.model.topics.records import Record

PAGE_RECORDS = 10_000
PAGE_BYTES = 2 * 1024 * 1024


class Scan:
    """The state of a range read: the next page to request, and the records of each page.

    Send ``query`` until it is None, and pass every page to ``add``. The first page fixes the end
    of the range, so a scan ends even while records are being committed.
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
        # Backwards, the start is the high end.
        first, second = parse_end(start), parse_end(end)
        low, high = (second, first) if descending else (first, second)
        self._left = _checked(limit)
        self.query: RangeQuery | None = RangeQuery(
            topic=topic,
            start=low,
            end=high,
            exclusive=bool(exclusive),
            descending=descending,
            limit=self._page_limit(),
            max_bytes=PAGE_BYTES,
        )

    def _page_limit(self) -> int:
        return PAGE_RECORDS if self._left is None else min(self._left, PAGE_RECORDS)

    def add(self, page: Page) -> list[Record]:
        """The records of a page in reading order; sets the next query."""
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
    """The maximum number of records; None, and any number below 1, for all."""
    if limit is None:
        return None
    if not isinstance(limit, int) or isinstance(limit, bool):
        raise InvalidOption(
            f"limit is {shown(limit)}: use a whole number, or None.", option="limit"
        )
    return limit if limit > 0 else None
