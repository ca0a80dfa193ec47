"""Pipelines as they are stored: made whole or not at all, changed, paused, moved, removed."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.core.commits import prepare
from headrace.errors import (
    ClaimLost,
    InvalidOption,
    InvalidPosition,
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
from headrace.testing.contract.queue_base import Desk

WHAT = {"processor": "shop.jobs:invoice"}


class PipelineContract(Contract):
    """Procs that share a definition."""

    def test_a_pipeline_looks_like_this(self, hr: Any) -> None:
        """One source gives a proc of the pipeline's own name."""
        made = hr.system_proc("bill", source="orders", to="invoices", **WHAT)
        info = made.inspect()
        assert (info.name, info.sources, info.targets) == ("bill", ("orders",), ("invoices",))
        assert (info.processor, info.is_inline) == ("shop.jobs:invoice", False)
        assert (info.kind, info.count, info.status) == (None, 1000, "active")
        assert [(proc.name, proc.topic) for proc in info.procs] == [("bill", "orders")]
        assert hr.system_procs() == [info]
        assert hr.procs() == list(info.procs)

    def test_nothing_is_stored_of_an_inline_processor_but_its_name(self, hr: Any) -> None:
        info = hr.system_proc("p", source="t", processor=_twice).inspect()
        assert (info.processor, info.is_inline) == (f"{__name__}:_twice", True)

    def test_a_list_of_sources_gives_a_proc_for_each(self, hr: Any) -> None:
        """Of one topic too, so that the list may grow; every proc has the settings."""
        one = hr.system_proc("p", source=["b"], max_reclaims=3, **WHAT).inspect()
        assert [proc.name for proc in one.procs] == ["p__b"]
        fill(hr, 2, "b")
        hr.proc("p__b").claim(count=1).ack()
        two = hr.system_proc("p", source=["b", "a"], count=7, max_reclaims=4, **WHAT).inspect()
        assert [(proc.name, proc.position) for proc in two.procs] == [("p__a", 0), ("p__b", 1)]
        assert {proc.max_reclaims for proc in two.procs} == {4}
        assert two.count == 7

    def test_making_one_over_several_sources_is_all_or_nothing(self, hr: Any) -> None:
        """PipeProc made some of them, and made an existing one a second time."""
        fill(hr, 3, "a")
        hr.proc("p__b", topic="elsewhere")
        before = hr.procs()
        with pytest.raises(ProcNameTaken) as caught:
            hr.system_proc("p", source=["a", "b", "c"], **WHAT)
        assert caught.value.proc == "p__b"
        with pytest.raises(UnknownSeq):
            hr.system_proc("q", source=["a", "b"], offset=":7", **WHAT)
        assert hr.procs() == before
        assert hr.system_procs() == []

    def test_a_proc_belongs_to_one_pipeline(self, hr: Any) -> None:
        hr.system_proc("p", source=["t"], **WHAT)
        with pytest.raises(ProcNameTaken) as caught:
            hr.system_proc("p__t", source="t", **WHAT)
        assert caught.value.pipeline == "p"
        assert [info.name for info in hr.system_procs()] == ["p"]

    def test_a_plain_proc_becomes_the_pipelines_own(self, hr: Any) -> None:
        """It keeps its place: a loop written by hand can be replaced by a pipeline."""
        fill(hr, 5)
        hr.proc("p", topic="t", max_reclaims=3).claim(count=2).ack()
        [proc] = hr.system_proc("p", source="t", offset="$>", **WHAT).inspect().procs
        assert (proc.position, proc.max_reclaims) == (2, 3)

    def test_what_is_said_again_replaces_what_was_said(self, hr: Any) -> None:
        """But not the place, nor settings that are not given."""
        fill(hr, 5)
        hr.system_proc("p", source="t", to=["x", "y"], count=5, max_reclaims=2, **WHAT)
        hr.proc("p").claim(count=3).ack()
        again = hr.system_proc(
            "p", source="t", to="z", processor="shop.jobs:other", kind="batch", offset="$>"
        ).inspect()
        assert (again.targets, again.processor, again.kind) == (("z",), "shop.jobs:other", "batch")
        assert again.count == 1000
        assert (again.procs[0].position, again.procs[0].max_reclaims) == (3, 2)
        assert hr.system_proc("p").inspect() == again

    def test_a_source_is_not_dropped_in_silence(self, hr: Any) -> None:
        """Its proc would hold what it has not read for ever."""
        hr.system_proc("p", source=["a", "b"], **WHAT)
        before = hr.system_procs()
        with pytest.raises(InvalidOption, match=r"reads topic 'b'.*destroy its proc 'p__b'"):
            hr.system_proc("p", source=["a"], **WHAT)
        assert hr.system_procs() == before
        hr.proc("p__b").destroy()
        assert hr.system_proc("p", source=["a"], **WHAT).inspect().sources == ("a",)

    def test_pausing_and_resuming_is_of_all_its_procs(self, hr: Any) -> None:
        made = hr.system_proc("p", source=["a", "b"], **WHAT)
        hr.proc("p__a").disable()
        assert made.inspect().status == "partly_disabled"
        assert made.pause().status == "disabled"
        with pytest.raises(ProcAlreadyDisabled):
            made.pause()
        assert {proc.status for proc in hr.procs()} == {"disabled"}
        assert made.resume().status == "active"
        with pytest.raises(ProcAlreadyActive):
            made.resume()

    def test_seeking_moves_all_its_procs_or_none(self, hr: Any) -> None:
        fill(hr, 3, "a")
        fill(hr, 5, "b")
        made = hr.system_proc("p", source=["a", "b"], **WHAT)
        claim = hr.proc("p__b").claim(count=5)
        assert [proc.position for proc in made.seek("$>").procs] == [3, 5]
        assert hr.proc("p__b").inspect().claimed is None
        with pytest.raises(UnknownSeq):
            made.seek(":4")
        with pytest.raises(InvalidPosition):
            made.seek("later")
        assert [proc.position for proc in made.inspect().procs] == [3, 5]
        assert len(claim) == 5

    def test_destroying_removes_its_procs_and_no_other(self, hr: Any) -> None:
        """PipeProc's came back with the next poll, from the start of the topic."""
        fill(hr, 2, "a")
        made = hr.system_proc("p", source=["a", "b"], **WHAT)
        hr.system_proc("other", source="a", **WHAT)
        hr.proc("p__a").claim()
        before = made.inspect()
        assert made.destroy() == before
        assert [info.name for info in hr.system_procs()] == ["other"]
        assert [info.name for info in hr.procs()] == ["other"]
        for use in (made.inspect, made.pause, made.resume, made.destroy, made.lag):
            with pytest.raises(UnknownPipeline) as caught:
                use()
            assert (caught.value.code, caught.value.pipeline) == ("unknown_pipeline", "p")

    def test_without_procs_there_is_no_pipeline(self, hr: Any) -> None:
        made = hr.system_proc("p", source="t", **WHAT)
        hr.proc("p").destroy()
        assert hr.system_procs() == []
        with pytest.raises(UnknownPipeline):
            made.inspect()
        assert hr.proc("p", topic="u").inspect().topic == "u"
        assert hr.system_procs() == []

    def test_lag_is_that_of_all_sources(self, hr: Any) -> None:
        made = hr.system_proc("p", source=["a", "b"], **WHAT)
        assert made.lag().records == 0
        fill(hr, 3, "a")
        fill(hr, 4, "b")
        assert made.lag().records == 7

    def test_a_pipeline_is_waited_for_by_its_name(self, hr: Any) -> None:
        """Its name stands for all of its procs, and those are waited for with all others."""
        made = hr.system_proc("p", source=["a", "b"], **WHAT)
        hr.wait_for_procs("p", timeout=0.5)
        fill(hr, 1, "b")
        for wanted in ("p", ["p"], made, None):
            with pytest.raises(WaitTimeout) as caught:
                hr.wait_for_procs(wanted, timeout=0)
            assert caught.value.procs == ["p__b"]
        hr.proc("p__b").claim().ack()
        hr.wait_for_procs(made, timeout=0.5)
        with pytest.raises(UnknownProc):
            hr.wait_for_procs(["p", "nobody"], timeout=0)

    def test_definitions_outlive_the_client(self, connect: Connect) -> None:
        one, keep = connect(), connect()
        info = one.system_proc("p", source=["a"], to=["x", "y"], **WHAT).inspect()
        one.close()
        assert keep.system_proc("p").inspect() == info

    def test_a_runner_asks_for_the_definition_alone(self, hr: Any) -> None:
        hr.system_proc("p", source=["a", "b"], to="x", reclaim_timeout=None, **WHAT)
        found = Desk(hr).definition("p")
        assert found.name == "p"
        assert (found.definition.targets, found.definition.processor) == (("x",), WHAT["processor"])
        lanes = [(lane.proc, lane.topic, lane.reclaim_timeout) for lane in found.lanes]
        assert lanes == [("p__a", "a", None), ("p__b", "b", None)]
        with pytest.raises(UnknownPipeline):
            Desk(hr).definition("nobody")

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
            (InvalidOption, {"processor": None}),
            (InvalidOption, {"processor": "jobs.invoice"}),
            (InvalidOption, {"processor": "jobs:not a name"}),
            (InvalidOption, {"processor": 5}),
            pytest.param(InvalidOption, {"processor": lambda: None}, id="takes nothing"),
            pytest.param(InvalidOption, {"processor": lambda a, b: None}, id="takes two"),
            (InvalidOption, {"kind": "row"}),
            (InvalidOption, {"count": 0}),
            (InvalidOption, {"max_reclaims": 0}),
            (InvalidOption, {"reclaim_timeout": -1}),
            (InvalidOption, {"on_max_reclaims_reached": "cry"}),
            (InvalidPosition, {"offset": "later"}),
        ],
        ids=repr,
    )
    def test_a_wrong_word_makes_nothing(
        self, hr: Any, error: type[Exception], options: dict[str, Any]
    ) -> None:
        wanted = {"name": "p", "source": "t", **WHAT, **options}
        with pytest.raises(error) as caught:
            hr.system_proc(wanted.pop("name"), **wanted)
        assert len(str(caught.value)) > 20
        assert (hr.procs(), hr.system_procs()) == ([], [])

    def test_options_without_a_source_change_nothing(self, hr: Any) -> None:
        """With a name only it is a reference, and must exist."""
        with pytest.raises(UnknownPipeline):
            hr.system_proc("p")
        hr.system_proc("p", source="t", **WHAT)
        with pytest.raises(InvalidOption, match="both a source and a processor"):
            hr.system_proc("p", to="x")
        hr.proc("plain", topic="t")
        with pytest.raises(UnknownPipeline):
            hr.system_proc("plain")


