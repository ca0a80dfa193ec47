"""One operation at a time, with its preconditions and its effects.

Each case uses topics and procs named after it, so that many can run in one store.
"""

from hashlib import sha256

from faults.children import worker
from faults.crash_case import Client, CrashCase
from faults.polling import until
from faults.queue_crash_cases import QUEUE_CASES, run
from headrace import Claim
from headrace.contract.sinks import Fence, Publication, Staged, StagedCount
from headrace.contract.values import CommitCall, CommitPart
from headrace.testing.sync_facade import claim_of


def _nothing(hr: Client, name: str) -> None:
    pass


def _first_record(hr: Client, name: str) -> None:
    hr.commit(name, {"is": "old"})


def _commit(hr: Client, name: str) -> list[str]:
    return [hr.commit(name, {"is": "new"})]


def _commit_several(hr: Client, name: str) -> list[str]:
    entries = [(name, {"is": "new"}), (f"{name}-b", {"is": "new"}), (name, {"is": "new"})]
    return sorted(hr.commit(entries))


def _commit_key(hr: Client, name: str) -> list[str]:
    return [hr.commit(name, {"is": "new"}, key=name)]


def _key_used(hr: Client, name: str) -> None:
    run(hr, "topics.commit", [_call(name, "old", f"{name} old")])


def _commit_mixed(hr: Client, name: str) -> list[str]:
    """Calls with and without keys; one key was used before."""
    calls = [
        _call(name, word, key)
        for word, key in (
            *(("new", None), ("old", f"{name} old")),
            *(("new", f"{name} new"), ("new", None)),
        )
    ]
    committed = run(hr, "topics.commit", calls)
    return [id for index in (0, 2, 3) for id in committed[index].ids()]


def _call(topic: str, word: str, key: str | None) -> CommitCall:
    part = CommitPart(topic, 1, f'{{"is":"{word}"}}')
    return CommitCall(parts=(part,), key=key, digest=key)


def _new_records(hr: Client, name: str) -> list[str]:
    names = {info.name for info in hr.topics.list(prefix=name)} & {name, f"{name}-b"}
    records = [record for topic in names for record in hr.range(topic)]
    return sorted(record.id for record in records if record.body["is"] == "new")


def _claimable(hr: Client, name: str) -> None:
    hr.commit_many(name, [{"is": "old"}] * 5)
    worker.make(hr, name, name)


def _claimed(hr: Client, name: str) -> None:
    _claimable(hr, name)
    # Longer than any test: only an ack ends this claim.
    hr.proc(name).update(lease=600)
    claim = hr.proc(name).claim(2)
    hr.commit(f"{name}-tokens", {"token": claim.token})


def _claim_of(hr: Client, name: str) -> Claim:
    """The claim that another process has made."""
    return claim_of(hr, name, hr.range(f"{name}-tokens")[0].body["token"])


def _claim(hr: Client, name: str) -> list[str]:
    return [record.id for record in hr.proc(name).claim(2)]


def _ack(hr: Client, name: str) -> list[str]:
    return [_claim_of(hr, name).ack()]


def _ack_commit(hr: Client, name: str) -> list[str]:
    entries = [(worker.target(name), {"of": seq}) for seq in (0, 1)]
    return _claim_of(hr, name).ack_commit(entries).ids


def _ack_commit_again(hr: Client, name: str) -> None:
    _claimed(hr, name)
    hr.commit(worker.target(name), {"is": "old"})


def _records_out(hr: Client, name: str) -> list[str]:
    claimed = hr.proc(name).info().claimed
    return [] if claimed is None else [record.id for record in hr.range(name, limit=2)]


def _range_acked(hr: Client, name: str) -> list[str]:
    info = hr.proc(name).info()
    assert (info.position == 2) == bool(info.last_acked_range)
    return [info.last_acked_range] if info.last_acked_range else []


def _passed_on(hr: Client, name: str) -> list[str]:
    out = worker.target(name)
    records = hr.range(out) if hr.topics.list(prefix=out) else []
    results = [record for record in records if "of" in record.body]
    assert [record.body["of"] for record in results] in ([], [0, 1])
    assert len(_range_acked(hr, name)) == bool(results)
    return [record.id for record in results]


