"""Stored pipelines: create, change, pause, seek, delete."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from headrace.core.commits import prepare
from headrace.errors import (
    ClaimLost,
    InvalidOption,
    InvalidPosition,
    InvalidProcessor,
    InvalidProcName,
    InvalidTopicName,
    ProcAlreadyActive,
    ProcAlreadyDisabled,
    ProcNameTaken,
    UnknownPipeline,
    UnknownProc,
    UnknownSeq,
    WaitTimeout,
)
from headrace.testing.contract.base import Connect, Contract, fill, seqs
from headrace.testing.contract.queue_base import StoreOps
from headrace.testing.sync_facade import claim_of

WHAT = {"processor": "shop.jobs:invoice"}


class PipelineContract(Contract):
    """A pipeline is a definition with one proc per source."""

    needed_parts = frozenset({"pipelines"})

    def test_the_fields_of_a_pipeline(self, hr: Any) -> None:
        """A pipeline with one source has one proc, named like the pipeline."""
        made = hr.pipelines.create("bill", source="orders", to="invoices", **WHAT)
        info = made.info()
        assert (info.name, info.sources, info.targets) == ("bill", ("orders",), ("invoices",))
        assert (info.processor, info.is_inline) == ("shop.jobs:invoice", False)
        assert (info.kind, info.count, info.status) == (None, 1000, "active")
        assert [(proc.name, proc.topic) for proc in info.procs] == [("bill", "orders")]
        assert hr.pipelines.list() == [info]
        assert hr.procs.list() == list(info.procs)

    def test_only_the_name_of_an_inline_processor_is_stored(self, hr: Any) -> None:
        info = hr.pipelines.create("p", source="t", processor=_twice).info()
        assert (info.processor, info.is_inline) == (f"{__name__}:_twice", True)

    def test_the_time_limit_of_a_call_is_stored(self, hr: Any) -> None:
        """It is given in seconds and unlimited by default. Creating the pipeline again replaces
        it."""
        made = hr.pipelines.create("p", source="t", timeout=timedelta(minutes=2), **WHAT)
        assert made.info().timeout == 120.0
        assert hr.pipelines.create("p", source="t", **WHAT).info().timeout is None
        for bad in (0, -1, True, "soon"):
            with pytest.raises(InvalidOption, match="timeout is"):
                hr.pipelines.create("p", source="t", timeout=bad, **WHAT)

    def test_a_list_of_sources_gives_a_proc_for_each(self, hr: Any) -> None:
        """This also holds for a list of one topic, so that the list may grow. Every proc has the
        settings."""
        one = hr.pipelines.create("p", source=["b"], max_attempts=3, **WHAT).info()
        assert [proc.name for proc in one.procs] == ["p__b"]
        fill(hr, 2, "b")
        hr.proc("p__b").claim(count=1).ack()
        two = hr.pipelines.create("p", source=["b", "a"], count=7, max_attempts=4, **WHAT).info()
        assert [(proc.name, proc.position) for proc in two.procs] == [("p__a", 0), ("p__b", 1)]
        assert {proc.max_attempts for proc in two.procs} == {4}
        assert two.count == 7

    def test_creating_a_pipeline_is_all_or_nothing(self, hr: Any) -> None:
        """If one of its procs is refused, none is created, and existing ones keep their state."""
        fill(hr, 3, "a")
        hr.procs.create("p__b", "elsewhere")
        before = hr.procs.list()
        with pytest.raises(ProcNameTaken) as caught:
            hr.pipelines.create("p", source=["a", "b", "c"], **WHAT)
        assert caught.value.proc == "p__b"
        with pytest.raises(UnknownSeq):
            hr.pipelines.create("q", source=["a", "b"], offset=":7", **WHAT)
        assert hr.procs.list() == before
        assert hr.pipelines.list() == []

    def test_a_proc_belongs_to_one_pipeline(self, hr: Any) -> None:
        hr.pipelines.create("p", source=["t"], **WHAT)
        with pytest.raises(ProcNameTaken) as caught:
            hr.pipelines.create("p__t", source="t", **WHAT)
        assert caught.value.pipeline == "p"
        assert [info.name for info in hr.pipelines.list()] == ["p"]

    def test_a_pipeline_adopts_a_plain_proc(self, hr: Any) -> None:
        """The proc keeps its position: a pipeline can replace a loop written by hand."""
        fill(hr, 5)
        hr.procs.create("p", "t", max_attempts=3).claim(count=2).ack()
        [proc] = hr.pipelines.create("p", source="t", offset="$>", **WHAT).info().procs
        assert (proc.position, proc.max_attempts) == (2, 3)

    def test_creating_a_pipeline_again_replaces_its_definition(self, hr: Any) -> None:
        """Its position stays, and so do settings that are not given."""
        fill(hr, 5)
        hr.pipelines.create("p", source="t", to=["x", "y"], count=5, max_attempts=2, **WHAT)
        hr.proc("p").claim(count=3).ack()
        again = hr.pipelines.create(
            "p", source="t", to="z", processor="shop.jobs:other", kind="batch", offset="$>"
        ).info()
        assert (again.targets, again.processor, again.kind) == (("z",), "shop.jobs:other", "batch")
        assert again.count == 1000
        assert (again.procs[0].position, again.procs[0].max_attempts) == (3, 2)
        assert hr.pipeline("p").info() == again

    def test_removing_a_source_is_refused(self, hr: Any) -> None:
        """The proc of a removed source would keep its unread records for ever."""
        hr.pipelines.create("p", source=["a", "b"], **WHAT)
        before = hr.pipelines.list()
        with pytest.raises(InvalidOption, match=r"reads topic 'b'.*delete its proc 'p__b'"):
            hr.pipelines.create("p", source=["a"], **WHAT)
        assert hr.pipelines.list() == before
        hr.proc("p__b").delete()
        assert hr.pipelines.create("p", source=["a"], **WHAT).info().sources == ("a",)

    def test_pause_and_resume_apply_to_all_procs(self, hr: Any) -> None:
        made = hr.pipelines.create("p", source=["a", "b"], **WHAT)
        hr.proc("p__a").disable()
        assert made.info().status == "partly_disabled"
        assert made.pause().status == "disabled"
        with pytest.raises(ProcAlreadyDisabled):
            made.pause()
        assert {proc.status for proc in hr.procs.list()} == {"disabled"}
        assert made.resume().status == "active"
        with pytest.raises(ProcAlreadyActive):
            made.resume()

    def test_seek_moves_all_procs_or_none(self, hr: Any) -> None:
        fill(hr, 3, "a")
        fill(hr, 5, "b")
        made = hr.pipelines.create("p", source=["a", "b"], **WHAT)
        claim = hr.proc("p__b").claim(count=5)
        assert [proc.position for proc in made.seek("$>").procs] == [3, 5]
        assert hr.proc("p__b").info().claimed is None
        with pytest.raises(UnknownSeq):
            made.seek(":4")
        with pytest.raises(InvalidPosition):
            made.seek("later")
        assert [proc.position for proc in made.info().procs] == [3, 5]
        assert len(claim) == 5

    def test_delete_removes_its_own_procs_only(self, hr: Any) -> None:
        """They do not come back, and other pipelines keep theirs."""
        fill(hr, 2, "a")
        made = hr.pipelines.create("p", source=["a", "b"], **WHAT)
        hr.pipelines.create("other", source="a", **WHAT)
        hr.proc("p__a").claim()
        before = made.info()
        assert made.delete() == before
        assert [info.name for info in hr.pipelines.list()] == ["other"]
        assert [info.name for info in hr.procs.list()] == ["other"]
        for use in (made.info, made.pause, made.resume, made.delete, made.lag):
            with pytest.raises(UnknownPipeline) as caught:
                use()
            assert (caught.value.code, caught.value.pipeline) == ("unknown_pipeline", "p")

    def test_without_procs_there_is_no_pipeline(self, hr: Any) -> None:
        made = hr.pipelines.create("p", source="t", **WHAT)
        hr.proc("p").delete()
        assert hr.pipelines.list() == []
        with pytest.raises(UnknownPipeline):
            made.info()
        assert hr.procs.create("p", "u").info().topic == "u"
        assert hr.pipelines.list() == []

    def test_lag_is_the_sum_of_all_sources(self, hr: Any) -> None:
        made = hr.pipelines.create("p", source=["a", "b"], **WHAT)
        assert made.lag().records == 0
        fill(hr, 3, "a")
        fill(hr, 4, "b")
        assert made.lag().records == 7

    def test_waiting_for_a_pipeline_by_name(self, hr: Any) -> None:
        """The name stands for all procs of the pipeline. Waiting for everything includes them."""
        made = hr.pipelines.create("p", source=["a", "b"], **WHAT)
        hr.procs.wait_idle("p", timeout=0.5)
        fill(hr, 1, "b")
        for wanted in ("p", ["p"], made, None):
            with pytest.raises(WaitTimeout) as caught:
                hr.procs.wait_idle(wanted, timeout=0)
            assert caught.value.procs == ["p__b"]
        hr.proc("p__b").claim().ack()
        hr.procs.wait_idle(made, timeout=0.5)
        with pytest.raises(UnknownProc):
            hr.procs.wait_idle(["p", "nobody"], timeout=0)

    def test_definitions_outlive_the_client(self, connect: Connect) -> None:
        one, keep = connect(), connect()
        info = one.pipelines.create("p", source=["a"], to=["x", "y"], **WHAT).info()
        one.close()
        assert keep.pipeline("p").info() == info

    def test_a_runner_reads_the_definition_only(self, hr: Any) -> None:
        hr.pipelines.create("p", source=["a", "b"], to="x", lease=None, **WHAT)
        found = StoreOps(hr).pipelines.definition("p")
        assert found.name == "p"
        assert (found.definition.targets, found.definition.processor) == (("x",), WHAT["processor"])
        procs = [(proc.name, proc.topic, proc.lease) for proc in found.procs]
        assert procs == [("p__a", "a", None), ("p__b", "b", None)]
        with pytest.raises(UnknownPipeline):
            StoreOps(hr).pipelines.definition("nobody")

    @pytest.mark.parametrize(
        ("error", "options"),
        [
            (InvalidProcName, {"name": "no good"}),
            (InvalidProcName, {"source": ["x" * 195]}),
            (InvalidTopicName, {"source": "no good"}),
            (InvalidTopicName, {"source": ["t", 5]}),
            (InvalidTopicName, {"to": ["x", ""]}),
            (InvalidOption, {"source": []}),
            (InvalidOption, {"source": {"t"}}),
            (InvalidOption, {"to": 5}),
            (InvalidOption, {"source": None}),
            (InvalidProcessor, {"processor": None}),
            (InvalidProcessor, {"processor": "jobs.invoice"}),
            (InvalidProcessor, {"processor": "jobs:not a name"}),
            (InvalidProcessor, {"processor": 5}),
            pytest.param(InvalidProcessor, {"processor": lambda: None}, id="takes nothing"),
            pytest.param(InvalidProcessor, {"processor": lambda a, b: None}, id="takes two"),
            (InvalidOption, {"kind": "row"}),
            (InvalidOption, {"count": 0}),
            (InvalidOption, {"max_attempts": 0}),
            (InvalidOption, {"lease": -1}),
            (InvalidOption, {"on_exhausted": "cry"}),
            (InvalidPosition, {"offset": "later"}),
        ],
        ids=repr,
    )
    def test_an_invalid_option_creates_nothing(
        self, hr: Any, error: type[Exception], options: dict[str, Any]
    ) -> None:
        wanted = {"name": "p", "source": "t", **WHAT, **options}
        with pytest.raises(error) as caught:
            hr.pipelines.create(wanted.pop("name"), **wanted)
        assert len(str(caught.value)) > 20
        assert (hr.procs.list(), hr.pipelines.list()) == ([], [])

    def test_a_reference_does_not_create_the_pipeline(self, hr: Any) -> None:
        """And a proc is none."""
        hr.procs.create("plain", "t")
        for name in ("p", "plain"):
            with pytest.raises(UnknownPipeline):
                hr.pipeline(name).info()
        hr.pipelines.create("p", source="t", **WHAT)
        assert hr.pipeline("p").info().sources == ("t",)


class PartialAckContract(Contract):
    """A partial ack covers the first records of a claim and frees the others."""

    def test_the_rest_is_claimed_again_without_an_attempt(self, hr: Any) -> None:
        """Nothing is disabled, even at the limit of attempts."""
        fill(hr, 5)
        proc = hr.procs.create("p", "t", max_attempts=1)
        claim = proc.claim(count=4)
        result = _ack_part(hr, claim, claim[1], "out", {"n": 1})
        assert result.range == f"{claim[0].id}..{claim[1].id}"
        assert [record.body for record in hr.range("out")] == [{"n": 1}]
        info = proc.info()
        assert (info.position, info.attempts, info.claimed, info.status) == (2, 0, None, "active")
        assert info.last_acked_range == info.last_claimed_range == result.range
        assert seqs(proc.claim(count=9)) == [2, 3, 4]

    def test_a_partial_ack_may_commit_nothing(self, hr: Any) -> None:
        fill(hr, 3)
        proc = hr.procs.create("p", "t")
        claim = proc.claim(count=3)
        assert _ack_part(hr, claim, claim[0]).committed is None
        assert seqs(proc.claim()) == [1]
        assert [topic.name for topic in hr.topics.list()] == ["t"]

    def test_a_partial_ack_of_all_records_is_an_ack(self, hr: Any) -> None:
        fill(hr, 2)
        proc = hr.procs.create("p", "t")
        claim = proc.claim(count=2)
        _ack_part(hr, claim, claim[1], "out", {})
        assert (proc.lag().records, proc.info().position) == (0, 2)

    def test_a_repeated_partial_ack_commits_nothing_more(self, hr: Any) -> None:
        fill(hr, 3)
        claim = hr.procs.create("p", "t").claim(count=3)
        first = _ack_part(hr, claim, claim[0], "out", {"n": 1})
        assert _ack_part(hr, claim, claim[0], "out", {"n": 1}) == first
        assert hr.topic("out").length() == 1
        with pytest.raises(ClaimLost):
            _ack_part(hr, claim, claim[0], "out", {"n": 2})

    def test_only_a_record_of_the_claim_can_be_the_last(self, hr: Any) -> None:
        fill(hr, 5)
        proc = hr.procs.create("p", "t")
        claim = proc.claim(count=2)
        [other] = hr.range("t", ":3", ":3")
        with pytest.raises(InvalidOption, match="not in this claim"):
            _ack_part(hr, claim, other, "out", {})
        assert [topic.name for topic in hr.topics.list()] == ["t"]
        claim.ack()

    def test_a_stale_token_is_refused(self, hr: Any) -> None:
        fill(hr, 3)
        proc = hr.procs.create("p", "t")
        claim = proc.claim(count=2)
        proc.nack()
        with pytest.raises(ClaimLost):
            _ack_part(hr, claim, claim[0], "out", {})
        assert [topic.name for topic in hr.topics.list()] == ["t"]

    def test_a_partial_ack_passes_dead_letters(self, hr: Any) -> None:
        fill(hr, 4)
        proc = hr.procs.create("p", "t", max_attempts=1, on_exhausted="dead_letter")
        claim = proc.claim(count=4)
        claim.nack(failed=claim[1])
        claim = proc.claim(count=4)
        assert seqs(claim) == [0, 2, 3]
        _ack_part(hr, claim, claim[0])
        assert proc.info().position == 2
        assert seqs(proc.claim(count=9)) == [2, 3]


class ClaimSpanContract(Contract):
    """A claim that returns the range of its records and not the records."""

    def test_a_span_names_the_records_without_reading_them(self, hr: Any) -> None:
        """Their size does not matter. Otherwise it is a claim like any other."""
        for n in range(5):
            hr.commit("t", {"n": n, "text": "x" * 1000})
        proc = hr.procs.create("p", "t")
        found = StoreOps(hr).procs.claim_span("p", "token", 4)
        assert (found.state, found.topic, found.batches) == ("claimed", "t", ())
        assert (found.first_seq, found.last_seq, found.skipped) == (0, 3, ())
        ids = [record.id for record in hr.range("t")]
        assert proc.info().claimed == f"{ids[0]}..{ids[3]}"
        assert StoreOps(hr).procs.claim_span("p", "other", 4).state == "busy"
        assert claim_of(hr, "p", "token").ack() == f"{ids[0]}..{ids[3]}"
        assert StoreOps(hr).procs.claim_span("p", "next", 4).last_seq == 4

    def test_a_span_can_be_empty_or_refused_like_a_claim(self, hr: Any) -> None:
        proc = hr.procs.create("p", "t", max_attempts=1, on_exhausted="dead_letter")
        assert StoreOps(hr).procs.claim_span("p", "a", 4).state == "empty"
        fill(hr, 4)
        claim = proc.claim(count=4)
        claim.nack(failed=claim[2])
        found = StoreOps(hr).procs.claim_span("p", "b", 9)
        assert (found.first_seq, found.last_seq, found.skipped) == (0, 3, (2,))
        claim_of(hr, "p", "b").ack()
        proc.disable()
        assert StoreOps(hr).procs.claim_span("p", "c", 4).state == "disabled"
        with pytest.raises(UnknownProc):
            StoreOps(hr).procs.claim_span("nobody", "d", 4)


def _ack_part(hr: Any, claim: Any, last: Any, *entry: Any) -> Any:
    entries = [entry] if entry else []
    call = prepare(entries, max_body=1000, with_digest=True).call
    return StoreOps(hr).procs.ack_part(claim.proc_name, claim.token, last.id, call)


def _twice(body: Any) -> Any:
    return body
