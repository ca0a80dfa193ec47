"""Records as they arrive."""

from __future__ import annotations

import time
from collections.abc import Iterator

from headrace.api import Headrace
from headrace.cli.output import note
from headrace.errors import UnknownSeq, UnknownTopic
from headrace.model.record import Record

FIRST_PAUSE = 0.01
LONGEST_PAUSE = 0.25


class Follower:
    """Looks for new records of a topic, at growing intervals while there are none.

    It leaves no trace: ``live`` would wake sooner, but makes a proc, which holds up
    collection until it is removed.
    """

    def __init__(self, hr: Headrace, topic: str, seq: int) -> None:
        self._hr = hr
        self._topic = topic
        self._seq = seq
        self._pause = FIRST_PAUSE

    def new(self) -> Iterator[Record]:
        """The records that came since the last look."""
        try:
            info = self._hr.topic_info(self._topic)
        except UnknownTopic:
            return
        if info.next_seq <= self._seq:
            return
        if info.first_seq > self._seq:
            note(f"records :{self._seq} to :{info.first_seq - 1} went before they were read")
            self._seq = info.first_seq
        try:
            for record in self._hr.iterate(self._topic, f":{self._seq}"):
                self._seq = record.seq + 1
                self._pause = FIRST_PAUSE
                yield record
        except UnknownSeq:
            # Collected between the two looks; the next one notices.
            return

    def wait(self) -> None:
        """Pause before the next look."""
        time.sleep(self._pause)
        self._pause = min(self._pause * 2, LONGEST_PAUSE)
