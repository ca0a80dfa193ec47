"""``headrace pipeline reset SINK``."""

from calling import Cli

import headrace
from headrace.contract.sinks import Fence, Publication


def test_a_reset_sink_takes_another_query(each: Cli, durable_url: str) -> None:
    """After a question; and the next time there is nothing to reset."""
    with headrace.connect(durable_url) as hr:
        fence = Fence(sink="copier", query="q-1", batch=4)
        hr._store.run(hr._store.publish(Publication(stages=(), fence=fence)))
        asked = each("pipeline", "reset", "copier")
        assert asked.code != 0
        assert "query q-1 that wrote up to batch 4" in asked.err
        assert [info.name for info in hr.sinks()] == ["copier"]

        done = each("pipeline", "reset", "copier", "--yes")
        assert done.code == 0
        assert done.err.endswith("sink 'copier' takes another query now\n")
        assert hr.sinks() == []
        gone = each("pipeline", "reset", "copier", "--yes")
        assert gone.code != 0
        assert "'copier'" in gone.err