class AckPartContract(Contract):
    """An ack of the first records of a claim; the others are free."""

    def test_the_rest_is_handed_out_again_uncounted(self, hr: Any) -> None:
        """Even at the limit of reclaims nothing is disabled."""
        fill(hr, 5)
        proc = hr.proc("p", topic="t", max_reclaims=1)
        claim = proc.claim(count=4)
        result = _ack_part(hr, claim, claim[1], "out", {"n": 1})
        assert result.range == f"{claim[0].id}..{claim[1].id}"
        assert [record.body for record in hr.range("out")] == [{"n": 1}]
        info = proc.inspect()
        assert (info.position, info.reclaims, info.claimed, info.status) == (2, 0, None, "active")
        assert info.last_acked_range == info.last_claimed_range == result.range
        assert seqs(proc.claim(count=9)) == [2, 3, 4]

    def test_it_may_commit_nothing(self, hr: Any) -> None:
        fill(hr, 3)
        proc = hr.proc("p", topic="t")
        claim = proc.claim(count=3)
        assert _ack_part(hr, claim, claim[0]).committed is None
        assert seqs(proc.claim()) == [1]
        assert [topic.name for topic in hr.topics()] == ["t"]

    def test_up_to_the_last_it_is_an_ack(self, hr: Any) -> None:
        fill(hr, 2)
        proc = hr.proc("p", topic="t")
        claim = proc.claim(count=2)
        _ack_part(hr, claim, claim[1], "out", {})
        assert (proc.lag().records, proc.inspect().position) == (0, 2)

    def test_a_repeat_gets_the_same_answer_and_commits_nothing(self, hr: Any) -> None:
        fill(hr, 3)
        claim = hr.proc("p", topic="t").claim(count=3)
        first = _ack_part(hr, claim, claim[0], "out", {"n": 1})
        assert _ack_part(hr, claim, claim[0], "out", {"n": 1}) == first
        assert hr.length("out") == 1
        with pytest.raises(ClaimLost):
            _ack_part(hr, claim, claim[0], "out", {"n": 2})

    def test_only_a_record_of_the_claim_can_be_the_last(self, hr: Any) -> None:
        fill(hr, 5)
        proc = hr.proc("p", topic="t")
        claim = proc.claim(count=2)
        [other] = hr.range("t", ":3", ":3")
        with pytest.raises(InvalidOption, match="not in this claim"):
            _ack_part(hr, claim, other, "out", {})
        assert [topic.name for topic in hr.topics()] == ["t"]
        claim.ack()

    def test_a_stale_token_is_refused(self, hr: Any) -> None:
        fill(hr, 3)
        proc = hr.proc("p", topic="t")
        claim = proc.claim(count=2)
        proc.reclaim()
        with pytest.raises(ClaimLost):
            _ack_part(hr, claim, claim[0], "out", {})
        assert [topic.name for topic in hr.topics()] == ["t"]

    def test_dead_letters_between_are_passed(self, hr: Any) -> None:
        fill(hr, 4)
        proc = hr.proc("p", topic="t", max_reclaims=1, on_max_reclaims_reached="dead_letter")
        claim = proc.claim(count=4)
        claim.reclaim(failed=claim[1])
        claim = proc.claim(count=4)
        assert seqs(claim) == [0, 2, 3]
        _ack_part(hr, claim, claim[0])
        assert proc.inspect().position == 2
        assert seqs(proc.claim(count=9)) == [2, 3]


