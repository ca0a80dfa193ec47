"""One proc of a pipeline: claim, process, ack and commit in one transaction.

A record that fails does not take its neighbours with it. What lies before it in the claim is
committed; then it stands first in line, and is tried again with those behind it, of which only
the failing ones are run again. At ``max_reclaims`` the proc's strategy decides: the proc is
disabled, goes on trying, or the record goes to ``<proc>-dead`` with the error, and what was
processed behind it goes through with that same transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, TypeVar

from headrace.client.calls import CLAIM_BYTES
from headrace.contract.sinks import Publication
from headrace.contract.store import Store
from headrace.contract.values import ClaimResult, RangeQuery
from headrace.errors import ClaimLost, HeadraceError, InvalidOption
from headrace.model import refusals
from headrace.model.codec import dead_letter
from headrace.model.names import dead_topic
from headrace.model.pipelines import Defined, Definition, PipelineLane
from headrace.model.position import Position
from headrace.model.procs import NO_LIMIT, ProcInfo
from headrace.model.record import Batch
from headrace.model.tokens import claim_token
from headrace.pipelines.beats import Pulse
from headrace.pipelines.engines import LARGE, Engine, Span, SpanOutcome
from headrace.pipelines.processors import Processor, find, processor_of
from headrace.pipelines.results import Piece, call_of, joined, said
from headrace.pipelines.rows import Rows

T = TypeVar("T")

MOST_TROUBLE = 3
"""How often an engine may fail with a claim before its runner gives up."""
FEW = 1000
"""As many records of a large claim are taken at once after one of it failed."""


class Step(NamedTuple):
    """What a step came to: ``moved`` records were acked, or there were none, or one failed."""

    what: Literal["moved", "empty", "held", "failed", "lost"]
    moved: int = 0
    error: str | None = None
    tries: int = 0


class Functions:
    """The processors of pipelines: inline ones by the pipeline's name, others by reference."""

    def __init__(self, inline: Mapping[str, Callable[..., Any]]) -> None:
        self._inline = inline
        self._known: dict[tuple[object, ...], Processor] = {}

    def processor(self, defined: Defined) -> Processor:
        """The function that a definition names, imported once."""
        definition = defined.definition
        owner = defined.name if definition.is_inline else None
        key = (owner, definition.processor, definition.kind)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._look(defined.name, definition)
        return found

    def _look(self, pipeline: str, definition: Definition) -> Processor:
        if not definition.is_inline:
            function = find(definition.processor)
            return processor_of(function, kind=definition.kind, reference=definition.processor)
        if pipeline not in self._inline:
            raise InvalidOption(
                f"the processor {definition.processor} of pipeline {pipeline!r} lives in the "
                "process that defined it: run it there, or define it as 'module:function'.",
                option="processor",
            )
        return processor_of(self._inline[pipeline], kind=definition.kind)


