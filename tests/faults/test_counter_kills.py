"""Killed holders of slots."""

import pytest

import headrace
from faults.polling import PATIENCE, until
from faults.processes import ChildProcesses
from headrace import ANY
from headrace.errors import LimitReached

SLOT = {"api": "maps"}
LEASE = 1.0


def test_the_slot_of_a_killed_holder_is_released(
    durable_url: str, processes: ChildProcesses
) -> None:
    """After its lease and not before, once, for user code and for items alike."""
    with headrace.connect(durable_url) as hr:
        hr.limits.create({"api": ANY}, 1, name="one")
        queue = hr.queue("calls")
        for taker in ("code", "items"):
            holder = processes.start("slot_holder", url=durable_url, slot=SLOT, lease=LEASE)
            until(holder.is_at_work, "a holder")
            with pytest.raises(LimitReached) as caught:
                hr.slots(SLOT, lease=60).acquire()
            assert caught.value.usage.used == 1
            holder.kill()
            assert [info.holders for info in hr.counters.list()] == [1]
            if taker == "code":
                with hr.slots(SLOT, lease=60, wait=PATIENCE):
                    assert [usage.used for usage in hr.limits.usage("one")] == [1]
            else:
                queue.push(1, channel=SLOT)
                [item] = queue.claim(wait=PATIENCE)
                assert [usage.used for usage in hr.limits.usage("one")] == [1]
                item.complete()
            assert hr.limits.usage("one") == []
            assert hr.counters.list() == []
