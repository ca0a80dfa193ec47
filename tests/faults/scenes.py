"""One operation at a time, with what must be there before it and what it leaves.

Each scene plays on topics and procs of its own, named after it, so that many can play in
one store.
"""

from faults.children import worker
from faults.queue_scenes import QUEUE_SCENES, run
from faults.scene import Client, Scene
from faults.waiting import until
from headrace.contract.sinks import Fence, Publication, Staged, StagedCount
from headrace.contract.values import CommitCall, Part


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


def _new_records(hr: Client, name: str) -> list[str]:
    names = {info.name for info in hr.topics(prefix=name)} & {name, f"{name}-b"}
    records = [record for topic in names for record in hr.range(topic)]
    return sorted(record.id for record in records if record.body["is"] == "new")


def _claimable(hr: Client, name: str) -> None:
    hr.commit_many(name, [{"is": "old"}] * 5)
    worker.make(hr, name, name)


def _claimed(hr: Client, name: str) -> None:
    _claimable(hr, name)
    # Longer than any test lasts: only an ack ends this claim.
    hr.proc(name, reclaim_timeout=600)
    claim = hr.proc(name).claim(2)
    hr.commit(f"{name}-tokens", {"token": claim.token})


def _token(hr: Client, name: str) -> str:
    return hr.range(f"{name}-tokens")[0].body["token"]


def _claim(hr: Client, name: str) -> list[str]:
    return [record.id for record in hr.proc(name).claim(2)]


def _ack(hr: Client, name: str) -> list[str]:
    return [hr.proc(name).ack(_token(hr, name))]


def _ack_commit(hr: Client, name: str) -> list[str]:
    entries = [(worker.target(name), {"of": seq}) for seq in (0, 1)]
    return hr.proc(name).ack_commit(_token(hr, name), entries).ids


def _ack_commit_again(hr: Client, name: str) -> None:
    _claimed(hr, name)
    hr.commit(worker.target(name), {"is": "old"})


def _records_out(hr: Client, name: str) -> list[str]:
    claimed = hr.proc(name).inspect().claimed
    return [] if claimed is None else [record.id for record in hr.range(name, limit=2)]


def _range_acked(hr: Client, name: str) -> list[str]:
    info = hr.proc(name).inspect()
    assert (info.position == 2) == bool(info.last_acked_range)
    return [info.last_acked_range] if info.last_acked_range else []


def _passed_on(hr: Client, name: str) -> list[str]:
    out = worker.target(name)
    records = hr.range(out) if hr.topics(prefix=out) else []
    results = [record for record in records if "of" in record.body]
    assert [record.body["of"] for record in results] in ([], [0, 1])
    assert len(_range_acked(hr, name)) == bool(results)
    return [record.id for record in results]


def _flush(hr: Client, name: str) -> list[str]:
    """What a crowd of concurrent callers shares: several calls in one commit."""
    calls = [CommitCall(parts=(Part(name, 1, '{"is":"new"}'),)) for _ in range(8)]
    outcomes = hr._store.run(hr._store.commit(calls))
    return sorted(id for outcome in outcomes for id in outcome.ids())


def _transaction(hr: Client, name: str) -> list[str]:
    with hr.transaction() as tx:
        receipts = [tx.commit(topic, {"is": "new"}) for topic in (name, f"{name}-b", name)]
    return sorted(id for receipt in receipts for id in hr.ids(receipt))


def _collectable(hr: Client, name: str) -> None:
    """Rows that are old, and a proc that has not passed the last of them."""
    for n in range(5):
        hr.commit(name, {"n": n})
    proc = hr.proc(name, topic=name)
    for _ in range(4):
        proc.claim().ack()
    hr.keep(name, min_age=0.001)
    # The newest commit is older than a millisecond once a later one has a later time.
    newest = hr.range(name)[-1].ts
    until(lambda: hr.commit(f"{name}-clock", {}) > f"{newest + 2}", "the clock to move on")


def _collect(hr: Client, name: str) -> list[str]:
    done = hr._store.run(hr._store.collect(name))
    return [f"from {done.first_seq}"]


def _collected(hr: Client, name: str) -> list[str]:
    first = hr.topic_info(name).first_seq
    assert [record.seq for record in hr.range(name)] == list(range(first, 5))
    assert hr.proc(name).lag().records == 1
    return [f"from {first}"] if first else []


def _stages(name: str) -> list[Part]:
    lines = "\n".join(['{"is":"new"}'] * 2)
    return [Part(name, 2, lines), Part(f"{name}-b", 2, lines), Part(name, 2, lines)]


def _staged(hr: Client, name: str) -> None:
    run(hr, "stage", name.encode().hex(), _stages(name))


def _publish(hr: Client, name: str) -> list[str]:
    counts = (StagedCount(name, 2, 4), StagedCount(f"{name}-b", 1, 2))
    stages = (Staged(name.encode().hex(), counts),)
    fence = Fence(sink=name, query="q", batch=0)
    published = run(hr, "publish", Publication(stages=stages, fence=fence))
    return sorted(
        f"{published.ts}-{seq}"
        for span in published.spans
        for seq in range(span.first_seq, span.first_seq + span.count)
    )


SCENES = {
    "commit to a new topic": Scene("commit", _nothing, _commit, _new_records),
    "commit": Scene("commit", _first_record, _commit, _new_records),
    "commit to several topics": Scene("commit", _first_record, _commit_several, _new_records),
    "commit with a key": Scene("commit", _first_record, _commit_key, _new_records),
    "claim": Scene("claim", _claimable, _claim, _records_out),
    "flush": Scene("commit", _first_record, _flush, _new_records),
    "transaction": Scene("transaction", _first_record, _transaction, _new_records),
    "collect": Scene("collect", _collectable, _collect, _collected),
    "ack": Scene("ack", _claimed, _ack, _range_acked),
    "ack_commit": Scene("ack_commit", _ack_commit_again, _ack_commit, _passed_on),
    "ack_commit to a new topic": Scene("ack_commit", _claimed, _ack_commit, _passed_on),
    "publish": Scene("publish", _staged, _publish, _new_records),
    **QUEUE_SCENES,
}
IS_REPEATABLE = {
    *("collect", "commit with a key", "ack", "ack_commit", "ack_commit to a new topic"),
    *("push with a key", "push with a subject", "upsert", "publish"),
}
"""Scenes that may act twice and have acted once."""
