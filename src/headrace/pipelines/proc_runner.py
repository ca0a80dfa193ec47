"""One proc of a pipeline: claim, process, ack and commit in one transaction.

A record that fails does not block its neighbours:

- The records before it in the claim are committed.
- Then it is the first record of the next claim, and is tried again with those behind it. Of these
  only the ones that failed are run again.
- At ``max_attempts`` the proc's strategy decides: the proc is disabled, the record is retried
  forever, or it goes to ``<proc>-dead`` with the error. The same transaction commits the results
  of the records behind it.
"""

from __future__ import annotations

from typing import NamedTuple

from headrace.contract.sinks import Publication
from headrace.contract.store import Store
from headrace.contract.values import ClaimResult, RangeQuery
from headrace.core.requests.procs import CLAIM_BYTES
from headrace.errors import ClaimLost, HeadraceError
from headrace.model import error_messages
from headrace.model.codec import dead_letter
from headrace.model.names import dead_topic
from headrace.model.pipelines import Defined, Definition, PipelineProc
from headrace.model.tokens import claim_token
from headrace.model.topics.positions import Position
from headrace.model.topics.procs import NO_LIMIT, ProcInfo
from headrace.model.topics.records import Batch
from headrace.pipelines.engine_calls import EngineCalls
from headrace.pipelines.engines import (
    MIN_PARTITIONED_RECORDS,
    PartitionedClaim,
    PartitionedOutcome,
    PipelineEngine,
)
from headrace.pipelines.heartbeat import PipelineHeartbeat
from headrace.pipelines.processor_registry import ProcessorRegistry
from headrace.pipelines.processors import Processor
from headrace.pipelines.results import (
    RangeOutcome,
    commit_call,
    format_error,
    merge_neighbours,
    without_gaps,
)
from headrace.pipelines.rows import Rows
from headrace.pipelines.step import ClaimReleased, Step

MAX_SMALL_RECORDS = 1000
"""How many records of a large claim are processed together after one of them has failed."""


class _OpenClaim(NamedTuple):
    """A claim, and the definition that it was made for."""

    claim: ClaimResult
    token: str
    definition: Definition
    processor: Processor
    is_large: bool