class Lane:
    """Runs one proc, in one thread."""

    def __init__(
        self,
        store: Store,
        pipeline: str,
        lane: PipelineLane,
        *,
        engine: Engine,
        functions: Functions,
        pulse: Pulse,
        max_body: int,
    ) -> None:
        self.pipeline = pipeline
        self.proc = lane.proc
        self.topic = lane.topic
        self._store = store
        self._engine = engine
        self._functions = functions
        self._pulse = pulse
        self._max_body = max_body
        self._kept: list[Piece] = []
        self._kept_for: Processor | None = None
        self._tries: dict[int, int] = {}
        self._is_alone = False
        self._small_until: int | None = None
        self._known: Defined | None = None

    def step(self) -> Step:
        """Claim once, and see it through.

        What counts is the definition as it is when the claim was made. Raises ``ProcDisabled``,
        ``ProcOvertaken``, ``UnknownProc`` and ``UnknownPipeline`` as they are found,
        ``StoreError`` when the store is away, ``InvalidOption`` for a processor that cannot be
        had here, and what the engine cannot do.
        """
        known = self._known or self._read()
        processor = self._processor(known)
        token = claim_token()
        is_large = self._is_large(known.definition, processor)
        count = 1 if self._is_alone else known.definition.count
        claim = self._store.run(
            self._store.claim_span(self.proc, token, count)
            if is_large
            else self._store.claim(self.proc, token, count, CLAIM_BYTES)
        )
        if claim.state != "claimed":
            return self._no_claim(claim)
        try:
            defined = self._read()
            with self._pulse.keeping(self.proc, token, self._timeout_in(defined)):
                if defined.definition != known.definition:
                    return self._as_said_anew(claim, token, defined)
                if is_large:
                    return self._span(claim, token, defined.definition, processor)
                return self._see_through(claim, token, defined.definition, processor)
        except ClaimLost as error:
            # Somebody took it over, because we were away for too long: theirs is the work.
            self._forget()
            return Step("lost", error=str(error))

    def _read(self) -> Defined:
        self._known = self._store.run(self._store.definition(self.pipeline))
        return self._known

    def _processor(self, defined: Defined) -> Processor:
        """What a definition names, if it can be had here; else it is looked at anew next time."""
        try:
            found = self._functions.processor(defined)
            self._engine.check(found)
        except HeadraceError:
            self._known = None
            raise
        return found

    def _as_said_anew(self, claim: ClaimResult, token: str, defined: Defined) -> Step:
        """The definition changed just before the claim: take as many as it says, by its word."""
        try:
            processor = self._processor(defined)
        except HeadraceError as error:
            self._store.run(self._store.reclaim(self.proc, token, None, said(error)))
            raise
        count = defined.definition.count
        if claim.batches:
            rows = Rows.of(claim).cut(0, count)
        else:
            rows = self._first_rows(claim, min(count, FEW))
        return self._part(token, defined.definition, rows, self._process(processor, rows))

    def _is_large(self, definition: Definition, processor: Processor) -> bool:
        """Whether there is so much to do that executors should see to it by themselves."""
        if definition.count < LARGE or self._small_until is not None or self._is_alone:
            return False
        if not self._engine.takes_spans(processor, self._store.url):
            return False
        return self._store.run(self._store.lag(self.proc)).records >= LARGE

    def _span(
        self, claim: ClaimResult, token: str, definition: Definition, processor: Processor
    ) -> Step:
        """A large claim: executors read and stage, and what they staged is published with the ack."""
        span = Span(claim.topic, claim.first_seq, claim.last_seq, claim.skipped, definition.targets)
        done = self._run_span(processor, span)
        if done.failed_seq is None:
            self._ack_stages(token, done)
            return Step("moved", _size(span))
        self._discard(done)
        # From here on as few as it takes, until the record that fails is dealt with.
        self._small_until = done.failed_seq
        rows = self._first_rows(claim, FEW)
        return self._part(token, definition, rows, self._process(processor, rows))

    def _run_span(self, processor: Processor, span: Span) -> SpanOutcome:
        def ask() -> SpanOutcome:
            return self._engine.process_span(
                processor, span, self._store.url, max_body=self._max_body
            )

        return self._persist(ask)

    def _ack_stages(self, token: str, done: SpanOutcome) -> None:
        stages = tuple(stage for stage in done.stages if stage.counts)
        if stages:
            publication = Publication(stages=stages)
            self._store.run(self._store.ack_publish(self.proc, token, publication))
        else:
            self._store.run(self._store.ack(self.proc, token))
        self._discard(done)
        self._forget()

    def _discard(self, done: SpanOutcome) -> None:
        tokens = [stage.token for stage in done.stages if stage.counts]
        if tokens:
            self._store.run(self._store.discard(tokens))

    def _first_rows(self, claim: ClaimResult, count: int) -> Rows:
        """The first records of a large claim; the rest will be free again."""
        query = RangeQuery(
            topic=claim.topic,
            start=Position(seq=claim.first_seq),
            end=Position(seq=claim.last_seq),
            limit=count,
            max_bytes=CLAIM_BYTES,
        )
        page = self._store.run(self._store.read(query))
        rows = Rows.within(claim.topic, page.batches, page.first, page.last)
        return rows.without(claim.skipped)

    def _no_claim(self, claim: ClaimResult) -> Step:
        if claim.state == "disabled":
            raise refusals.disabled(claim.proc, claim.error)
        if claim.state == "overtaken":
            raise refusals.overtaken(claim.proc, claim.first_seq, claim.last_seq)
        return Step("held" if claim.state == "held" else "empty")

    def _see_through(
        self, claim: ClaimResult, token: str, definition: Definition, processor: Processor
    ) -> Step:
        rows = Rows.of(claim)
        pieces = self._process(processor, rows)
        is_whole = pieces[0].error is None and pieces[0].last_seq == rows.seqs[-1]
        if is_whole:
            self._ack(token, definition, pieces[0])
            return Step("moved", rows.count)
        return self._part(token, definition, rows, pieces)

    def _timeout_in(self, defined: Defined) -> int | None:
        """Of this proc; ``UnknownProc`` if it is not the pipeline's any more."""
        for lane in defined.lanes:
            if lane.proc == self.proc:
                return lane.reclaim_timeout
        raise refusals.unknown_proc(self.proc)

    def _process(self, processor: Processor, rows: Rows) -> list[Piece]:
        """All that is known of the rows; only what was not processed yet is run."""
        if self._kept_for is not processor:
            self._kept, self._kept_for = [], processor
        first, last = rows.seqs[0], rows.seqs[-1]
        kept = [p for p in self._kept if first <= p.first_seq and p.last_seq <= last]
        done = {seq for p in kept for seq in range(p.first_seq, p.last_seq + 1)}
        todo = rows.without(list(done)) if done else rows
        fresh = self._run(processor, todo, is_separate=bool(kept)) if todo.count else []
        found = joined(_unbroken(rows, sorted([*kept, *fresh], key=lambda p: p.first_seq)))
        if not found:
            raise RuntimeError(f"engine {self._engine.name} said nothing of {rows.ids[0]}")
        return found

    def _run(self, processor: Processor, rows: Rows, *, is_separate: bool) -> list[Piece]:
        def ask() -> list[Piece]:
            return self._engine.process(
                processor, rows, max_body=self._max_body, is_separate=is_separate
            )

        return self._persist(ask)

    def _persist(self, ask: Callable[[], T]) -> T:
        for left in reversed(range(MOST_TROUBLE)):
            try:
                return ask()
            except HeadraceError:
                raise
            except Exception:
                # The engine's, not a record's: a lost executor comes back, and the claim is kept.
                if not left:
                    raise
        raise AssertionError

    def _ack(self, token: str, definition: Definition, piece: Piece) -> None:
        if piece.lines and definition.targets:
            call = call_of(dict.fromkeys(definition.targets, piece.lines))
            self._store.run(self._store.ack_commit(self.proc, token, call))
        else:
            self._store.run(self._store.ack(self.proc, token))
        self._pass(piece.last_seq)
        self._forget()

    def _pass(self, seq: int) -> None:
        """All up to this record is through: what made claims small may be over."""
        if self._small_until is not None and seq >= self._small_until:
            self._small_until = None

    def _part(self, token: str, definition: Definition, rows: Rows, pieces: list[Piece]) -> Step:
        """Something failed: commit what lies before it, or decide about it if it is the first."""
        for piece in pieces:
            if piece.error is not None:
                self._tries[piece.first_seq] = self._tries.get(piece.first_seq, 0) + 1
        is_known = pieces[-1].last_seq == rows.seqs[-1]
        good = [piece for piece in pieces if piece.error is None]
        if pieces[0].error is None:
            self._commit_part(token, definition, rows, pieces[:1], [])
            self._kept, self._is_alone = good[1:], not is_known
            return Step("moved", sum(s <= pieces[0].last_seq for s in rows.seqs))
        info = self._store.run(self._store.inspect(self.proc))
        culprit = pieces[0]
        is_limit = info.max_reclaims != NO_LIMIT and info.reclaims + 1 >= info.max_reclaims
        if is_limit and info.on_max_reclaims_reached == "dead_letter":
            return self._bury(token, definition, rows, pieces, info)
        self._kept, self._is_alone = good, not is_known
        error = str(culprit.error)
        self._store.run(self._store.reclaim(self.proc, token, culprit.first_seq, error))
        return Step("failed", error=error, tries=self._tries[culprit.first_seq])

    def _bury(
        self,
        token: str,
        definition: Definition,
        rows: Rows,
        pieces: list[Piece],
        info: ProcInfo,
    ) -> Step:
        """Write the letters of the first record, and of others that were tried as often.

        Together with what succeeded between them, up to one that has tries left.
        """
        through, letters = pieces[:1], [self._letter(rows, pieces[0], info.reclaims + 1)]
        for piece in pieces[1:]:
            tries = self._tries.get(piece.first_seq, 0)
            if piece.error is not None and tries < info.max_reclaims:
                break
            if piece.error is not None:
                letters.append(self._letter(rows, piece, tries))
            through.append(piece)
        self._commit_part(token, definition, rows, through, letters)
        last_seq = through[-1].last_seq
        self._kept = [p for p in pieces if p.error is None and p.first_seq > last_seq]
        self._is_alone = False
        return Step("moved", sum(seq <= last_seq for seq in rows.seqs), error=pieces[0].error)

    def _commit_part(
        self,
        token: str,
        definition: Definition,
        rows: Rows,
        pieces: list[Piece],
        letters: list[str],
    ) -> None:
        lines = [line for piece in pieces for line in piece.lines]
        wanted: dict[str, list[str]] = {topic: list(lines) for topic in definition.targets}
        if letters:
            wanted.setdefault(dead_topic(self.proc), []).extend(letters)
        last = rows.seqs.index(pieces[-1].last_seq)
        call = call_of({topic: some for topic, some in wanted.items() if some})
        self._store.run(self._store.ack_part(self.proc, token, rows.ids[last], call))
        self._pass(pieces[-1].last_seq)
        self._tries = {s: n for s, n in self._tries.items() if s > pieces[-1].last_seq}

    def _letter(self, rows: Rows, piece: Piece, tries: int) -> str:
        at = rows.seqs.index(piece.first_seq)
        row = Batch(rows.seqs[at], 1, rows.times[at], rows.bodies[at], rows.headers[at])
        return dead_letter(self.proc, rows.topic, row, piece.first_seq, piece.error, tries)

    def _forget(self) -> None:
        self._kept, self._tries, self._is_alone = [], {}, False


def _size(span: Span) -> int:
    dead = sum(span.first_seq <= seq <= span.last_seq for seq in span.skipped)
    return span.last_seq - span.first_seq + 1 - dead


def _unbroken(rows: Rows, pieces: list[Piece]) -> list[Piece]:
    """The pieces up to the first gap: nothing is acked that no piece speaks of."""
    at = 0
    for number, piece in enumerate(pieces):
        if at == rows.count or piece.first_seq != rows.seqs[at]:
            return pieces[:number]
        while at < rows.count and rows.seqs[at] <= piece.last_seq:
            at += 1
    return pieces
