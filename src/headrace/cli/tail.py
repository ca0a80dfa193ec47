"""Follow a topic: records as they arrive."""

from __future__ import annotations

import time
from collections.abc import Iterator

from headrace._sync.headrace import Headrace
from headrace.cli.output import note
from headrace.errors import UnknownSeq, UnknownTopic
from headrace.model.topics.records import Record

MIN_PAUSE_SECONDS = 0.01
MAX_PAUSE_SECONDS = 0.25


class TailFollower:
    """Polls a topic for new records, at growing intervals while there are none.

    It writes nothing to the store. ``live`` would wake sooner, but creates a proc, which delays
    retention until it is removed.
    """

    def __init__(self, hr: Headrace, topic: str, seq: int) -> None:
        self._hr = hr
        self._topic = topic
        self._seq = seq
        self._pause = MIN_PAUSE_SECONDS

    def new_records(self) -> Iterator[Record]:
        """The records that were committed since the last poll."""
        try:
            info = self._hr.topic(self._topic).info()
        except UnknownTopic:
            return
        if info.next_seq <= self._seq:
            return
        if info.first_seq > self._seq:
            note(
                f"records :{self._seq} to :{info.first_seq - 1} were removed before they were read"
            )
            self._seq = info.first_seq
        try:
            for record in self._hr.iterate(self._topic, f":{self._seq}"):
                self._seq = record.seq + 1
                self._pause = MIN_PAUSE_SECONDS
                yield record
        except UnknownSeq:
            # Retention removed it since topic_info(); the next poll continues behind it.
            return

    def wait(self) -> None:
        """Pause before the next poll."""
        time.sleep(self._pause)
        self._pause = min(self._pause * 2, MAX_PAUSE_SECONDS)