class ClaimSpanContract(Contract):
    """A claim whose records somebody else reads."""

    def test_it_says_which_and_brings_none(self, hr: Any) -> None:
        """However large they are; it is a claim like any other."""
        for n in range(5):
            hr.commit("t", {"n": n, "text": "x" * 1000})
        proc = hr.proc("p", topic="t")
        found = Desk(hr).claim_span("p", "token", 4)
        assert (found.state, found.topic, found.batches) == ("claimed", "t", ())
        assert (found.first_seq, found.last_seq, found.skipped) == (0, 3, ())
        ids = [record.id for record in hr.range("t")]
        assert proc.inspect().claimed == f"{ids[0]}..{ids[3]}"
        assert Desk(hr).claim_span("p", "other", 4).state == "held"
        assert proc.ack("token") == f"{ids[0]}..{ids[3]}"
        assert Desk(hr).claim_span("p", "next", 4).last_seq == 4

    def test_it_has_the_other_answers_of_a_claim(self, hr: Any) -> None:
        proc = hr.proc("p", topic="t", max_reclaims=1, on_max_reclaims_reached="dead_letter")
        assert Desk(hr).claim_span("p", "a", 4).state == "empty"
        fill(hr, 4)
        claim = proc.claim(count=4)
        claim.reclaim(failed=claim[2])
        found = Desk(hr).claim_span("p", "b", 9)
        assert (found.first_seq, found.last_seq, found.skipped) == (0, 3, (2,))
        proc.ack("b")
        proc.disable()
        assert Desk(hr).claim_span("p", "c", 4).state == "disabled"
        with pytest.raises(UnknownProc):
            Desk(hr).claim_span("nobody", "d", 4)


def _ack_part(hr: Any, claim: Any, last: Any, *entry: Any) -> Any:
    entries = [entry] if entry else []
    call = prepare(entries, max_body=1000, with_digest=True).call
    return Desk(hr).ack_part(claim.proc_name, claim.token, last.id, call)


def _twice(body: Any) -> Any:
    return body
