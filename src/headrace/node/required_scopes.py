"""What each operation of the contract needs of a caller's scopes, given its arguments.

The table is complete: an operation without a rule is refused by ``needs_of``. Rules read names from
the arguments only, never from the store, and fail closed.

Decisions:

- **Writes inside of others count as themselves.** ``settle``, ``ack_commit`` and ``ack_push`` need
  ``commit`` and ``push`` for what they write. So do settings by which a queue writes elsewhere
  (``keep_superseded``, ``dead_to``), and the targets of pipelines and sinks.
- **A proc reads its topic for its caller.** Creating it needs ``read`` on the topic; a caller that may
  work as a proc gets the records that it claims. Its dead letters go to ``<proc>-dead``.
- **Lists are not filtered.** A list needs ``read`` on everything that it may show: on all names with
  the prefix that it is given. A page with gaps would end the paging of its reader too early.
- **Claiming creates the queue**, as pushing does, so ``queues.create`` without settings needs
  ``work`` or ``manage``.
- **A limit holds back its queue**, so creating one also needs ``manage`` on that queue, or on all.
- **A schedule acts for its author.** Adding one needs what its action needs; firing those that are
  due needs ``work`` on all of them, and nothing more.
- **Maintenance is the node's.** What only maintenance calls needs ``admin``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from headrace.contract.counters import FREE_SLOTS
from headrace.contract.items import PushCall
from headrace.contract.schedules import SCHEDULES_CHANGED
from headrace.contract.sinks import QUEUE, Publication
from headrace.contract.values import CommitCall
from headrace.model.pipelines import SEPARATOR
from headrace.model.queues.settings import PRESENCE_WORD, capacity_word
from headrace.model.schedules.actions import CommitAction, PushAction
from headrace.model.scopes import ALL, AdminNeed, Need, Noun, Verb

Needs = Iterator[Need | AdminNeed]
Rule = Callable[[Any], Needs]
"""From the arguments of an operation to what it needs."""

ON_QUEUE: tuple[Verb, ...] = ("push", "work", "manage")


def needs_of(operation: str, arguments: Any) -> list[Need | AdminNeed]:
    """What an operation needs with these arguments, each need once."""
    rule = RULES.get(operation, _admin)
    return list(dict.fromkeys(rule(arguments)))


def hint_needs(word: str) -> list[Need | AdminNeed]:
    """What a client needs to wait for a notification: see ``Store.waiter``.

    A notification has no content, so every verb on the topic or the queue suffices.
    """
    kind, slash, name = word.partition("/")
    if not slash:
        return [Need("read", "topic", word, instead=("commit",))]
    if word == FREE_SLOTS:
        return [Need("work", "counter", ALL)]
    if word == PRESENCE_WORD:
        return [Need("read", "queue", "", "prefix")]
    if kind == "queue" or word == capacity_word(name):
        return [Need("read", "queue", name, instead=ON_QUEUE)]
    if word == SCHEDULES_CHANGED:
        return [Need("read", "schedule", "", "prefix")]
    if kind == "lock":
        return [Need("work", "lock", ALL)]
    return [AdminNeed()]


def _admin(arguments: Any) -> Needs:
    yield AdminNeed()


def _on(verb: Verb, noun: Noun, field: str, *, instead: tuple[Verb, ...] = ()) -> Rule:
    """A verb on the thing that a field names."""

    def rule(arguments: Any) -> Needs:
        yield Need(verb, noun, getattr(arguments, field), instead=instead)

    return rule


def _on_unnamed(verb: Verb, noun: Noun) -> Rule:
    """A verb on things that have no names."""

    def rule(arguments: Any) -> Needs:
        yield Need(verb, noun, ALL)

    return rule


def _on_all(verb: Verb, noun: Noun, field: str | None = None) -> Rule:
    """A verb on all things, or on all with the prefix in a field."""

    def rule(arguments: Any) -> Needs:
        yield Need(verb, noun, "" if field is None else getattr(arguments, field), "prefix")

    return rule


def _on_some(verb: Verb, noun: Noun) -> Rule:
    """A verb on anything of that noun: the arguments name none, or only what a secret names."""

    def rule(arguments: Any) -> Needs:
        yield Need(verb, noun, "", "some")

    return rule


def _on_each(verb: Verb, noun: Noun, field: str) -> Rule:
    """A verb on each thing that a field lists; on all things if it lists none."""

    def rule(arguments: Any) -> Needs:
        yield from _each(verb, noun, getattr(arguments, field) or ())

    return rule


def _each(verb: Verb, noun: Noun, names: Iterable[str]) -> Needs:
    needs = [Need(verb, noun, name) for name in names]
    yield from needs or [Need(verb, noun, "", "prefix")]


def _commits(calls: Iterable[CommitCall]) -> Needs:
    for call in calls:
        for part in call.parts:
            yield Need("commit", "topic", part.topic)


def _pushes(calls: Iterable[PushCall]) -> Needs:
    for call in calls:
        yield Need("push", "queue", call.queue)


def _commit(arguments: Any) -> Needs:
    parts = [part.topic for call in arguments.calls for part in call.parts]
    yield from _each("commit", "topic", parts)


def _push(arguments: Any) -> Needs:
    yield from _each("push", "queue", [call.queue for call in arguments.calls])


def _resolve(arguments: Any) -> Needs:
    yield from _each("read", "topic", [topic for topic, _ in arguments.promised.counts])


def _read(arguments: Any) -> Needs:
    yield Need("read", "topic", arguments.query.topic)


def _create_proc(arguments: Any) -> Needs:
    yield Need("work", "proc", arguments.spec.name)
    yield Need("read", "topic", arguments.spec.topic)


def _ack_commit(arguments: Any) -> Needs:
    yield Need("work", "proc", arguments.proc)
    yield from _commits([arguments.call])


def _ack_push(arguments: Any) -> Needs:
    yield Need("work", "proc", arguments.proc)
    yield from _pushes(arguments.calls)


def _claim(arguments: Any) -> Needs:
    yield Need("work", "queue", arguments.request.queue)


def _settle(arguments: Any) -> Needs:
    yield Need("work", "queue", arguments.queue)
    for outcome in arguments.outcomes:
        yield from _commits(outcome.commits)
        yield from _pushes(outcome.pushes)


def _create_queue(arguments: Any) -> Needs:
    if arguments.changes or arguments.must_be_new:
        yield Need("manage", "queue", arguments.name)
        yield from _settings(arguments.changes)
    else:
        yield Need("work", "queue", arguments.name, instead=("manage",))


def _update_queue(arguments: Any) -> Needs:
    yield Need("manage", "queue", arguments.name)
    yield from _settings(arguments.changes)


def _set_queue_defaults(arguments: Any) -> Needs:
    yield Need("manage", "queue", "", "prefix")
    yield from _settings(arguments.changes)


def _settings(changes: Mapping[str, Any]) -> Needs:
    """What settings need by which a queue writes to other things."""
    topic, queues = changes.get("keep_superseded"), changes.get("dead_to") or ()
    if not isinstance(topic, str | None) or not isinstance(queues, list | tuple):
        yield AdminNeed()
        return
    if topic is not None:
        yield Need("commit", "topic", topic)
    for queue in queues:
        yield Need("push", "queue", queue) if isinstance(queue, str) else AdminNeed()


def _add_dead_queue(arguments: Any) -> Needs:
    yield Need("manage", "queue", arguments.name)
    yield Need("push", "queue", arguments.to)


def _redrive(arguments: Any) -> Needs:
    yield Need("manage", "queue", arguments.queue)
    if arguments.to is not None:
        yield Need("push", "queue", arguments.to)


def _heartbeat(arguments: Any) -> Needs:
    yield from _each("work", "queue", [worker.queue for worker in arguments.workers])


def _workers(arguments: Any) -> Needs:
    yield from _each("read", "queue", [] if arguments.queue is None else [arguments.queue])


def _create_limits(arguments: Any) -> Needs:
    yield from _each("manage", "limit", [rule.id for rule in arguments.rules])
    for rule in arguments.rules:
        if rule.queue is None:
            yield Need("manage", "queue", "", "prefix")
        else:
            yield Need("manage", "queue", rule.queue)


def _stage(arguments: Any) -> Needs:
    yield from _targets(part.topic for part in arguments.parts)


def _publish(arguments: Any) -> Needs:
    yield from _published(arguments.publication)


def _targets(names: Iterable[str]) -> Needs:
    """The targets of a sink, topics and queues; all topics if there are none."""
    found = list(names)
    for name in found:
        if name.startswith(QUEUE):
            yield Need("push", "queue", name.removeprefix(QUEUE))
        else:
            yield Need("commit", "topic", name)
    if not found:
        yield Need("commit", "topic", "", "prefix")


def _ack_publish(arguments: Any) -> Needs:
    yield Need("work", "proc", arguments.proc)
    yield from _published(arguments.publication)


def _published(publication: Publication) -> Needs:
    """``sinks.publish`` checks that the stages have exactly these targets."""
    if publication.fence is not None:
        yield Need("work", "sink", publication.fence.sink)
    yield from _targets(count.target for stage in publication.stages for count in stage.counts)


def _define(arguments: Any) -> Needs:
    name = arguments.name
    yield Need("manage", "pipeline", name)
    for spec in arguments.specs:
        yield Need("read", "topic", spec.topic)
        # A plain proc of that name would become the pipeline's.
        if spec.name != name and not spec.name.startswith(name + SEPARATOR):
            yield Need("manage", "proc", spec.name)
    for topic in arguments.definition.targets:
        yield Need("commit", "topic", topic)


def _add_schedule(arguments: Any) -> Needs:
    """What it does later needs the scopes of its author now: it fires on behalf of nobody."""
    yield Need("manage", "schedule", arguments.name)
    action = arguments.definition.action
    if isinstance(action, PushAction):
        yield Need("push", "queue", action.queue)
    elif isinstance(action, CommitAction):
        yield Need("commit", "topic", action.topic)
    else:
        yield Need("manage", "queue", action.queue)


RULES: Mapping[str, Rule] = {
    "topics.commit": _commit,
    "topics.resolve": _resolve,
    "topics.read": _read,
    "topics.read_stored": _on("read", "topic", "topic"),
    "topics.list": _on_all("read", "topic", "prefix"),
    "topics.info": _on("read", "topic", "topic"),
    "procs.create": _create_proc,
    "procs.claim": _on("work", "proc", "proc"),
    "procs.claim_span": _on("work", "proc", "proc"),
    "procs.claim_any": _on_each("work", "proc", "procs"),
    "procs.extend": _on("work", "proc", "proc"),
    "procs.ack": _on("work", "proc", "proc"),
    "procs.ack_commit": _ack_commit,
    "procs.ack_part": _ack_commit,
    "procs.ack_push": _ack_push,
    "procs.nack": _on("work", "proc", "proc"),
    "procs.touch": _on("work", "proc", "proc"),
    "procs.info": _on("read", "proc", "proc"),
    "procs.list": _on_all("read", "proc"),
    "procs.disable": _on("manage", "proc", "proc"),
    "procs.resume": _on("manage", "proc", "proc"),
    "procs.delete": _on("manage", "proc", "proc"),
    "procs.seek": _on("manage", "proc", "proc"),
    "procs.update": _on("manage", "proc", "proc"),
    "procs.lag": _on("read", "proc", "proc"),
    "procs.pending": _on_each("read", "proc", "procs"),
    "queues.push": _push,
    "queues.claim": _claim,
    "queues.settle": _settle,
    "queues.extend": _on("work", "queue", "queue"),
    "queues.expire_leases": _on("work", "queue", "queue", instead=("manage",)),
    "queues.create": _create_queue,
    "queues.info": _on("read", "queue", "name"),
    "queues.list": _on_all("read", "queue", "prefix"),
    "queues.update": _update_queue,
    "queues.add_dead_queue": _add_dead_queue,
    "queues.pause": _on("manage", "queue", "name"),
    "queues.resume": _on("manage", "queue", "name"),
    "queues.drop": _on("manage", "queue", "name"),
    "queues.defaults": _on_some("read", "queue"),
    "queues.set_defaults": _set_queue_defaults,
    "queues.item": _on("read", "queue", "queue"),
    "queues.items": _on("read", "queue", "queue"),
    "queues.position": _on("read", "queue", "queue"),
    "queues.cancel_item": _on("manage", "queue", "queue"),
    "queues.retry_item": _on("manage", "queue", "queue"),
    "queues.edit_item": _on("manage", "queue", "queue"),
    "queues.dead_items": _on("read", "queue", "queue"),
    "queues.dead_groups": _on("read", "queue", "queue"),
    "queues.count_dead": _on("read", "queue", "queue"),
    "queues.redrive": _redrive,
    "queues.purge_dead": _on("manage", "queue", "queue"),
    "queues.counts": _on_each("read", "queue", "queues"),
    "queues.consolidate": _on_each("manage", "queue", "queues"),
    "queues.logged_errors": _on("read", "queue", "queue"),
    "queues.samples": _on("read", "queue", "queue"),
    "queues.maintain": _on("manage", "queue", "queue"),
    "queues.heartbeat": _heartbeat,
    "queues.unregister": _on_some("work", "queue"),
    "queues.clients": _on_all("read", "queue"),
    "queues.workers": _workers,
    "queues.freeze": _on("manage", "queue", "name"),
    "queues.forget_clients": _admin,
    "channels.register_selection": _on("work", "queue", "queue"),
    "channels.forget_selection": _on("work", "queue", "queue", instead=("manage",)),
    "channels.selections": _on("read", "queue", "queue"),
    "channels.list": _on("read", "queue", "queue"),
    "channels.delete": _on("manage", "queue", "queue"),
    "channels.delay": _on("work", "queue", "queue", instead=("manage",)),
    "channels.delayed_until": _on("read", "queue", "queue"),
    "channels.deleted_items": _on("read", "queue", "queue"),
    "limits.create": _create_limits,
    "limits.rule": _on("read", "limit", "rule"),
    "limits.list": _on_all("read", "limit"),
    "limits.change": _on("manage", "limit", "rule"),
    "limits.add_override": _on("manage", "limit", "rule"),
    "limits.delete": _on("manage", "limit", "rule"),
    "limits.delete_override": _on("manage", "limit", "rule"),
    "limits.of_item": _on("read", "queue", "queue"),
    "limits.usage": _on("read", "limit", "rule"),
    "locks.acquire": _on_unnamed("work", "lock"),
    "locks.renew_places": _on_unnamed("work", "lock"),
    "locks.turn": _on_unnamed("work", "lock"),
    "locks.extend": _on_unnamed("work", "lock"),
    "locks.release": _on_unnamed("work", "lock"),
    "locks.guard": _on_unnamed("work", "lock"),
    "locks.force_release": _on_unnamed("manage", "lock"),
    "locks.list": _on_unnamed("read", "lock"),
    "locks.forget": _admin,
    "counters.acquire": _on_unnamed("work", "counter"),
    "counters.extend": _on_unnamed("work", "counter"),
    "counters.release": _on_unnamed("work", "counter"),
    "counters.set": _on_unnamed("manage", "counter"),
    "counters.add": _on_unnamed("manage", "counter"),
    "counters.list": _on_unnamed("read", "counter"),
    "counters.end": _on_unnamed("work", "counter"),
    "sinks.stage": _stage,
    "sinks.publish": _publish,
    "sinks.ack_publish": _ack_publish,
    "sinks.discard": _on_some("work", "sink"),
    "sinks.prune_stages": _admin,
    "sinks.info": _on("read", "sink", "sink"),
    "sinks.list": _on_all("read", "sink"),
    "sinks.reset": _on("manage", "sink", "sink"),
    "pipelines.define": _define,
    "pipelines.definition": _on("read", "pipeline", "pipeline"),
    "pipelines.info": _on("read", "pipeline", "pipeline"),
    "pipelines.list": _on_all("read", "pipeline"),
    "pipelines.switch": _on("manage", "pipeline", "pipeline"),
    "pipelines.seek": _on("manage", "pipeline", "pipeline"),
    "pipelines.delete": _on("manage", "pipeline", "pipeline"),
    "tokens.create": _admin,
    "tokens.info": _admin,
    "tokens.rotate": _admin,
    "tokens.revoke": _admin,
    "tokens.list": _admin,
    "tokens.touch": _admin,
    "schedules.add": _add_schedule,
    "schedules.info": _on("read", "schedule", "name"),
    "schedules.list": _on_all("read", "schedule", "prefix"),
    "schedules.pause": _on("manage", "schedule", "name"),
    "schedules.resume": _on("manage", "schedule", "name"),
    "schedules.trigger": _on("work", "schedule", "name", instead=("manage",)),
    "schedules.remove": _on("manage", "schedule", "name"),
    "schedules.until_due": _on_all("read", "schedule"),
    "schedules.fire": _on_all("work", "schedule"),
    "schedules.update_zones": _on_all("work", "schedule"),
    "admin.set_retention": _on("manage", "topic", "topic"),
    "admin.default_retention": _on_some("read", "topic"),
    "admin.set_default_retention": _admin,
    "admin.prune": _on("manage", "topic", "topic"),
    "admin.prunable": _on_all("read", "topic"),
    "admin.acquire_lease": _admin,
    "admin.expire": _admin,
    "admin.diagnose": _on_unnamed("read", "node"),
}
"""The rule of each operation."""
