"""One event per operation, for subscribers.

``subscribe(handler)`` calls ``handler(event)`` after every operation of every store in
this process; ``headrace.telemetry.log.attach()`` writes them to the ``headrace`` logger.
"""

from headrace.telemetry import log
from headrace.telemetry.events import Event, emit, subscribe

__all__ = ["Event", "emit", "log", "subscribe"]
