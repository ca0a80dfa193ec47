"""Iterate over a topic and watch memory: ``python -m bench.cases.iterate URL TOPIC``."""

from __future__ import annotations

import json
import sys
import time

from bench.measure import rss_mb

import headrace


def main(url: str, topic: str) -> None:
    with headrace.connect(url) as hr:
        length = hr.topic(topic).length()
        step = max(1, length // 10)
        start = rss_mb()
        began = time.perf_counter()
        over = []
        number = 0
        for number, _record in enumerate(hr.iterate(topic), start=1):
            if number % step == 0:
                over.append(rss_mb() - start)
        print(
            json.dumps(
                {
                    "records": number,
                    "seconds": time.perf_counter() - began,
                    "over": over,
                    "peak": rss_mb("VmHWM") - start,
                }
            )
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
