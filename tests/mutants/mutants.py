"""Mistakes one could make in a driver, each as a small patch; the tests must notice all.

A patch replaces text that must be there exactly once: in a function, or in a statement of
one dialect. A patch that no longer fits is an error, never a mutant that looks caught.
"""

import __future__

import importlib
import inspect
import sys
import textwrap
from collections.abc import Callable
from typing import Any, NamedTuple

from headrace.drivers.relational import migrations as migrating
from headrace.drivers.relational.sql import Dialect, Sql

PROCS = "headrace.drivers.relational.procs:Procs"
TOPICS = "headrace.drivers.relational.topics:Topics"
CLAIMS = "headrace.drivers.relational.queues.claims:Claims"
PUSHES = "headrace.drivers.relational.queues.pushes:Pushes"
PUSHES_ONE = "    is_due boolean;\nbegin\n"
ENTERS = "    nothing := pg_advisory_xact_lock_shared(1214603634, queue_id);\n"
SQLITE_STAGING = "headrace.drivers.sqlite.staging:Staging"
SINKS = "headrace.contract.sink_rules"
EVALUATING = "headrace.model.evaluating"
PATTERNS = "headrace.model.patterns"
LIMITS = "headrace.model.limits"
QUEUES = "headrace.drivers.relational.queues"
POSTGRES = "headrace.drivers.postgres"
LOCKS = "headrace.drivers.relational.locks:Locks"
QUERIES = ("tests/model/test_queries.py", "what_a_query_selects")


class StalePatch(Exception):
    """The text to be replaced is not there, or not once: the patch needs a new look."""


class Patch(NamedTuple):
    """One replacement in a function, ``module:Class.method`` or ``module:function``."""

    where: str
    old: str
    new: str

    def apply(self) -> None:
        module_name, _, path = self.where.partition(":")
        module = importlib.import_module(module_name)
        *owners, name = path.split(".")
        owner: Any = module
        for part in owners:
            owner = getattr(owner, part)
        before = vars(owner)[name]
        text = _replaced(textwrap.dedent(inspect.getsource(before)), self.old, self.new, self.where)
        found: dict[str, Any] = {}
        flags = __future__.annotations.compiler_flag
        exec(compile(text, self.where, "exec", flags=flags), vars(module), found)
        setattr(owner, name, found[name])
        # Whoever imported it by name has it as well.
        for other in [other for other in sys.modules.values() if "headrace" in other.__name__]:
            if vars(other).get(name) is before:
                setattr(other, name, found[name])


class SqlPatch(NamedTuple):
    """One replacement in a statement of a dialect."""

    dialect: str
    statement: str
    old: str
    new: str

    def apply(self) -> None:
        load: Callable[..., None] = Sql.__init__

        def loaded(sql: Sql, dialect: Dialect, name: str) -> None:
            load(sql, dialect, name)
            if dialect.folder == self.dialect:
                old, new = dialect.place(self.old, name), dialect.place(self.new, name)
                text = sql.texts[self.statement]
                sql.texts[self.statement] = _replaced(text, old, new, self.statement)

        Sql.__init__ = loaded
        # Once here, so that a stale patch does not look like a failing test.
        store = importlib.import_module(f"headrace.drivers.{self.dialect}.store")
        Sql(store.DIALECT, store.DIALECT.word)


class SchemaPatch(NamedTuple):
    """One replacement in what makes the tables and functions of a dialect."""

    dialect: str
    old: str
    new: str

    def apply(self) -> None:
        load = migrating.migrations

        def loaded(dialect: Dialect, name: str) -> list[migrating.Migration]:
            found = load(dialect, name)
            if dialect.folder != self.dialect:
                return found
            old, new = dialect.place(self.old, name), dialect.place(self.new, name)
            whole = _replaced("\0".join(each.text for each in found), old, new, "migrations")
            texts = whole.split("\0")
            return [each._replace(text=t) for each, t in zip(found, texts, strict=True)]

        store = importlib.import_module(f"headrace.drivers.{self.dialect}.store")
        importlib.import_module("headrace.drivers.postgres.schema")
        for module in [module for module in sys.modules.values() if "headrace" in module.__name__]:
            if vars(module).get("migrations") is load:
                module.migrations = loaded
        loaded(store.DIALECT, store.DIALECT.word)


class Mutant(NamedTuple):
    """A mistake, and the tests that must notice it: where they are, and words of their names."""

    name: str
    tests: tuple[str, str]
    patches: tuple[Patch | SqlPatch | SchemaPatch, ...]


def _replaced(text: str, old: str, new: str, where: str) -> str:
    if text.count(old) != 1:
        raise StalePatch(f"{where}: {old!r} is there {text.count(old)} times")
    return text.replace(old, new)


def interleaving(file: str, driver: str, *words: str) -> tuple[str, str]:
    """Interleaving tests of a file on one driver."""
    return f"tests/interleaving/test_{file}.py", " and ".join((driver, *words))


def lost_answer(*words: str) -> tuple[str, str]:
    """The test in which the answer to one operation gets lost."""
    return (
        "tests/faults/test_lost_commit.py",
        " and ".join(("not_noticed", "blocking", "after", *words)),
    )


def contract(driver: str, *words: str) -> tuple[str, str]:
    """Tests of the contract on one driver."""
    return f"tests/contract/test_{driver}.py", " and ".join((*words, "blocking"))


