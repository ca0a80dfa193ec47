"""``headrace sink``."""

from run_cli import Cli

import headrace
from headrace.contract.sinks import Fence, Publication


def test_a_reset_sink_accepts_another_query(each: Cli, durable_url: str) -> None:
    """After a confirmation. The next time there is nothing to reset."""
    with headrace.connect(durable_url) as hr:
        fence = Fence(sink="copier", query="q-1", batch=4)
        hr._store.run(hr._store.sinks.publish(Publication(stages=(), fence=fence)))
        asked = each("sink", "reset", "copier")
        assert asked.code != 0
        assert "query q-1 that wrote up to batch 4" in asked.err
        assert [info.name for info in hr.sinks.list()] == ["copier"]

        assert [info["name"] for info in each("sink", "ls", "--json").json] == ["copier"]
        assert each("sink", "show", "copier", "--json").json["batch"] == 4
        assert "q-1" in each("sink", "ls").out
        assert "q-1" in each("sink", "show", "copier").out

        done = each("sink", "reset", "copier", "--yes")
        assert done.code == 0
        assert done.err.endswith("sink 'copier' accepts another query now\n")
        assert hr.sinks.list() == []
        gone = each("sink", "reset", "copier", "--yes")
        assert gone.code != 0
        assert "'copier'" in gone.err
        assert "`headrace sink ls`" in gone.err
        assert each("sink", "ls").err == "there are no sinks\n"