def _flush(hr: Client, name: str) -> list[str]:
    """Several calls in one commit, as concurrent callers share it."""
    calls = [CommitCall(parts=(CommitPart(name, 1, '{"is":"new"}'),)) for _ in range(8)]
    outcomes = hr._store.run(hr._store.topics.commit(calls))
    return sorted(id for outcome in outcomes for id in outcome.ids())


def _transaction(hr: Client, name: str) -> list[str]:
    with hr.transaction() as tx:
        receipts = [tx.commit(topic, {"is": "new"}) for topic in (name, f"{name}-b", name)]
    return sorted(id for receipt in receipts for id in hr.resolve(receipt))


def _prunable(hr: Client, name: str) -> None:
    """Old rows, and a proc that has not passed the last of them."""
    for n in range(5):
        hr.commit(name, {"n": n})
    proc = hr.procs.create(name, name)
    for _ in range(4):
        proc.claim().ack()
    hr.topic(name).set_retention(min_age=0.001)
    # The newest commit is older than a millisecond once a later one has a later time.
    newest = hr.range(name)[-1].ts
    until(lambda: hr.commit(f"{name}-clock", {}) > f"{newest + 2}", "the clock to move on")


def _collect(hr: Client, name: str) -> list[str]:
    done = hr._store.run(hr._store.admin.prune(name))
    return [f"from {done.first_seq}"]


def _collected(hr: Client, name: str) -> list[str]:
    first = hr.topic(name).info().first_seq
    assert [record.seq for record in hr.range(name)] == list(range(first, 5))
    assert hr.proc(name).lag().records == 1
    return [f"from {first}"] if first else []


def _stage_token(name: str) -> str:
    return sha256(name.encode()).hexdigest()


def _stages(name: str) -> list[CommitPart]:
    lines = "\n".join(['{"is":"new"}'] * 2)
    return [
        CommitPart(name, 2, lines),
        CommitPart(f"{name}-b", 2, lines),
        CommitPart(name, 2, lines),
    ]


def _staged(hr: Client, name: str) -> None:
    run(hr, "sinks.stage", _stage_token(name), _stages(name))


def _publish(hr: Client, name: str) -> list[str]:
    counts = (StagedCount(name, 2, 4), StagedCount(f"{name}-b", 1, 2))
    stages = (Staged(_stage_token(name), counts),)
    fence = Fence(sink=name, query="q", batch=0)
    published = run(hr, "sinks.publish", Publication(stages=stages, fence=fence))
    return sorted(
        f"{published.ts}-{seq}"
        for span in published.spans
        for seq in range(span.first_seq, span.first_seq + span.count)
    )


CASES = {
    "commit to a new topic": CrashCase("topics.commit", _nothing, _commit, _new_records),
    "commit": CrashCase("topics.commit", _first_record, _commit, _new_records),
    "commit to several topics": CrashCase(
        "topics.commit", _first_record, _commit_several, _new_records
    ),
    "commit with a key": CrashCase("topics.commit", _first_record, _commit_key, _new_records),
    "commit with some keys": CrashCase("topics.commit", _key_used, _commit_mixed, _new_records),
    "claim": CrashCase("procs.claim", _claimable, _claim, _records_out),
    "flush": CrashCase("topics.commit", _first_record, _flush, _new_records),
    "transaction": CrashCase("transaction", _first_record, _transaction, _new_records),
    "collect": CrashCase("admin.prune", _prunable, _collect, _collected),
    "ack": CrashCase("procs.ack", _claimed, _ack, _range_acked),
    "ack_commit": CrashCase("procs.ack_commit", _ack_commit_again, _ack_commit, _passed_on),
    "ack_commit to a new topic": CrashCase("procs.ack_commit", _claimed, _ack_commit, _passed_on),
    "publish": CrashCase("sinks.publish", _staged, _publish, _new_records),
    **QUEUE_CASES,
}
IS_REPEATABLE = {
    *("collect", "commit with a key", "ack", "ack_commit", "ack_commit to a new topic"),
    *("push with a key", "push with a subject", "upsert", "publish"),
}
"""Scenes that may act twice and have acted once."""
IS_REPEATABLE_IN_PART = {"commit with some keys", "push with some keys"}
"""Scenes of which a part acts once."""