MUTANTS = (
    Mutant(
        "ack takes any token",
        contract("sqlite", "a_stale_claim_cannot_ack"),
        (
            Patch(
                f"{PROCS}.acked",
                "proc.hold.token != token",
                "(write is not None and proc.hold.token != token)",
            ),
        ),
    ),
    Mutant(
        "ack_commit takes any token",
        contract("sqlite", "a_stale_claim_cannot_ack"),
        (
            Patch(
                f"{PROCS}.acked",
                "proc.hold.token != token",
                "(write is None and proc.hold.token != token)",
            ),
        ),
    ),
    Mutant(
        "repeated ack_commit commits again",
        interleaving("claims", "sqlite", "sent_twice"),
        (
            Patch(
                f"{PROCS}.acked",
                "        before = repeated_ack(proc.state, token, digest)",
                "        if write is not None:\n"
                "            yield from write()\n"
                "        before = repeated_ack(proc.state, token, digest)",
            ),
        ),
    ),
    Mutant(
        "extend takes any token",
        contract("sqlite", "a_stale_claim_cannot_ack"),
        (Patch(f"{PROCS}.extend", "check_token(proc, found.hold, token)", "pass"),),
    ),
    Mutant(
        "claim ignores the claim that stands",
        interleaving("claims", "sqlite", "two_claims"),
        (Patch(f"{PROCS}.claim_under_lock", "if not proc.hold.is_over(proc.now):", "if False:"),),
    ),
    Mutant(
        "expired claim is not counted as a reclaim",
        interleaving("claims", "sqlite", "takeover"),
        (
            Patch(
                f"{PROCS}.claim_under_lock",
                "proc = yield from self._give_back("
                "proc, proc.hold, failed=None, error=rules.TIMED_OUT)",
                "yield self.sql.release(id=proc.id)",
            ),
        ),
    ),
    Mutant(
        "heads are read without a lock",
        interleaving("commits", "postgres", "opposite_order"),
        (SqlPatch("postgres", "lock_heads", "for no key update", ""),),
    ),
    Mutant(
        "heads are locked in the caller's order",
        interleaving("commits", "postgres", "opposite_order"),
        (
            Patch(
                f"{TOPICS}._append_now",
                "sorted({part.topic for part in parts})",
                "list({part.topic: 0 for part in parts})",
            ),
            Patch(
                f"{TOPICS}.lock_heads",
                "    rows = yield self.sql.lock_heads(names=names, now=self.clock())\n    if",
                "    rows = []\n"
                "    for one in names:\n"
                "        rows += yield self.sql.lock_heads(names=[one], now=self.clock())\n"
                "    if",
            ),
        ),
    ),
    Mutant(
        "write begins without the write lock",
        interleaving("commits", "sqlite", "reader", "known"),
        (
            Patch(
                "headrace.drivers.sqlite.store:SqliteStore._run_writing", "BEGIN IMMEDIATE", "BEGIN"
            ),
        ),
    ),
    Mutant(
        "proc is not locked",
        interleaving("claims", "postgres", "takeover"),
        (SqlPatch("postgres", "lock_proc", "for update", ""),),
    ),
    Mutant(
        "timestamp follows the clock back",
        contract("sqlite", "records_of_a_call_share_one_time"),
        (
            Patch(
                f"{TOPICS}._append_now",
                "max(now, *(head.last_ts for head in heads.values()))",
                "now",
            ),
        ),
    ),
    Mutant(
        "timestamp of a plain commit follows the clock back",
        contract("sqlite", "timestamps_never_fall"),
        (Patch("headrace.drivers.sqlite.appending:_append", "max(last_ts, now)", "now"),),
    ),
    Mutant(
        "key is not compared with its content",
        interleaving("commits", "sqlite", "key"),
        (
            Patch(
                "headrace.drivers.relational.keys:CommitKeys.answer",
                "outcome if digest == call.digest else KeyConflict(call.key)",
                "outcome",
            ),
        ),
    ),
    Mutant(
        "key never runs out",
        contract("sqlite", "a_key_is_forgotten"),
        (
            Patch(
                "headrace.drivers.relational.keys:Keys.take",
                "by_key[key].key_ttl_ms for key in keys",
                "2**50 for key in keys",
            ),
        ),
    ),
    Mutant(
        "commit over topics is not atomic",
        ("tests/state/test_crashed_commit.py", "sqlite"),
        (
            Patch(
                f"{TOPICS}._append_now",
                "yield Finally((*statements, *moves))",
                "yield from ((one,) for one in (*statements, *moves))",
            ),
            Patch(
                "headrace.drivers.sqlite.conversing:Conversation._pass",
                "self._point += 1",
                "self._point += 1\n"
                "    if self._name == 'commit' and self._point > 2:\n"
                "        self._connection.execute('COMMIT')\n"
                "        self._connection.execute('BEGIN IMMEDIATE')",
            ),
        ),
    ),
    Mutant(
        "read goes beyond its limit",
        contract("sqlite", "a_limit_takes_the_first"),
        (
            Patch(
                f"{TOPICS}._read",
                "batches, query)",
                "batches, __import__('msgspec').structs.replace(query, limit=ENTIRE))",
            ),
        ),
    ),
    Mutant(
        "exclusive drops timestamps",
        contract("sqlite", "exclusive_drops_exact_ends_only"),
        (
            Patch(
                f"{TOPICS}._read",
                "    low = lowest(",
                "    is_time = query.start.ts is not None and query.start.seq is None\n"
                "    low = (query.exclusive and is_time) + lowest(",
            ),
        ),
    ),
    Mutant(
        "new records only is judged by time",
        contract("sqlite", "new_means_by_number"),
        (
            Patch(
                f"{PROCS}._seq_at",
                "return head.next_seq",
                "return (yield from self.position_after(topic, parse_end(str(head.now)), head))",
            ),
        ),
    ),
    Mutant(
        "destroy removes other procs of the topic",
        contract("sqlite", "destroy_returns_what_was"),
        (
            SqlPatch(
                "sqlite",
                "drop_proc",
                "where id = :id",
                "where topic = (select topic from headrace_proc where id = :id)",
            ),
        ),
    ),
    Mutant(
        "dead letter is handed out again",
        contract("sqlite", "a_dead_first_record_is_passed"),
        (
            Patch(
                f"{PROCS}._give_back",
                "    yield self._save(proc.id, state)",
                "    if dead is not None:\n"
                "        state = rules.replace(\n"
                "            state, cursor=proc.state.cursor, skipped=proc.state.skipped\n"
                "        )\n"
                "    yield self._save(proc.id, state)",
            ),
        ),
    ),
    Mutant(
        "seek keeps the claim",
        contract("sqlite", "seek_drops_the_claim"),
        (Patch(f"{PROCS}.seek", "yield self.sql.release(id=found.id)", "pass"),),
    ),
    Mutant(
        "undo forgets records",
        contract("memory", "an_exception_takes_everything_back"),
        (
            Patch(
                "headrace.drivers.memory.topics:MemoryTopics._append_one",
                "self.data.undo.append(undo)",
                "pass",
            ),
        ),
    ),
    Mutant(
        "every driver skips a record after an ack",
        contract("memory", "records_come_in_order"),
        (Patch("headrace.model.procs:acked", "hold.last_seq + 1", "hold.last_seq + 2"),),
    ),
    Mutant(
        "every driver answers any stale ack",
        contract("memory", "an_old_ack_is_stale"),
        (
            Patch(
                "headrace.contract.shared:repeated_ack",
                "state.last_acked_token == token",
                "state.last_acked_token",
            ),
        ),
    ),
    Mutant(
        "settle takes any token",
        contract("sqlite", "stale_token_changes_nothing"),
        (Patch(f"{CLAIMS}._settle_each", "item.token != outcome.token", "False"),),
    ),
    Mutant(
        "completion takes any token",
        contract("sqlite", "a_late_completion_is_lost"),
        (SqlPatch("sqlite", "complete_items", "and token = :token and", "and"),),
    ),
    Mutant(
        "a push that somebody waits for is not on the disk",
        ("tests/drivers/test_postgres_pushes.py", "on_the_disk_when_it_returns and one"),
        (
            Patch(
                f"{POSTGRES}.item_pushes:_push",
                "if is_under_way and behind is None:",
                "if False:",
            ),
        ),
    ),
    Mutant(
        "who waits for a push waits for the disk",
        ("tests/drivers/test_postgres_pushes.py", "need_not_wait_for_the_disk and one"),
        (SchemaPatch("postgres", "return receipt is not null;", "return false;"),),
    ),
    Mutant(
        "a claim under way brings more of a channel that must not run",
        ("tests/worker/test_worker_ahead.py", "must_not_run and memory"),
        (
            Patch(
                "headrace.worker.claiming:Intake.put",
                "self._put_off[put_off] = entry",
                "pass",
            ),
        ),
    ),
    Mutant(
        "claims run ahead of slow handlers",
        ("tests/worker/test_worker_ahead.py", "slow_handlers and memory"),
        (
            Patch(
                "headrace.worker.claiming:Intake._compare",
                "since - self._taken_at - on_disk <= now - since + on_disk",
                "True",
            ),
        ),
    ),
    Mutant(
        "handlers are taken for slow where the disk is",
        ("tests/worker/test_worker_loose.py", "time_on_the_disk and memory"),
        (
            Patch(
                "headrace.worker.claiming:Intake._compare",
                "since - self._taken_at - on_disk <= now - since + on_disk",
                "since - self._taken_at <= now - since",
            ),
        ),
    ),
    Mutant(
        "claims run ahead of handlers that are busy",
        ("tests/worker/test_worker_ahead.py", "who_is_busy and memory"),
        (
            Patch(
                "headrace.worker.claiming:Intake._compare",
                "is_faster and self._are_idle()",
                "is_faster",
            ),
        ),
    ),
    Mutant(
        "handlers begin before a claim is on the disk",
        ("tests/worker/test_worker_loose.py", "handlers_wait and memory"),
        (
            Patch(
                "headrace.worker.claiming:Intake.may_begin", "if entry.hold.is_loose:", "if False:"
            ),
        ),
    ),
    Mutant(
        "batches begin before all their claims are on the disk",
        ("tests/worker/test_worker_loose.py", "batches_wait and memory"),
        (
            Patch(
                "headrace.worker.claiming:Intake._secured",
                "if self._stands(entry)",
                "if entry is not entries[0] or self._stands(entry)",
            ),
        ),
    ),
    Mutant(
        "a claim that a crash has undone is begun with",
        contract("postgres", "does_not_stand_cannot_be_secured"),
        (
            SqlPatch(
                "postgres", "secure_claims", "c.token = headrace.token_of(c.queue, c.item)", "true"
            ),
        ),
    ),
    Mutant(
        "a claim is secured before it is on the disk",
        ("tests/drivers/test_postgres_limits.py", "when_it_is_secured and turns"),
        (SqlPatch("postgres", "secure_claims", "'on', true", "'off', true"),),
    ),
    Mutant(
        "a claim that is gone is secured with others",
        ("tests/drivers/test_postgres_limits.py", "behind_it and settle"),
        (
            Patch(
                "headrace.drivers.postgres.loose:LooseClaims.note",
                " and token in tokens",
                "",
            ),
        ),
    ),
    Mutant(
        "items count in the total of the first among them",
        ("tests/drivers/test_postgres_limits.py", "total_of_their_channel and another"),
        (
            SchemaPatch(
                "postgres",
                "if not found then\n            total := home.counted[1];",
                "if true then\n            total := home.counted[1];",
            ),
        ),
    ),
    Mutant(
        "part of a claim gives back what all of it has counted",
        ("tests/drivers/test_postgres_limits.py", "what_is_its and turns"),
        (
            Patch(
                f"{POSTGRES}.known:Known.counted",
                "frozenset().union(*(claim.items for claim in claims)) != frozenset(items)",
                "False",
            ),
        ),
    ),
    Mutant(
        "of claims completed together one gives back what it has counted",
        ("tests/drivers/test_postgres_limits.py", "completed_together and turns"),
        (
            Patch(
                f"{POSTGRES}.known:_together",
                "numbers[total] += int(number)",
                "numbers[total] = int(number)",
            ),
        ),
    ),
    Mutant(
        "whoever has lost items gives back what they have counted",
        ("tests/drivers/test_postgres_limits.py", "gives_back_the_rest and turns"),
        (
            SchemaPatch(
                "postgres",
                "known.limits and cardinality(gone) = cardinality(items)",
                "known.limits",
            ),
        ),
    ),
    Mutant(
        "claims give back what they have counted by old rules",
        ("tests/drivers/test_postgres_limits.py", "old_rules_give_back and turns"),
        (SchemaPatch("postgres", "if counted_by = known.limits and", "if counted_by > 0 and"),),
    ),
    Mutant(
        "items in no channel count in the total of others",
        ("tests/drivers/test_postgres_limits.py", "total_of_their_channel and no"),
        (SchemaPatch("postgres", "and array_position(channels, 0) is null", ""),),
    ),
    Mutant(
        "completion takes any token, at once",
        contract("postgres", "late_completion_is_lost"),
        (
            SchemaPatch(
                "postgres",
                "          and i.token = claim_tokens[\n              case when cardinality(claim_tokens) = 1 then 1 else array_position(items, i.id) end]\n          and i.successor is null\n        returning i.id\n",
                "          and i.successor is null\n        returning i.id\n",
            ),
        ),
    ),
    Mutant(
        "completion takes a token of another item",
        contract("postgres", "late_completion_is_lost"),
        (
            SchemaPatch(
                "postgres",
                "          and i.token = claim_tokens[\n              case when cardinality(claim_tokens) = 1 then 1 else array_position(items, i.id) end]\n          and i.successor is null\n        returning i.id\n",
                "          and i.token = any(claim_tokens)\n          and i.successor is null\n        returning i.id\n",
            ),
        ),
    ),
    Mutant(
        "extend takes any token of items",
        contract("sqlite", "ItemClaim", "exten"),
        (SqlPatch("sqlite", "extend_items", " and token = :token", ""),),
    ),
    Mutant(
        "attempts are not counted",
        contract("sqlite", "attempts_are_counted"),
        (SqlPatch("sqlite", "next_items", "attempts + 1 as attempts", "attempts"),),
    ),
    Mutant(
        "leases never end",
        contract("sqlite", "a_claim_takes_over_what_was_abandoned"),
        (SqlPatch("sqlite", "ended_leases", "lease_until <= :now", "false"),),
    ),
    Mutant(
        "successors are forgotten",
        contract("sqlite", "Outcome", "successor"),
        (
            Patch(
                "headrace.drivers.relational.queues.base:QueueBase.become",
                "if successor is not None:",
                "if False:",
            ),
        ),
    ),
    Mutant(
        "what goes with a lost outcome is written",
        contract("sqlite", "stale_token_changes_nothing"),
        (Patch(f"{CLAIMS}._settle", "if not answer.is_lost", "if True"),),
    ),
    Mutant(
        "subjects are free when their item is gone",
        contract("sqlite", "subject_can_be_taken_for_ever"),
        (
            Patch(
                "headrace.drivers.relational.queues.ledger:Ledger.add",
                'queue.settings.unique != "live"',
                "False",
            ),
        ),
    ),
    Mutant(
        "claims under old settings go through",
        contract("sqlite", "other_settings_than_expected"),
        (
            Patch(
                "headrace.drivers.relational.queues.claims:refused",
                "take.version not in (None, version)",
                "False",
            ),
        ),
    ),
    Mutant(
        "crashes are forgotten by every driver",
        contract("sqlite", "ItemFailure", "crash"),
        (
            Patch(
                "headrace.model.items:expired",
                "crashes=item.crashes + 1",
                "crashes=item.crashes",
            ),
        ),
    ),
    Mutant(
        "claims are not counted",
        contract("sqlite", "a_claim_counts_what_it_hands_out"),
        (SqlPatch("sqlite", "count_claim", "picked = picked + :count", "picked = picked"),),
    ),
    Mutant(
        "claims at once do not lock",
        interleaving("queue_claims", "postgres", "two_claims"),
        (
            SchemaPatch(
                "postgres",
                "            where i.queue = target.id and i.state = 1 and i.channel = 0\n"
                "            order by i.rank, i.position limit most\n"
                "            for no key update skip locked",
                "            where i.queue = target.id and i.state = 1 and i.channel = 0\n"
                "            order by i.rank, i.position limit most",
            ),
        ),
    ),
    Mutant(
        "claims do not lock",
        interleaving("queue_claims", "postgres", "two_claims"),
        (SqlPatch("postgres", "first_items", "for no key update skip locked", ""),),
    ),
    Mutant(
        "items in flight are changed",
        interleaving("queue_claims", "sqlite", "in_flight"),
        (Patch(f"{PUSHES}._upsert", "if item.state == State.ACTIVE:", "if False:"),),
    ),
    Mutant(
        "upserts do not lock",
        interleaving("queue_outcomes", "postgres", "newer_content"),
        (SqlPatch("postgres", "find_subjects", "for no key update", ""),),
    ),
    Mutant(
        "outcomes do not lock",
        interleaving("queue_outcomes", "postgres", "end_of_the_lease"),
        (SqlPatch("postgres", "load_items", "for no key update", ""),),
    ),
    Mutant(
        "a subject taken just now is not looked at again",
        interleaving("queue_pushes", "postgres", "one_subject"),
        (Patch(f"{PUSHES}._push_some", "            later += mine\n", ""),),
    ),
    Mutant(
        "subjects that count for ever are taken twice",
        interleaving("queue_pushes", "postgres", "counts_for_ever"),
        (Patch(f"{PUSHES}._take_subjects", "if subject not in taken", "if False"),),
    ),
    Mutant(
        "redrives lose what cannot come",
        interleaving("queue_pushes", "postgres", "another_queue"),
        (
            Patch(
                "headrace.drivers.relational.queues.dead_items:DeadItems._redrive_one",
                "    if not (yield from ledger.write()):\n        return False\n",
                "    yield from ledger.write()\n",
            ),
        ),
    ),
    Mutant(
        "copies of dead items are lost",
        interleaving("queue_pushes", "postgres", "copy"),
        (
            Patch(
                "headrace.drivers.relational.queues.base:QueueBase._pass_on",
                "must_come=True",
                "must_come=False",
            ),
        ),
    ),
    Mutant(
        "counts are folded from what stays",
        interleaving("queue_numbers", "postgres", "folded"),
        (
            SqlPatch(
                "postgres",
                "fold_tallies",
                "from gone group by queue",
                "from headrace.tally where queue = %(queue)s group by queue",
            ),
        ),
    ),
    Mutant(
        "completions leave no receipt",
        lost_answer("complete"),
        (
            SchemaPatch(
                "postgres",
                "values (target, receipt, headrace.clock(), done,\n            case when keeps_counts then -number",
                "values (target, null::uuid, headrace.clock(), done,\n            case when keeps_counts then -number",
            ),
        ),
    ),
    Mutant(
        "pushes leave no receipt",
        lost_answer("push", "several"),
        (
            SchemaPatch(
                "postgres",
                "values (queue_id, receipt, moment, case when receipt is not null then done end,",
                "values (queue_id, null, moment, done,",
            ),
        ),
    ),
    Mutant(
        "claims are not found by their token",
        lost_answer("claim", "items"),
        (Patch(f"{CLAIMS}.claim_steps", "if is_repeat:", "if False:"),),
    ),
    Mutant(
        "pushes go by old settings",
        contract("postgres", "uses_are_remembered"),
        (
            SchemaPatch(
                "postgres",
                f"{PUSHES_ONE}{ENTERS}    select q.name into queue_name from headrace.queue q\n"
                "    where q.id = queue_id and q.version = queue_version and q.is_live;",
                f"{PUSHES_ONE}{ENTERS}    select q.name into queue_name from headrace.queue q\n"
                "    where q.id = queue_id and q.is_live;",
            ),
        ),
    ),
    Mutant(
        "only this process hears of news",
        contract("postgres", "room_in_a_total"),
        (
            Patch(
                "headrace.drivers.postgres.transacting:Transacting._transact",
                "if announced else ()",
                "if not announced else ()",
            ),
        ),
    ),
    Mutant(
        "a query knows of no channel that has just become ready",
        contract("postgres", "becomes_due_takes_part"),
        (SchemaPatch("postgres", "(not are_all or promoted > 0)", "not are_all"),),
    ),
    Mutant(
        "a selection knows of no channel that has just become ready",
        contract("postgres", "becomes_due_takes_part"),
        (
            SchemaPatch(
                "postgres",
                "selection is not null and promoted > 0",
                "selection is not null and false",
            ),
        ),
    ),
    Mutant(
        "what a claim takes is no reason for when there is room again",
        contract("sqlite", "rate_cuts_short"),
        (
            Patch(
                "headrace.drivers.relational.queues.buckets:Buckets.add",
                "self._marks[bucket] = more",
                "pass",
            ),
        ),
    ),
    Mutant(
        "places in line are given out once for every row that is read",
        ("tests/drivers/test_postgres_own.py", "places_in_line"),
        (
            SchemaPatch(
                "postgres",
                """from unnest(items) as n (id)
        )
        update headrace.item i
        set state = 1, position = coalesce(i.position, sign * t.turn)
        from turns t where""",
                """from unnest(items) as n (id)
        )
        update headrace.item i
        set state = 1, position = coalesce(i.position, sign * t.turn)
        from (select n.id, nextval('headrace.turn') as turn from unnest(items) as n (id)) t
        where""",
            ),
        ),
    ),
    Mutant(
        "a number is taken for the transaction that had it before a crash",
        ("tests/drivers/test_postgres_own.py", "another_transaction_has_got"),
        (
            Patch(
                "headrace.drivers.postgres.fates:Fates._ask",
                'if fate in ("committed", "unknown")',
                'if fate == "unknown"',
            ),
        ),
    ),
    Mutant(
        "a claim by turns does not look at holds again",
        ("tests/interleaving/test_holds.py", "while_a_claim_is_under_way"),
        (
            SchemaPatch(
                "postgres",
                "    if found and word = 'claimed' then\n        word := 'other';",
                "    if false then\n        word := 'other';",
            ),
        ),
    ),
    Mutant(
        "pushes do not enter the queue",
        interleaving("queue_settings", "postgres", "push", "discipline"),
        (SchemaPatch("postgres", f"{PUSHES_ONE}{ENTERS}", PUSHES_ONE),),
    ),
    Mutant(
        "upserts do not enter the queue",
        interleaving("queue_settings", "postgres", "upsert"),
        (
            Patch(
                "headrace.drivers.relational.queues.base:QueueBase.made_queue",
                "self.entered_queue",
                "self.find_queue",
            ),
        ),
    ),
    Mutant(
        "settings change while others work",
        interleaving("queue_settings", "postgres", "metrics"),
        (
            Patch(
                "headrace.drivers.relational.queues.lives:Lives._update",
                "if is_reordered or counts_anew:",
                "if False:",
            ),
        ),
    ),
    Mutant(
        "queues are dropped while others work",
        interleaving("queue_settings", "postgres", "leaves_nothing_behind"),
        (
            Patch(
                "headrace.drivers.relational.queues.lives:Lives._drop",
                "    yield from self.close_queue(queue)\n",
                "",
            ),
        ),
    ),
    Mutant(
        "every driver sends all to the back",
        contract("sqlite", "to_the_back_or_to_its_place"),
        (Patch("headrace.model.items:_back", 'if where == "front"', "if False"),),
    ),
    Mutant(
        "a query of Or alone matches everything",
        QUERIES,
        (
            Patch(
                f"{EVALUATING}:_query_test",
                "[_all_of(together), *choices] if together else choices",
                "[_all_of(together), *choices]",
            ),
        ),
    ),
    Mutant(
        "And binds no closer than Or",
        QUERIES,
        (
            Patch(
                f"{EVALUATING}:_query_test",
                "return _any_of([_all_of(together), *choices] if together else choices)",
                "return _all_of([*together, _any_of(choices)])",
            ),
        ),
    ),
    Mutant(
        "ids are passed over",
        QUERIES,
        (Patch(f"{EVALUATING}:_selection_test", "id in ids", "True"),),
    ),
    Mutant(
        "the highest type does not count for less",
        QUERIES,
        (
            Patch(
                f"{EVALUATING}:_range_test",
                "and low <= stored.type <= high\n",
                "and low <= stored.type and (stored.type <= high or holds(0, 1))\n",
            ),
        ),
    ),
    Mutant(
        "stored any fits no range",
        QUERIES,
        (Patch(f"{EVALUATING}:_range_test", "stored.type == Type.ANY or ", ""),),
    ),
    Mutant(
        "stored any equals nothing else",
        QUERIES,
        (
            Patch(
                f"{EVALUATING}:_accepted",
                "(*itself, ANY) if asked.max_type == Type.ANY else itself",
                "itself",
            ),
        ),
    ),
    Mutant(
        "types do not count for equality",
        QUERIES,
        (
            Patch(
                f"{EVALUATING}:_accepted",
                "asked.min_type <= asked.value.type <= asked.max_type",
                "True",
            ),
        ),
    ),
    Mutant(
        "what has no such key is not unequal",
        QUERIES,
        (
            Patch(
                f"{EVALUATING}:_key_test",
                "return lambda stored, _: stored.get(key) != only",
                "return lambda stored, _: key in stored and stored[key] != only",
            ),
        ),
    ),
    Mutant(
        "a pattern may have keys that are not asked for",
        ("tests/model/test_patterns.py", "both_directions"),
        (
            Patch(
                f"{EVALUATING}:PatternMatcher.__call__",
                "test is None or not test(stored)",
                "test is not None and not test(stored)",
            ),
        ),
    ),
    Mutant(
        "pushes do not hold their channel",
        interleaving("channels", "postgres", "pushed_in_a_long"),
        (SqlPatch("postgres", "hold_channels", "for key share", ""),),
    ),
    Mutant(
        "channels in old lanes are not sorted for a new selection",
        contract("sqlite", "selections_that_overlap"),
        (
            Patch(
                "headrace.drivers.relational.queues.selections:sorted_lanes",
                'lane["version"] < selection.since',
                "False",
            ),
        ),
    ),
    Mutant(
        "claims at once pass over channels in no lane",
        contract("postgres", "channels_before_and_after"),
        (
            SchemaPatch(
                "postgres",
                "return exists (select from headrace.ready r where r.queue = queue_id and r.lane = 0)",
                "return false",
            ),
        ),
    ),
    Mutant(
        "channels that were passed over are never looked at again",
        interleaving("channels", "postgres", "long_before_its_commit"),
        (
            Patch(
                "headrace.drivers.postgres.in_turn:_claim_where",
                "are_all=walk.is_complete",
                "are_all=walk.is_over",
            ),
        ),
    ),
    Mutant(
        "pushes at once do not hold their channel",
        interleaving("channels", "postgres", "pushed_at_once"),
        (
            SchemaPatch(
                "postgres",
                "c.key_values = n.form\n            for key share",
                "c.key_values = n.form",
            ),
        ),
    ),
    Mutant(
        "it is forgotten that items give their place to newer ones",
        contract("sqlite", "existing_item_decides"),
        (SqlPatch("sqlite", "mark_updateable", "set has_updateable = 1", "set id = id"),),
    ),
    Mutant(
        "pushes at once never look at the last in line",
        contract("postgres", "existing_item_decides"),
        (
            SchemaPatch(
                "postgres",
                "where l.subject is null and l.overrides::json ->> 'updateable' = 'true'",
                "where false",
            ),
        ),
    ),
    Mutant(
        "channels that somebody pushes to are taken out of the turns",
        interleaving("channels", "postgres", "pushed_in_a_long"),
        (
            SchemaPatch(
                "postgres",
                "from headrace.channel c where c.id = any(channels) for update skip locked",
                "from headrace.channel c where c.id = any(channels)",
            ),
        ),
    ),
    Mutant(
        "what is passed over is never looked at",
        ("tests/drivers/test_postgres_floors.py", "passed_over and turns"),
        (SchemaPatch("postgres", "word := 'floored';", "null;"),),
    ),
    Mutant(
        "strict channels are passed over",
        ("tests/drivers/test_postgres_floors.py", "strict_channels"),
        (Patch("headrace.drivers.postgres.known:Known.turn_floor", "settings.serial or ", ""),),
    ),
    Mutant(
        "strict channels are not locked by claims at once",
        interleaving("channels", "postgres", "strict_channel_in_a_long"),
        (
            SchemaPatch(
                "postgres",
                "from headrace.ready r where r.channel = c.channel\n"
                "            for no key update skip locked",
                "from headrace.ready r where r.channel = c.channel",
            ),
        ),
    ),
    Mutant(
        "strict channels are not locked",
        interleaving("channels", "postgres", "strict_channel_in_a_long"),
        (SqlPatch("postgres", "lock_turns", "for no key update skip locked", ""),),
    ),
    Mutant(
        "channels that gave keep their turn",
        contract("sqlite", "channels_take_turns"),
        (SqlPatch("sqlite", "move_turns", "set turn = :turn", "set turn = turn + 0 * :turn"),),
    ),
    Mutant(
        "empty channels keep their turn",
        contract("sqlite", "channel_that_was_empty"),
        (SqlPatch("sqlite", "drop_turns", "where channel in", "where false and channel in"),),
    ),
    Mutant(
        "what returns to its place does not block its channel",
        contract("sqlite", "returns_to_its_place"),
        (SqlPatch("sqlite", "blocked_channels", "i.position is not null", "false"),),
    ),
    Mutant(
        "anybody hears that an item is gone",
        contract("sqlite", "hears_that_it_is_gone"),
        (
            Patch(
                "headrace.drivers.relational.queues.channels:ChannelLooks.went",
                "return wanted & {",
                "return {w for w in wanted if w[0] in {r['item'] for r in rows}} | {",
            ),
        ),
    ),
    Mutant(
        "failed items come back whatever is newer",
        contract("sqlite", "table_of_failures"),
        (
            Patch(
                "headrace.drivers.relational.queues.base:QueueBase.failed",
                "verdict = None",
                "pass",
            ),
        ),
    ),
    Mutant(
        "the newcomer decides whether it replaces the last in line",
        contract("sqlite", "existing_item_decides"),
        (
            Patch(
                "headrace.model.channels:is_replaceable",
                "is_updateable(last)",
                "'true' in (document.overrides or '')",
            ),
        ),
    ),
    Mutant(
        "pushes to a counted queue do not wait for each other",
        interleaving("channels", "postgres", "beyond_its_limit"),
        (SqlPatch("postgres", "push_alone", "pg_advisory_xact_lock(", "greatest("),),
    ),
    Mutant(
        "a key of a refused push stays taken",
        contract("sqlite", "refused_call"),
        (SqlPatch("sqlite", "give_once", "key = :key", "key = :key and false"),),
    ),
    Mutant(
        "patterns with any are not looked for",
        ("tests/model/test_patterns.py", "finds_what_applies"),
        (Patch(f"{PATTERNS}:PatternIndex._near", "((key, value), (key, ANY))", "((key, value),)"),),
    ),
    Mutant(
        "an index leaves out a choice",
        ("tests/model/test_queries.py", "needed_pairs"),
        (Patch("headrace.model.candidates:needed_pairs", "ways += choice", "ways = [*choice]"),),
    ),
    Mutant(
        "overrides are passed over",
        ("tests/model/test_limits.py", "buckets_decide"),
        (Patch(f"{LIMITS}:Rules.bounds", "in checks or [own]", "in [own]"),),
    ),
    Mutant(
        "an override stands beside its rule",
        ("tests/model/test_limits.py", "buckets_decide"),
        (Patch(f"{LIMITS}:Rules.bounds", "in checks or [own]", "in [own, *checks]"),),
    ),
    Mutant(
        "what is overridden is not counted",
        ("tests/model/test_limits.py", "buckets_decide"),
        (Patch(f"{LIMITS}:Rules.bounds", "in (own, *checks)", "in (checks or [own])"),),
    ),
    Mutant(
        "a limit lets one more through",
        ("tests/model/test_limits.py", "buckets_decide"),
        (Patch(f"{LIMITS}:Bounds.refusal", "+ count > check.limit", "> check.limit"),),
    ),
    Mutant(
        "what is staged is not counted",
        contract("sqlite", "what_is_missing"),
        (Patch(f"{SQLITE_STAGING}._copy", "check_stage(stage, found)", "pass"),),
    ),
    Mutant(
        "what is staged in tables is not counted",
        contract("postgres", "what_is_missing"),
        (Patch("headrace.drivers.postgres.staging:check_counts", "check_stage(stage,", "str("),),
    ),
    Mutant(
        "a batch is published at each replay",
        contract("sqlite", "batch_is_published_once"),
        (Patch(f"{SINKS}:replayed", "fence.batch > sink.batch", "fence.batch >= sink.batch"),),
    ),
    Mutant(
        "an older batch is skipped",
        contract("memory", "older_batch"),
        (Patch(f"{SINKS}:replayed", "if fence.batch < sink.batch", "if fence.batch < 0"),),
    ),
    Mutant(
        "a new query takes a sink over",
        contract("sqlite", "another_query"),
        (Patch(f"{SINKS}:replayed", "sink.query != fence.query", "not sink.query"),),
    ),
    Mutant(
        "records stand in the order of staging",
        contract("postgres", "order_of_the_stages"),
        (SqlPatch("postgres", "number_staged", "order by s.place, u.id", "order by u.id"),),
    ),
    Mutant(
        "a lock is taken before its lease is over",
        contract("sqlite", "lease_that_ran_out_is_taken_over"),
        (
            Patch(
                "headrace.model.locks:turn_of", "if lock.until > now:", "if lock.until > now + 1:"
            ),
        ),
    ),
    Mutant(
        "whoever asks passes the line",
        contract("postgres", "came_first_gets_it_first"),
        (Patch("headrace.model.locks:turn_of", "if place.until > now:", "if place.until < now:"),),
    ),
    Mutant(
        "the dead stand in line for ever",
        contract("sqlite", "place_that_is_not_kept"),
        (Patch("headrace.model.locks:turn_of", "if place.until > now:", "if place.until:"),),
    ),
    Mutant(
        "numbers of a forgotten lock begin anew",
        contract("sqlite", "numbers_only_grow"),
        (Patch(f"{LOCKS}.forget_locks", "if gone:", "if gone and not limit:"),),
    ),
    Mutant(
        "a late holder extends what is somebody else's",
        contract("postgres", "lease_that_ran_out_is_taken_over"),
        (SqlPatch("postgres", "extend_lock", "and session = %(session)s", ""),),
    ),
    Mutant(
        "a lock is read before it is locked",
        ("tests/interleaving/test_locks.py", "one_of_two_gets and postgres"),
        (SqlPatch("postgres", "load_lock", "for update", ""),),
    ),
    Mutant(
        "holds are read before the items",
        ("tests/interleaving/test_holds.py", "comes_back_with_a_hold and postgres-options2"),
        (
            Patch(
                "headrace.drivers.relational.queues.channel_claims:ChannelClaims.next_items",
                "if not any(item.key_values in held for item in chosen.items):",
                "if held is not None:",
            ),
        ),
    ),
    Mutant(
        "a shorter hold ends a longer one",
        contract("sqlite", "of_two_holds"),
        (
            SqlPatch(
                "sqlite",
                "hold_channel",
                "max(headrace_channel_hold.until, excluded.until)",
                "excluded.until",
            ),
        ),
    ),
    Mutant(
        "limits are checked before they are locked",
        interleaving("limit_races", "postgres", "two_claims", "selected"),
        (SqlPatch("postgres", "lock_buckets", "for no key update", ""),),
    ),
    Mutant(
        "what a claim takes is not counted",
        contract("sqlite", "LimitClaim", "several_at_once"),
        (
            Patch(
                f"{QUEUES}.admission:Admission.close", "self._buckets.add(self._room.taken)", "()"
            ),
        ),
    ),
    Mutant(
        "a lease that is over keeps its slot",
        contract("sqlite", "LimitClaim", "lease_that_is_over"),
        (Patch(f"{QUEUES}.ledger:Ledger._shift_totals", "sign if is_out else 0", "0"),),
    ),
    Mutant(
        "what is completed together keeps its slots",
        contract("sqlite", "LimitClaim", "several_at_once"),
        (Patch(f"{CLAIMS}._complete_all", '["key_values"] for row in rows', "[0] for row in ()"),),
    ),
    Mutant(
        "a dropped queue keeps its slots",
        contract("sqlite", "LimitClaim", "deleted_channels_and_queues"),
        (Patch(f"{QUEUES}.lives:Lives._drop", "if queue.limits:", "if not queue.limits:"),),
    ),
    Mutant(
        "a new rule does not count what is out",
        contract("sqlite", "LimitClaim", "counts_what_is_out"),
        (Patch(f"{QUEUES}.limits:LimitRules._recount", "+= count", "+= 0"),),
    ),
    Mutant(
        "slots are given back to nobody who waits",
        contract("sqlite", "LimitClaim", "who_waits", "settled"),
        (Patch(f"{QUEUES}.buckets:change_totals", "if not awaited:", "if awaited:"),),
    ),
    Mutant(
        "rules are read once",
        contract("sqlite", "LimitClaim", "numbers_change"),
        (
            Patch(
                f"{QUEUES}.base:QueueBase.limits_at",
                "if known is None or known.version < version:",
                "if known is None:",
            ),
        ),
    ),
    Mutant(
        "a rule misses the first channel of a queue",
        contract("sqlite", "LimitPush", "first_channel"),
        (Patch(f"{QUEUES}.ledger:Ledger._shift_totals", "in self.channels.marked", "in ()"),),
    ),
    Mutant(
        "a rate forgets a slot when it begins to be old",
        contract("memory", "LimitClaim", "a_rate"),
        (Patch("headrace.model.rates:_end_of", "slot + 1", "slot - 9"),),
    ),
    Mutant(
        "the short way to claim knows no limits",
        contract("postgres", "LimitClaim", "rule_about_everything"),
        (Patch(f"{POSTGRES}.limited:counting", "queue.limits if limits", "0 if limits"),),
    ),
    Mutant(
        "the short way to claim on SQLite counts nothing",
        contract("sqlite", "LimitClaim", "rule_about_everything"),
        (
            Patch(
                "headrace.drivers.sqlite.queueing:claim_at_once",
                "if admission is not None and items:",
                "if False:",
            ),
        ),
    ),
    Mutant(
        "the short way to claim on SQLite takes more than fits",
        contract("sqlite", "LimitClaim", "rule_about_everything"),
        (
            Patch(
                "headrace.drivers.sqlite.queueing:claim_at_once",
                "if admission.fits(None) < take.count:",
                "if False:",
            ),
        ),
    ),
    Mutant(
        "the short way to complete gives nothing back",
        contract("postgres", "LimitClaim", "no_more_than_fits", "plain"),
        (
            Patch(
                f"{POSTGRES}.item_claims:_complete",
                "if queue.limits:\n        rules",
                "if False:\n        rules",
            ),
        ),
    ),
    Mutant(
        "what is counted does not wait for the disk",
        ("tests/drivers/test_postgres_limits.py", "on_the_disk"),
        (Patch(f"{POSTGRES}.disk:flush", "if store.is_safe else", "if False else"),),
    ),
    Mutant(
        "a claim by turns that has waited for a total does not look at it anew",
        ("tests/drivers/test_postgres_limits.py", "looks_at_it_anew and turns and 1"),
        (
            SchemaPatch(
                "postgres",
                " and (limits[1] is null or b.used + numbers[1] <= limits[1]);",
                ";",
            ),
        ),
    ),
    Mutant(
        "a claim that has waited for several totals does not look at them anew",
        ("tests/drivers/test_postgres_limits.py", "looks_at_it_anew and line and 2"),
        (
            SchemaPatch(
                "postgres",
                "where b.id = n.total and (n.most is null or b.used + n.number <= n.most)",
                "where b.id = n.total",
            ),
        ),
    ),
    Mutant(
        "items in no channel are not counted in line",
        ("tests/drivers/test_postgres_limits.py", "no_channel_count_beside"),
        (
            SchemaPatch(
                "postgres",
                "q.checked, q.most from headrace.queue q\n            where q.id = queue_id and h.id = 0",
                "q.checked, q.most from headrace.queue q\n            where false",
            ),
        ),
    ),
    Mutant(
        "a claim that has waited for a total does not look at it anew",
        ("tests/drivers/test_postgres_limits.py", "looks_at_it_anew and no"),
        (
            SchemaPatch(
                "postgres",
                "or headrace.room_left(target.checked, target.most) < cardinality(chosen) then",
                "then",
            ),
        ),
    ),
    Mutant(
        "a completion gives back what rules that are gone have counted",
        contract("postgres", "LimitClaim", "new_rule_counts"),
        (
            SchemaPatch(
                "postgres",
                "    if not is_bound then\n        return null;",
                "    if false then\n        return null;",
            ),
        ),
    ),
    Mutant(
        "a claim that waits is not noted",
        contract("sqlite", "LimitClaim", "who_waits", "settled"),
        (Patch(f"{QUEUES}.admission:Admission.close", "if not is_short:", "if is_short:"),),
    ),
    Mutant(
        "nobody waits for what is in files",
        contract("sqlite", "LimitCrowd", "who_waits", "settled"),
        (Patch(f"{QUEUES}.filing:Filing.write", "is_short and self._has_files", "False"),),
    ),
    Mutant(
        "files outlive the rules that filled them",
        contract("sqlite", "LimitCrowd", "who_waits", "overridden"),
        (Patch(f"{QUEUES}.limits:LimitRules._change", "if self.files:", "if False:"),),
    ),
    Mutant(
        "files never open",
        contract("sqlite", "LimitCrowd", "room_is_for_whoever"),
        (SqlPatch("sqlite", "open_files", "< f.most", "> f.most"),),
    ),
    Mutant(
        "counters are not counted by a new rule",
        contract("sqlite", "without_rules_all_is_granted"),
        (
            Patch(
                f"{QUEUES}.limits:LimitRules.held_in",
                'if scope == ALL and on == "running":',
                'if scope == on == "running":',
            ),
        ),
    ),
    Mutant(
        "the dead keep their slots",
        contract("sqlite", "TestCounter", "a_lease_that_ran_out"),
        (
            Patch(
                f"{QUEUES}.counters:end_leases",
                "yield from give_back(sql, limits, gone)",
                "yield from give_back(sql, limits, [])",
            ),
        ),
    ),
)
