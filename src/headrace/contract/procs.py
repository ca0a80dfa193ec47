"""Procs: what every driver implements. See ``contract.store`` for the rules of all parts."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Protocol

from headrace.contract.flags import reads, writes
from headrace.contract.items import PushCall
from headrace.contract.op import Op
from headrace.contract.values import AckAnswer, ClaimResult, CommitCall, ProcSpec
from headrace.model.topics.positions import FROM_NOW
from headrace.model.topics.procs import Lag, ProcChanges, ProcInfo


class ProcStore(Protocol):
    """Named, durable readers: each has one position and at most one outstanding claim.

    Every operation that names a proc raises ``UnknownProc`` first if there is none.
    """

    @writes(repeatable=True)
    def create(self, spec: ProcSpec, changes: ProcChanges) -> Op[ProcInfo]:
        """Find the proc, or make it; then apply ``changes`` to its settings.

        Raises ``ProcNameTaken`` if it exists on another topic. The topic need not exist
        yet. The offset counts only when the proc is made: ``>`` starts at the first
        record, ``$>`` behind the newest one (by seq), an id or ``:seq`` strictly after it,
        a timestamp at the first record of that millisecond or later. ``UnknownSeq`` if
        ``:seq`` does not exist. Nothing is written on error.
        """
        ...

    @writes(repeatable=True)
    def claim(self, proc: str, token: str, count: int, max_bytes: int) -> Op[ClaimResult]:
        """Claim the next records, up to ``count``; the claim is outstanding until it ends.

        The token of the outstanding claim gets the same claim again. Any other outstanding claim
        that has not run out makes the answer ``busy``. One that has run out is released first,
        exactly as ``procs.nack`` does, in the same transaction. That may disable the proc: the
        answer is then ``disabled``, and the change is kept.

        Records are claimed in order. None is skipped, and none is claimed twice unless its claim
        was released. The batches contain at least one record of the claim, and the claim shrinks
        to what ``max_bytes`` allows.

        Relaxed: a claim lost in a crash is as if it was never made.
        """
        ...

    @writes(repeatable=True)
    def claim_span(self, proc: str, token: str, count: int) -> Op[ClaimResult]:
        """``procs.claim`` without the records: the answer has no batches and no limit in bytes.

        For claims of many records, which several processes then read in parallel by their seqs.
        """
        ...

    @writes()
    def claim_any(
        self, procs: Sequence[str], token: str, count: int, max_bytes: int
    ) -> Op[ClaimResult]:
        """Claim for one of the procs that has work: for the one whose last claim is the oldest.

        Procs that claimed in the same millisecond alternate, too. Disabled procs and those with
        an outstanding claim that has not run out are skipped. ``empty`` if none has work.
        """
        ...

    @writes(repeatable=True)
    def extend(self, proc: str, token: str) -> Op[int | None]:
        """Extend the claim to its full time from now; returns the new deadline.

        ``ClaimLost`` unless the token is that of the outstanding claim. A claim that has run out
        is still valid until another claim or a release ends it.
        """
        ...

    @writes(repeatable=True)
    def ack(self, proc: str, token: str) -> Op[AckAnswer]:
        """Move the proc behind its claim.

        The token of the last ack gets the same answer again. Any other token that is not that of
        the outstanding claim raises ``ClaimLost``. Allowed while the proc is disabled. Resets the
        count of attempts.
        """
        ...

    @writes(repeatable=True)
    def ack_commit(self, proc: str, token: str, call: CommitCall) -> Op[AckAnswer]:
        """``procs.ack`` and ``topics.commit`` of one call in one transaction: both or neither.

        A repeat with the token of the last ack and the same content commits nothing and
        gets the same answer; with other content it raises ``ClaimLost``. The call has no
        key.
        """
        ...

    @writes(repeatable=True)
    def ack_part(self, proc: str, token: str, last_id: str, call: CommitCall) -> Op[AckAnswer]:
        """``procs.ack_commit`` of the claim's records up to ``last_id``; releases the rest.

        ``last_id`` is one of the claim's records, and the range of the answer ends with it. The
        next claim gets the records that were not acked, and no attempt is counted. A call without
        parts commits nothing. A repeat is answered as a repeat of ``procs.ack_commit`` is.
        """
        ...

    @writes(repeatable=True)
    def ack_push(self, proc: str, token: str, calls: Sequence[PushCall]) -> Op[AckAnswer]:
        """``procs.ack`` and ``queues.push`` in one transaction: both or neither.

        A repeat with the token of the last ack and the same calls pushes nothing and gets the
        same answer; with other calls it raises ``ClaimLost``. The calls have no keys.
        """
        ...

    @writes()
    def nack(
        self,
        proc: str,
        token: str | None,
        failed_seq: int | None,
        error: str | None,
        *,
        is_final: bool = False,
    ) -> Op[str]:
        """Give the claim back as failed; returns the range the proc falls back to, '' if none.

        Errors in order: ``ProcDisabled``, ``NothingClaimed``, ``ClaimLost`` for a wrong token.
        Without a token any outstanding claim is released. Counts one attempt. At ``max_attempts``
        the strategy decides:

        - ``disable`` disables the proc;
        - ``continue`` continues with the same records;
        - ``dead_letter`` commits the failed record to ``<proc>-dead`` in the same transaction and
          continues behind it.

        With ``is_final`` a failed record becomes such a dead letter immediately, whatever
        ``max_attempts`` and the strategy are.
        """
        ...

    @writes(repeatable=True)
    def touch(self, proc: str) -> Op[None]:
        """Restart the time to live of a proc that has one."""
        ...

    @reads
    def info(self, proc: str) -> Op[ProcInfo]:
        """Return what is known of the proc."""
        ...

    @reads
    def list(self, topic: str | None) -> Op[builtins.list[ProcInfo]]:
        """List procs by name, of one topic or of all."""
        ...

    @writes()
    def disable(self, proc: str) -> Op[ProcInfo]:
        """Refuse further claims; an outstanding claim stays. ``ProcAlreadyDisabled`` if so."""
        ...

    @writes()
    def resume(self, proc: str) -> Op[ProcInfo]:
        """Allow claims again, with attempts at 0; ``ProcAlreadyActive`` if so."""
        ...

    @writes()
    def delete(self, proc: str) -> Op[ProcInfo]:
        """Remove the proc and its claim; returns its last state. No other proc changes."""
        ...

    @writes(repeatable=lambda proc, offset: offset != FROM_NOW)
    def seek(self, proc: str, offset: str) -> Op[ProcInfo]:
        """Move the proc as if it were made now with this offset; drops its claim.

        ``UnknownSeq`` as in ``procs.create``.
        """
        ...

    @writes(repeatable=True)
    def update(self, proc: str, changes: ProcChanges) -> Op[ProcInfo]:
        """Change settings; they count from the next claim or nack on."""
        ...

    @reads
    def lag(self, proc: str) -> Op[Lag]:
        """How many records are not acked, and how old the oldest of them is."""
        ...

    @reads
    def pending(self, procs: Sequence[str] | None) -> Op[builtins.list[str]]:
        """Names of active procs (of those named, or all) that have not acked everything.

        The name of a pipeline stands for its procs. A name that is neither raises
        ``UnknownProc``.
        """
        ...