class ProcRunner:
    """Runs one proc, in one thread."""

    def __init__(
        self,
        store: Store,
        pipeline: str,
        proc: PipelineProc,
        *,
        engine: PipelineEngine,
        processors: ProcessorRegistry,
        heartbeat: PipelineHeartbeat,
        max_body: int,
        timeout: float | None = None,
        end_seq: int | None = None,
    ) -> None:
        self.pipeline = pipeline
        self.proc = proc.name
        self.topic = proc.topic
        self._store = store
        self._engine = EngineCalls(engine, max_body=max_body)
        self._processors = processors
        self._heartbeat = heartbeat
        self._timeout = timeout
        # No claim begins at or behind this record.
        self._end_seq = end_seq
        self._open_claim: _OpenClaim | None = None
        self._definition: Defined | None = None
        # Results of records behind a failed one, which are not run again.
        self._kept: list[RangeOutcome] = []
        self._kept_for: Processor | None = None
        self._tries: dict[int, int] = {}
        self._claims_one = False
        self._small_until: int | None = None

    def step(self) -> Step:
        """Make one claim, process it and ack it.

        The definition at the time of the claim applies. Raises ``ProcDisabled``,
        ``ProcOvertaken``, ``UnknownProc`` and ``UnknownPipeline`` for the state of the proc,
        ``StoreError`` if the store is unavailable, ``InvalidOption`` for a processor that cannot
        be loaded, and errors of the engine. After an error the claim stays open, and the next step
        continues with it.
        """
        open_claim = self._resume_claim() or self._claim()
        if isinstance(open_claim, Step):
            return open_claim
        try:
            return self._process_claim(open_claim)
        except ClaimLost as error:
            # Another runner claimed these records after the lease had expired.
            self._reset()
            return Step("lost", error=str(error))
        except ClaimReleased as released:
            raise released.reason from released
        except Exception:
            self._open_claim = open_claim
            raise

    def _resume_claim(self) -> _OpenClaim | None:
        """The claim that the last step left open, if its lease can still be extended."""
        open_claim = self._open_claim
        if open_claim is not None:
            try:
                self._store.run(self._store.procs.extend(self.proc, open_claim.token))
            except ClaimLost:
                self._reset()
                open_claim = None
        self._open_claim = None
        return open_claim

    def _claim(self) -> _OpenClaim | Step:
        defined = self._definition or self._read_definition()
        processor = self._load_processor(defined)
        token = claim_token()
        is_large = self._is_large(defined.definition, processor)
        count = 1 if self._claims_one else defined.definition.count
        if self._end_seq is not None:
            count = min(count, self._records_before(self._end_seq, count))
            if count <= 0:
                return Step("empty")
        claim = self._store.run(
            self._store.procs.claim_span(self.proc, token, count)
            if is_large
            else self._store.procs.claim(self.proc, token, count, CLAIM_BYTES)
        )
        if claim.state != "claimed":
            return self._no_claim(claim)
        return _OpenClaim(claim, token, defined.definition, processor, is_large)

    def _records_before(self, end_seq: int, unknown: int) -> int:
        """How many records the proc has to read before one; ``unknown`` before its first claim."""
        position = self._store.run(self._store.procs.info(self.proc)).position
        return unknown if position is None else end_seq - position

    def _no_claim(self, claim: ClaimResult) -> Step:
        if claim.state == "disabled":
            raise error_messages.disabled(claim.proc, claim.error)
        if claim.state == "overtaken":
            raise error_messages.overtaken(claim.proc, claim.first_seq, claim.last_seq)
        return Step("busy" if claim.state == "busy" else "empty")

    def _process_claim(self, open_claim: _OpenClaim) -> Step:
        claim, token = open_claim.claim, open_claim.token
        defined = self._read_definition()
        with self._heartbeat.keeping(self.proc, token, self._lease_ms(defined)):
            if defined.definition != open_claim.definition:
                return self._process_redefined(claim, token, defined)
            if open_claim.is_large:
                return self._process_large(claim, token, defined.definition, open_claim.processor)
            return self._process_small(claim, token, defined.definition, open_claim.processor)

    def _read_definition(self) -> Defined:
        self._definition = self._store.run(self._store.pipelines.definition(self.pipeline))
        return self._definition

    def _load_processor(self, defined: Defined) -> Processor:
        """The processor of a definition; after an error the next step reads the definition again."""
        try:
            processor = self._processors.processor(defined)
            self._engine.engine.check(processor)
        except HeadraceError:
            self._definition = None
            raise
        return processor

    def _lease_ms(self, defined: Defined) -> int | None:
        """The lease of this proc; ``UnknownProc`` if it no longer belongs to the pipeline."""
        for proc in defined.procs:
            if proc.name == self.proc:
                return proc.lease
        raise error_messages.unknown_proc(self.proc)

    def _timeout_of(self, definition: Definition) -> float | None:
        return self._timeout if definition.timeout is None else definition.timeout

    def _is_large(self, definition: Definition, processor: Processor) -> bool:
        """Whether there is enough to do for executors to read and stage the records themselves."""
        if (
            definition.count < MIN_PARTITIONED_RECORDS
            or self._small_until is not None
            or self._claims_one
        ):
            return False
        if not self._engine.engine.can_partition(processor, self._store.url):
            return False
        return self._store.run(self._store.procs.lag(self.proc)).records >= MIN_PARTITIONED_RECORDS

    def _process_redefined(self, claim: ClaimResult, token: str, defined: Defined) -> Step:
        """The definition changed just before the claim: apply the new one, and its count."""
        try:
            processor = self._load_processor(defined)
        except HeadraceError as error:
            self._store.run(self._store.procs.nack(self.proc, token, None, format_error(error)))
            raise ClaimReleased(error) from error
        count = defined.definition.count
        if claim.batches:
            rows = Rows.from_claim(claim).slice(0, count)
        else:
            rows = self._first_rows(claim, min(count, MAX_SMALL_RECORDS))
        outcomes = self._process_rows(defined.definition, processor, rows)
        return self._ack_part(token, defined.definition, rows, outcomes)

    def _process_large(
        self, claim: ClaimResult, token: str, definition: Definition, processor: Processor
    ) -> Step:
        """Executors read the records and stage the results, which the ack publishes."""
        partitioned = PartitionedClaim(
            claim.topic, claim.first_seq, claim.last_seq, claim.skipped, definition.targets
        )
        outcome = self._engine.process_partitioned(
            processor, partitioned, self._store.url, self._timeout_of(definition)
        )
        if outcome.failed_seq is None:
            self._ack_stages(token, outcome)
            return Step("moved", partitioned.records)
        self._discard(outcome)
        # Claims stay small until the record that fails is acked.
        self._small_until = outcome.failed_seq
        rows = self._first_rows(claim, MAX_SMALL_RECORDS)
        outcomes = self._process_rows(definition, processor, rows)
        return self._ack_part(token, definition, rows, outcomes)

    def _ack_stages(self, token: str, outcome: PartitionedOutcome) -> None:
        stages = tuple(stage for stage in outcome.stages if stage.counts)
        if stages:
            publication = Publication(stages=stages)
            self._store.run(self._store.sinks.ack_publish(self.proc, token, publication))
        else:
            self._store.run(self._store.procs.ack(self.proc, token))
        self._discard(outcome)
        self._reset()

    def _discard(self, outcome: PartitionedOutcome) -> None:
        tokens = [stage.token for stage in outcome.stages if stage.counts]
        if tokens:
            self._store.run(self._store.sinks.discard(tokens))

    def _first_rows(self, claim: ClaimResult, count: int) -> Rows:
        """The first records of a large claim; the ack releases the others."""
        query = RangeQuery(
            topic=claim.topic,
            start=Position(seq=claim.first_seq),
            end=Position(seq=claim.last_seq),
            limit=count,
            max_bytes=CLAIM_BYTES,
        )
        page = self._store.run(self._store.topics.read(query))
        rows = Rows.from_batches(claim.topic, page.batches, page.first, page.last)
        return rows.without(claim.skipped)

    def _process_small(
        self, claim: ClaimResult, token: str, definition: Definition, processor: Processor
    ) -> Step:
        rows = Rows.from_claim(claim)
        outcomes = self._process_rows(definition, processor, rows)
        if outcomes[0].error is None and outcomes[0].last_seq == rows.seqs[-1]:
            self._ack_all(token, definition, outcomes[0])
            return Step("moved", rows.count)
        return self._ack_part(token, definition, rows, outcomes)

    def _process_rows(
        self, definition: Definition, processor: Processor, rows: Rows
    ) -> list[RangeOutcome]:
        """The outcomes of the rows, without gaps; rows whose results were kept are not run."""
        if self._kept_for is not processor:
            self._kept, self._kept_for = [], processor
        first, last = rows.seqs[0], rows.seqs[-1]
        kept = [o for o in self._kept if first <= o.first_seq and o.last_seq <= last]
        done = {seq for o in kept for seq in range(o.first_seq, o.last_seq + 1)}
        todo = rows.without(list(done)) if done else rows
        fresh: list[RangeOutcome] = []
        if todo.count:
            timeout = self._timeout_of(definition)
            fresh = self._engine.process(processor, todo, is_separate=bool(kept), timeout=timeout)
        in_order = sorted([*kept, *fresh], key=lambda outcome: outcome.first_seq)
        outcomes = merge_neighbours(without_gaps(rows.seqs, in_order))
        if not outcomes:
            raise RuntimeError(
                f"engine {self._engine.engine.name} returned nothing for {rows.ids[0]}"
            )
        return outcomes

    def _ack_all(self, token: str, definition: Definition, outcome: RangeOutcome) -> None:
        if outcome.lines and definition.targets:
            call = commit_call(dict.fromkeys(definition.targets, outcome.lines))
            self._store.run(self._store.procs.ack_commit(self.proc, token, call))
        else:
            self._store.run(self._store.procs.ack(self.proc, token))
        self._allow_large(outcome.last_seq)
        self._reset()

    def _allow_large(self, acked_seq: int) -> None:
        """End the small claims once the record that made them small is acked."""
        if self._small_until is not None and acked_seq >= self._small_until:
            self._small_until = None

    def _ack_part(
        self, token: str, definition: Definition, rows: Rows, outcomes: list[RangeOutcome]
    ) -> Step:
        """Commit the records before the first failed one, or decide about it if it comes first."""
        for outcome in outcomes:
            if outcome.error is not None:
                self._tries[outcome.first_seq] = self._tries.get(outcome.first_seq, 0) + 1
        is_complete = outcomes[-1].last_seq == rows.seqs[-1]
        succeeded = [outcome for outcome in outcomes if outcome.error is None]
        if outcomes[0].error is None:
            self._commit_part(token, definition, rows, outcomes[:1], [])
            self._kept, self._claims_one = succeeded[1:], not is_complete
            return Step("moved", sum(seq <= outcomes[0].last_seq for seq in rows.seqs))
        info = self._store.run(self._store.procs.info(self.proc))
        failed = outcomes[0]
        is_limit = info.max_attempts != NO_LIMIT and info.attempts + 1 >= info.max_attempts
        if is_limit and info.on_exhausted == "dead_letter":
            return self._dead_letter(token, definition, rows, outcomes, info)
        self._kept, self._claims_one = succeeded, not is_complete
        error = str(failed.error)
        self._store.run(self._store.procs.nack(self.proc, token, failed.first_seq, error))
        return Step("failed", error=error, tries=self._tries[failed.first_seq])

    def _dead_letter(
        self,
        token: str,
        definition: Definition,
        rows: Rows,
        outcomes: list[RangeOutcome],
        info: ProcInfo,
    ) -> Step:
        """Write dead letters for the first record, and for others that were tried as often.

        The same transaction commits the results between them, up to a failed record that has
        tries left.
        """
        acked, letters = outcomes[:1], [self._letter(rows, outcomes[0], info.attempts + 1)]
        for outcome in outcomes[1:]:
            tries = self._tries.get(outcome.first_seq, 0)
            if outcome.error is not None and tries < info.max_attempts:
                break
            if outcome.error is not None:
                letters.append(self._letter(rows, outcome, tries))
            acked.append(outcome)
        self._commit_part(token, definition, rows, acked, letters)
        last_seq = acked[-1].last_seq
        self._kept = [o for o in outcomes if o.error is None and o.first_seq > last_seq]
        self._claims_one = False
        moved = sum(seq <= last_seq for seq in rows.seqs)
        return Step("moved", moved, error=outcomes[0].error, dead=len(letters))

    def _commit_part(
        self,
        token: str,
        definition: Definition,
        rows: Rows,
        outcomes: list[RangeOutcome],
        letters: list[str],
    ) -> None:
        """Ack the records of ``outcomes`` and commit their lines and letters; release the rest."""
        lines = [line for outcome in outcomes for line in outcome.lines]
        by_topic: dict[str, list[str]] = {topic: list(lines) for topic in definition.targets}
        if letters:
            by_topic.setdefault(dead_topic(self.proc), []).extend(letters)
        last_seq = outcomes[-1].last_seq
        call = commit_call({topic: texts for topic, texts in by_topic.items() if texts})
        last_id = rows.ids[rows.seqs.index(last_seq)]
        self._store.run(self._store.procs.ack_part(self.proc, token, last_id, call))
        self._allow_large(last_seq)
        self._tries = {seq: tries for seq, tries in self._tries.items() if seq > last_seq}

    def _letter(self, rows: Rows, outcome: RangeOutcome, tries: int) -> str:
        index = rows.seqs.index(outcome.first_seq)
        row = Batch(rows.seqs[index], 1, rows.times[index], rows.bodies[index], rows.headers[index])
        return dead_letter(self.proc, rows.topic, row, outcome.first_seq, outcome.error, tries)

    def _reset(self) -> None:
        self._kept, self._tries, self._claims_one = [], {}, False
