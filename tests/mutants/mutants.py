"""Possible mistakes in a driver, each as a small patch. The tests must notice all of them.

A patch replaces text that must occur exactly once: in a function, or in a statement of one dialect.
A patch that no longer fits is an error, never a mutant that looks caught.
"""

import __future__

import importlib
import inspect
import sys
import textwrap
from collections.abc import Callable
from typing import Any, NamedTuple

from headrace.drivers.sql_common import migrations as migrating
from headrace.drivers.sql_common.statements import Dialect, Statements

PROCS = "headrace.drivers.sql_common.procs:SqlProcs"
TOPICS = "headrace.drivers.sql_common.topics:SqlTopics"
CLAIMS = "headrace.drivers.sql_common.queues.claim:QueueClaims"
SETTLEMENTS = "headrace.drivers.sql_common.queues.settle:QueueSettlements"
PUSHES = "headrace.drivers.sql_common.queues.push:QueuePush"
PUSHES_ONE = "    is_due boolean;\nbegin\n"
ENTERS = (
    "    nothing := pg_advisory_xact_lock_shared(1214603634 /* AdvisoryLock.QUEUE */, queue_id);\n"
)
SQLITE_STAGING = "headrace.drivers.sqlite.sinks:SqliteSinks"
SINKS = "headrace.contract.sink_rules"
EVALUATING = "headrace.model.query.evaluator"
PATTERNS = "headrace.model.query.patterns"
LIMITS = "headrace.model.limits.rules"
QUEUES = "headrace.drivers.sql_common.queues"
SQL_LIMITS = "headrace.drivers.sql_common.limits"
SQL_COUNTERS = "headrace.drivers.sql_common.counters"
POSTGRES = "headrace.drivers.postgres"
LOCKS = "headrace.drivers.sql_common.locks:SqlLocks"
QUERIES = ("tests/model/test_queries.py", "what_a_query_selects")


class StalePatch(Exception):
    """The text to replace does not occur exactly once: the patch must be adapted."""


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
        # Modules that imported it by name get it as well.
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
        load: Callable[..., None] = Statements.__init__

        def loaded(sql: Statements, dialect: Dialect, name: str) -> None:
            load(sql, dialect, name)
            if dialect.folder == self.dialect:
                old, new = dialect.place(self.old, name), dialect.place(self.new, name)
                text = sql.texts[self.statement]
                sql.texts[self.statement] = _replaced(text, old, new, self.statement)

        Statements.__init__ = loaded
        # Once here, so that a stale patch does not look like a failing test.
        store = importlib.import_module(f"headrace.drivers.{self.dialect}.store")
        Statements(store.DIALECT, store.DIALECT.word)


class SchemaPatch(NamedTuple):
    """One replacement in the scripts that create tables and functions of a dialect."""

    dialect: str
    old: str
    new: str

    def apply(self) -> None:
        load = migrating.load_schema

        def loaded(dialect: Dialect, name: str) -> migrating.Schema:
            found = load(dialect, name)
            if dialect.folder != self.dialect:
                return found
            old, new = dialect.place(self.old, name), dialect.place(self.new, name)
            whole = "\0".join((found.tables, *found.functions, found.triggers))
            tables, *functions, triggers = _replaced(whole, old, new, "schema").split("\0")
            return found._replace(tables=tables, functions=tuple(functions), triggers=triggers)

        store = importlib.import_module(f"headrace.drivers.{self.dialect}.store")
        importlib.import_module("headrace.drivers.postgres.schema")
        for module in [module for module in sys.modules.values() if "headrace" in module.__name__]:
            if vars(module).get("load_schema") is load:
                module.load_schema = loaded
        loaded(store.DIALECT, store.DIALECT.word)


class Mutant(NamedTuple):
    """A mistake, and the tests that must notice it: their file, and words of their names."""

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


IN_USE = "    if cardinality(reserved) is not distinct from nullif(cardinality(keys), 0) then"

MUTANTS = (
    Mutant(
        "ack accepts any token",
        contract("sqlite", "a_stale_claim_cannot_ack"),
        (
            Patch(
                f"{PROCS}.acked",
                "proc.claim.token != token",
                "(write is not None and proc.claim.token != token)",
            ),
        ),
    ),
    Mutant(
        "ack_commit accepts any token",
        contract("sqlite", "a_stale_claim_cannot_ack"),
        (
            Patch(
                f"{PROCS}.acked",
                "proc.claim.token != token",
                "(write is None and proc.claim.token != token)",
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
        "extend accepts any token",
        contract("sqlite", "a_stale_claim_cannot_ack"),
        (Patch(f"{PROCS}.extend", "check_token(proc, found.claim, token)", "pass"),),
    ),
    Mutant(
        "claim ignores the claim that stands",
        interleaving("claims", "sqlite", "two_concurrent_claims_never_share_a_record"),
        (Patch(f"{PROCS}.claim_under_lock", "if not proc.claim.is_over(proc.now):", "if False:"),),
    ),
    Mutant(
        "expired claim is not counted as an attempt",
        interleaving("claims", "sqlite", "takeover"),
        (
            Patch(
                f"{PROCS}.claim_under_lock",
                "proc = yield from self._nack("
                "proc, proc.claim, failed=None, error=rules.TIMED_OUT)",
                "yield self.sql.drop_claim(id=proc.id)",
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
        interleaving("commits", "sqlite", "appears_below", "known"),
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
        (Patch("headrace.drivers.sqlite.fastpath.commit:_append", "max(last_ts, now)", "now"),),
    ),
    Mutant(
        "key is not compared with its content",
        interleaving("commits", "sqlite", "key"),
        (
            Patch(
                "headrace.drivers.sql_common.idempotency:Keys.answer",
                "before if digest == call.digest else self._conflict(call.key)",
                "before",
            ),
        ),
    ),
    Mutant(
        "key never runs out",
        contract("sqlite", "a_key_expires"),
        (
            Patch(
                "headrace.drivers.sql_common.idempotency:Keys.reserve",
                "by_key[key].key_ttl_ms for key in keys",
                "2**50 for key in keys",
            ),
        ),
    ),
    Mutant(
        "key that has expired is in use in a statement",
        contract("postgres", "a_key_expires"),
        (SchemaPatch("postgres", "where k.until <= moment", "where false"),),
    ),
    Mutant(
        "statement pushes although a key is in use",
        interleaving("queue_pushes", "postgres", "key_sent_twice"),
        (SchemaPatch("postgres", IN_USE, "    if true then\n        return null;"),),
    ),
    Mutant(
        "statement appends although a key is in use",
        interleaving("commits", "postgres", "key_used_twice"),
        (SchemaPatch("postgres", IN_USE, "    if true then\n        return null;"),),
    ),
    Mutant(
        "keys stay reserved beside one that is in use",
        contract("postgres", "pushes_of_one_operation_count_their_keys"),
        (SchemaPatch("postgres", "headrace.release_keys(key_scope, reserved)", "null"),),
    ),
    Mutant(
        "key stays reserved although the queue has other settings",
        contract("postgres", "a_key_is_free_after_a_push_by_old_settings"),
        (
            SchemaPatch(
                "postgres",
                "    if not found then\n        nothing := headrace.release_keys('push', call.keys);",
                "    if not found then",
            ),
        ),
    ),
    Mutant(
        "key stays reserved although a subject is in use",
        contract("postgres", "a_push_with_a_key_is_applied_once"),
        (
            SchemaPatch(
                "postgres",
                "    ) then\n        nothing := headrace.release_keys('push', call.keys);",
                "    ) then",
            ),
        ),
    ),
    Mutant(
        "key stays reserved although there is no topic",
        contract("postgres", "the_same_key_and_content"),
        (SchemaPatch("postgres", "headrace.release_keys('commit', call.keys)", "null"),),
    ),
    Mutant(
        "push with a key stores the ids of other calls",
        contract("postgres", "pushes_of_one_operation_count_their_keys"),
        (SchemaPatch("postgres", "ids[c.first + 1 : c.first + c.count]", "ids[1 : c.count]"),),
    ),
    Mutant(
        "commit with a key stores the numbers of other calls",
        contract("postgres", "commits_of_one_operation_count_their_keys"),
        (SchemaPatch("postgres", "base_seq + p.first", "base_seq"),),
    ),
    Mutant(
        "push with a key stores no outcome for a subject that was used meanwhile",
        ("tests/drivers/test_postgres_keys.py", "a_subject_that_is_used_meanwhile"),
        (SchemaPatch("postgres", "if cardinality(ids) <> call.number then", "if false then"),),
    ),
    Mutant(
        "keys in use are forgotten when an answer is lost",
        ("tests/drivers/test_postgres_keys.py", "a_lost_answer and push"),
        (
            Patch(
                f"{POSTGRES}.fastpath.keyed_push:fast_keyed_push",
                "runs += 1",
                "runs += 1\n        settled.clear()",
            ),
        ),
    ),
    Mutant(
        "statement does not search for its own receipt",
        ("tests/drivers/test_postgres_keys.py", "a_lost_answer and push"),
        (SchemaPatch("postgres", "where t.id = receipt", "where t.id = receipt and false"),),
    ),
    Mutant(
        "statement does not search for its own row",
        ("tests/drivers/test_postgres_keys.py", "a_lost_answer and commit"),
        (SchemaPatch("postgres", "where b.id = row_id", "where b.id = row_id and false"),),
    ),
    Mutant(
        "answer to a repeat is not durable",
        ("tests/drivers/test_postgres_keys.py", "the_answer_to_a_repeat_is_durable"),
        (
            SchemaPatch(
                "postgres",
                "so this transaction has something to commit, and its flush includes the push.\n"
                "    nothing := headrace.require_flush();",
                "",
            ),
        ),
    ),
    Mutant(
        "commit over topics is not atomic",
        ("tests/state/test_crashed_commit.py", "sqlite"),
        (
            Patch(
                f"{TOPICS}._append_now",
                "yield NoReply((*statements, *moves))",
                "yield from ((one,) for one in (*statements, *moves))",
            ),
            Patch(
                "headrace.drivers.sqlite.execution:Execution._pass",
                "self._point += 1",
                "self._point += 1\n"
                "    if self._name == 'topics.commit' and self._point > 2:\n"
                "        self._connection.execute('COMMIT')\n"
                "        self._connection.execute('BEGIN IMMEDIATE')",
            ),
        ),
    ),
    Mutant(
        "read goes beyond its limit",
        contract("sqlite", "a_limit_returns_the_first_records_in_reading_order"),
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
        "delete removes other procs of the topic",
        contract("sqlite", "delete_returns_the_state_and_affects_no_other_proc"),
        (
            SqlPatch(
                "sqlite",
                "delete_proc",
                "where id = :id",
                "where topic = (select topic from headrace_proc where id = :id)",
            ),
        ),
    ),
    Mutant(
        "a dead letter is claimed again",
        contract("sqlite", "a_claim_skips_a_dead_first_record"),
        (
            Patch(
                f"{PROCS}._nack",
                "    yield self.save(proc.id, state)",
                "    if dead is not None:\n"
                "        state = rules.replace(\n"
                "            state, cursor=proc.state.cursor, skipped=proc.state.skipped\n"
                "        )\n"
                "    yield self.save(proc.id, state)",
            ),
        ),
    ),
    Mutant(
        "seek keeps the claim",
        contract("sqlite", "seek_drops_the_claim"),
        (Patch(f"{PROCS}.seek", "yield self.sql.drop_claim(id=found.id)", "pass"),),
    ),
    Mutant(
        "undo forgets records",
        contract("memory", "an_exception_rolls_everything_back"),
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
        (Patch("headrace.model.topics.procs:acked", "claim.last_seq + 1", "claim.last_seq + 2"),),
    ),
    Mutant(
        "every driver answers any stale ack",
        contract("memory", "an_old_ack_is_stale"),
        (
            Patch(
                "headrace.contract.commit_rules:repeated_ack",
                "state.last_acked_token == token",
                "state.last_acked_token",
            ),
        ),
    ),
    Mutant(
        "settle accepts any token",
        contract("sqlite", "stale_token_changes_nothing"),
        (Patch(f"{SETTLEMENTS}._settle_each", "item.token != outcome.token", "False"),),
    ),
    Mutant(
        "completion accepts any token",
        contract("sqlite", "a_late_completion_is_lost"),
        (
            SqlPatch("sqlite", "delete_completed", "and token = :token and", "and"),
            SqlPatch("sqlite", "complete_items", "and token = :token", ""),
        ),
    ),
    Mutant(
        "a push with a waiter is not durable",
        ("tests/drivers/test_postgres_pushes.py", "a_push_is_durable_when_it_returns and one"),
        (
            Patch(
                f"{POSTGRES}.fastpath.push:send_push",
                "if is_under_way and behind is None:",
                "if False:",
            ),
        ),
    ),
    Mutant(
        "waiters for a push wait for the flush",
        ("tests/drivers/test_postgres_pushes.py", "waiters_do_not_wait_for_the_flush and one"),
        (SchemaPatch("postgres", "return receipt is not null;", "return false;"),),
    ),
    Mutant(
        "a claim under way brings more of a channel that must not run",
        (
            "tests/worker/test_worker_ahead.py",
            "prefetched_items_of_a_delayed_channel_are_released and memory",
        ),
        (
            Patch(
                "headrace.worker.prefetch:Prefetcher.put",
                "self._delayed[delayed] = item",
                "pass",
            ),
        ),
    ),
    Mutant(
        "a loop ends although its step is due",
        ("tests/services/test_loop.py", "what_comes_during_a_call"),
        (Patch("headrace.services.loop:Loop._schedule", "elif self._due == NEVER:", "else:"),),
    ),
    Mutant(
        "a loop runs two steps in parallel",
        ("tests/services/test_loop.py", "start_after_the_end_waits"),
        (Patch("headrace.services.loop:Loop._run_after", "before.is_alive()", "False"),),
    ),
    Mutant(
        "claims run ahead of slow handlers",
        ("tests/worker/test_worker_ahead.py", "slow_handlers and memory"),
        (
            Patch(
                "headrace.worker.claim_ahead:ClaimAhead.compare",
                "since - self._claimed_at - confirming <= now - since + confirming",
                "True",
            ),
        ),
    ),
    Mutant(
        "time of confirmations counts as that of handlers",
        ("tests/worker/test_worker_confirmation.py", "time_of_confirmations and memory"),
        (
            Patch(
                "headrace.worker.claim_ahead:ClaimAhead.compare",
                "since - self._claimed_at - confirming <= now - since + confirming",
                "since - self._claimed_at <= now - since",
            ),
        ),
    ),
    Mutant(
        "claims run ahead of handlers that are busy",
        ("tests/worker/test_worker_ahead.py", "busy_handlers_get_no_prefetch and memory"),
        (
            Patch(
                "headrace.worker.claim_ahead:ClaimAhead.compare",
                "is_faster and is_idle()",
                "is_faster",
            ),
        ),
    ),
    Mutant(
        "handlers begin before a claim is confirmed",
        ("tests/worker/test_worker_confirmation.py", "handlers_wait and memory"),
        (
            Patch(
                "headrace.worker.prefetch:Prefetcher.may_begin",
                "if item.lease.confirm is not None:",
                "if False:",
            ),
        ),
    ),
    Mutant(
        "batches begin before all their claims are confirmed",
        ("tests/worker/test_worker_confirmation.py", "batches_wait and memory"),
        (
            Patch(
                "headrace.worker.prefetch:Prefetcher._confirmed",
                "if self._confirm(item)",
                "if item is not items[0] or self._confirm(item)",
            ),
        ),
    ),
    Mutant(
        "a claim that a crash has undone is confirmed",
        ("tests/drivers/test_postgres_limits.py", "only_while_it_is_valid"),
        (
            SqlPatch(
                "postgres", "confirm_claims", "c.token = headrace.token_of(c.queue, c.item)", "true"
            ),
        ),
    ),
    Mutant(
        "a claim is confirmed before it is durable",
        ("tests/drivers/test_postgres_limits.py", "when_it_is_confirmed and turns"),
        (
            SqlPatch(
                "postgres",
                "confirm_claims",
                "replace(current_setting('synchronous_commit'), 'off', 'on')",
                "'off'",
            ),
        ),
    ),
    Mutant(
        "a transaction trusts the server to flush",
        ("tests/drivers/test_postgres_own.py", "defaults_to_off"),
        (SqlPatch("postgres", "write_marker", "headrace.require_flush()", "''"),),
    ),
    Mutant(
        "prepared statements are named by chance",
        ("tests/drivers/test_postgres_own.py", "named_by_its_content"),
        (
            Patch(
                "headrace.drivers.postgres.round_trip:_name_of",
                "sha256(content)",
                'sha256(b"%d" % id(query))',
            ),
        ),
    ),
    Mutant(
        "a pooler is mistaken for a server",
        ("tests/drivers/test_pgbouncer.py", "without_transactions or never_runs_another"),
        (
            Patch(
                "headrace.drivers.postgres.schema:_check",
                'if row["pid"] != connection.info.backend_pid:',
                "if False:",
            ),
        ),
    ),
    Mutant(
        "the answer to COMMIT is not read",
        ("tests/drivers/test_postgres_own.py", "the_server_has_ended"),
        (
            Patch(
                "headrace.drivers.postgres.round_trip:_check_commit",
                'if cursor.statusmessage != "COMMIT":',
                "if False:",
            ),
        ),
    ),
    Mutant(
        "a claim that is lost is confirmed with others",
        (
            "tests/drivers/test_postgres_limits.py",
            "a_later_flush_confirms_a_claim and settle",
        ),
        (
            Patch(
                "headrace.drivers.postgres.fastpath.unflushed:UnflushedClaims.note",
                " and token in tokens",
                "",
            ),
        ),
    ),
    Mutant(
        "items count in the total of the first among them",
        (
            "tests/drivers/test_postgres_limits.py",
            "items_count_in_the_counter_of_their_channel and another",
        ),
        (
            SchemaPatch(
                "postgres",
                "if not found then\n            counter := binding.counted[1];",
                "if true then\n            counter := binding.counted[1];",
            ),
        ),
    ),
    Mutant(
        "part of a claim gives back what all of it has counted",
        (
            "tests/drivers/test_postgres_limits.py",
            "a_part_of_a_claim_releases_its_own_slots and turns",
        ),
        (
            Patch(
                f"{POSTGRES}.fastpath.cache:QueueCache.counted",
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
                f"{POSTGRES}.fastpath.cache:_together",
                "numbers[counter] += int(number)",
                "numbers[counter] = int(number)",
            ),
        ),
    ),
    Mutant(
        "a claim that lost items releases their slots",
        (
            "tests/drivers/test_postgres_limits.py",
            "a_claim_that_lost_an_item_releases_the_rest and turns",
        ),
        (
            SchemaPatch(
                "postgres",
                "known.limit_version and cardinality(gone) = cardinality(items)",
                "known.limit_version",
            ),
        ),
    ),
    Mutant(
        "claims give back what they have counted by old rules",
        (
            "tests/drivers/test_postgres_limits.py",
            "claims_under_old_rules_release_by_new_ones and turns",
        ),
        (
            SchemaPatch(
                "postgres", "if counted_by = known.limit_version and", "if counted_by > 0 and"
            ),
        ),
    ),
    Mutant(
        "items in no channel count in the total of others",
        (
            "tests/drivers/test_postgres_limits.py",
            "items_count_in_the_counter_of_their_channel and no",
        ),
        (SchemaPatch("postgres", "and array_position(channels, 0) is null", ""),),
    ),
    Mutant(
        "completion accepts any token, on the fast path",
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
        "completion accepts the token of another item",
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
        "extend accepts any token of items",
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
        contract("sqlite", "a_claim_takes_over_abandoned_items"),
        (SqlPatch("sqlite", "expired_leases", "lease_until <= :now", "false"),),
    ),
    Mutant(
        "successors are forgotten",
        contract("sqlite", "Outcome", "successor"),
        (
            Patch(
                "headrace.drivers.sql_common.queues.storage:QueueStorage.become",
                "if successor is not None:",
                "if False:",
            ),
        ),
    ),
    Mutant(
        "what goes with a lost outcome is written",
        contract("sqlite", "stale_token_changes_nothing"),
        (Patch(f"{SETTLEMENTS}.settle_steps", "if not answer.is_lost", "if True"),),
    ),
    Mutant(
        "subjects are free when their item is gone",
        contract("sqlite", "a_subject_can_be_unique_for_ever"),
        (
            Patch(
                "headrace.drivers.sql_common.queues.unit_of_work:UnitOfWork.add",
                'queue.settings.unique != "live"',
                "False",
            ),
        ),
    ),
    Mutant(
        "claims under old settings go through",
        contract("sqlite", "a_claim_with_a_stale_version_gets_nothing"),
        (
            Patch(
                "headrace.drivers.sql_common.queues.claim:refused",
                "request.version not in (None, version)",
                "False",
            ),
        ),
    ),
    Mutant(
        "crashes are forgotten by every driver",
        contract("sqlite", "ItemFailure", "crash"),
        (
            Patch(
                "headrace.model.queues.transitions:expired",
                "crashes=item.crashes + 1",
                "crashes=item.crashes",
            ),
        ),
    ),
    Mutant(
        "claims are not counted",
        contract("sqlite", "a_claim_counts_its_items"),
        (SqlPatch("sqlite", "count_claim", "picked = picked + :count", "picked = picked"),),
    ),
    Mutant(
        "claims on the fast path do not lock",
        interleaving("queue_claims", "postgres", "two_concurrent_claims_never_share_an_item"),
        (
            SchemaPatch(
                "postgres",
                "            where i.queue = target.id and i.state = 1 and i.channel = 0\n"
                "            order by i.rank, i.position limit max_items\n"
                "            for no key update skip locked",
                "            where i.queue = target.id and i.state = 1 and i.channel = 0\n"
                "            order by i.rank, i.position limit max_items",
            ),
        ),
    ),
    Mutant(
        "claims do not lock",
        interleaving("queue_claims", "postgres", "two_concurrent_claims_never_share_an_item"),
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
        "a subject that was just used is not checked again",
        interleaving("queue_pushes", "postgres", "one_subject"),
        (Patch(f"{PUSHES}._push_some", "            later += mine\n", ""),),
    ),
    Mutant(
        "subjects that are unique for ever are used twice",
        interleaving("queue_pushes", "postgres", "counts_for_ever"),
        (Patch(f"{PUSHES}._reserve_subjects", "if subject not in reserved", "if False"),),
    ),
    Mutant(
        "redrives lose what cannot come",
        interleaving("queue_pushes", "postgres", "another_queue"),
        (
            Patch(
                "headrace.drivers.sql_common.queues.dead_letters:QueueDeadLetters._redrive_one",
                "    if not (yield from unit.write()):\n        return False\n",
                "    yield from unit.write()\n",
            ),
        ),
    ),
    Mutant(
        "copies of dead items are lost",
        interleaving("queue_pushes", "postgres", "copy"),
        (
            Patch(
                "headrace.drivers.sql_common.queues.storage:QueueStorage._pass_on",
                "must_come=not other.settings.unique_content",
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
        contract("postgres", "subjects_are_remembered_only_if_the_queue_says_so"),
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
        contract("postgres", "free_slots_are_notified"),
        (
            Patch(
                "headrace.drivers.postgres.transactions:Transactions._commit",
                "if announced:",
                "if not announced:",
            ),
        ),
    ),
    Mutant(
        "a query knows of no channel that has just become ready",
        contract("postgres", "due_items_are_found_by_a_query"),
        (SchemaPatch("postgres", "(not are_all or start.promoted > 0)", "not are_all"),),
    ),
    Mutant(
        "a selection knows of no channel that has just become ready",
        contract("postgres", "due_items_are_found_by_a_query"),
        (
            SchemaPatch(
                "postgres",
                "selection is not null and start.promoted > 0",
                "selection is not null and false",
            ),
        ),
    ),
    Mutant(
        "items of a claim do not count for the next free slot",
        contract("sqlite", "rate_cuts_short"),
        (
            Patch(
                "headrace.drivers.sql_common.limits.locked_counters:LockedCounters.add",
                "self._marks[counter] = more",
                "pass",
            ),
        ),
    ),
    Mutant(
        "places in line are given out once for every row that is read",
        ("tests/drivers/test_postgres_own.py", "positions_do_not_depend_on_a_plan"),
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
        "a number is mistaken for the transaction that had it before a crash",
        ("tests/drivers/test_postgres_own.py", "a_reused_transaction_id_proves_nothing"),
        (
            Patch(
                "headrace.drivers.postgres.commit_resolution:CommitResolver.ask",
                'if fate in ("committed", "unknown")',
                'if fate == "unknown"',
            ),
        ),
    ),
    Mutant(
        "a claim by turns does not check delays again",
        ("tests/interleaving/test_delays.py", "a_delay_set_during_a_claim"),
        (
            SchemaPatch(
                "postgres",
                "    if found and (is_any_delay or word = 'claimed') then\n        word := 'other';",
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
                "headrace.drivers.sql_common.queues.storage:QueueStorage.made_queue",
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
                "headrace.drivers.sql_common.queues.lifecycle:QueueLifecycle._update",
                "if is_reordered or starts_counting:",
                "if False:",
            ),
        ),
    ),
    Mutant(
        "queues are dropped while others work",
        interleaving("queue_settings", "postgres", "leaves_nothing_behind"),
        (
            Patch(
                "headrace.drivers.sql_common.queues.lifecycle:QueueLifecycle._drop",
                "    yield from self._context.storage.close_queue(queue)\n",
                "",
            ),
        ),
    ),
    Mutant(
        "every driver sends all to the back",
        contract("sqlite", "to_the_back_or_to_its_place"),
        (
            Patch(
                "headrace.model.queues.transitions:_back",
                'if _where(item, settings) == "front"',
                "if False",
            ),
        ),
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
        "pushes do not lock their channel",
        interleaving("channels", "postgres", "pushed_in_a_long"),
        (SqlPatch("postgres", "lock_channels_shared", "for key share", ""),),
    ),
    Mutant(
        "channels in old lanes are not sorted for a new selection",
        contract("sqlite", "selections_that_overlap"),
        (
            Patch(
                "headrace.drivers.sql_common.queues.selections:sorted_lanes",
                'lane["version"] < selection.since',
                "False",
            ),
        ),
    ),
    Mutant(
        "claims on the fast path skip channels in no lane",
        contract("postgres", "channels_before_and_after"),
        (
            SchemaPatch(
                "postgres",
                "return exists (select from headrace.ready_channel r where r.queue = queue_id and r.lane = 0)",
                "return false",
            ),
        ),
    ),
    Mutant(
        "claims on the fast path ignore expired leases while enough items are pending",
        contract("postgres", "backlog and plain and free"),
        (
            SchemaPatch(
                "postgres", "floor_position is null and not ignores_expired and", "false and"
            ),
        ),
    ),
    Mutant(
        "claims on channels on the fast path ignore expired leases while enough items are pending",
        contract("postgres", "backlog and turn and free"),
        (
            SchemaPatch(
                "postgres", "floor_turn is null and not ignores_expired, moment", "false, moment"
            ),
        ),
    ),
    Mutant(
        "claims in line leave lapsed leases alone while enough waits",
        contract("postgres", "backlog and line and free"),
        (
            SchemaPatch(
                "postgres",
                "null, rule_version, not ignores_expired, moment",
                "null, rule_version, false, moment",
            ),
        ),
    ),
    Mutant(
        "claims under locks leave lapsed leases alone",
        contract("sqlite", "backlog"),
        (Patch(f"{QUEUES}.claim:QueueClaims.claim_rest", 'over["leases"]', "False"),),
    ),
    Mutant(
        "a claim from the floor counts as a scan from the bottom",
        ("tests/drivers/test_postgres_floors.py", "one_claim_per_period_scans_from_the_bottom"),
        (
            Patch(
                "headrace.drivers.postgres.fastpath.scan_floor:ScanFloor.rise",
                "now - seconds >=",
                "now >=",
            ),
        ),
    ),
    Mutant(
        "channels that were skipped are never scanned again",
        interleaving("channels", "postgres", "long_before_its_commit"),
        (
            Patch(
                "headrace.drivers.postgres.fastpath.channel_claim:_claim_where",
                "are_all=cursor.is_complete",
                "are_all=walk.is_over",
            ),
        ),
    ),
    Mutant(
        "pushes on the fast path do not lock their channel",
        interleaving(
            "channels",
            "postgres",
            "an_item_pushed_in_one_statement_while_its_channel_empties_is_not_stuck",
        ),
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
        "pushes on the fast path never check the last in line",
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
        "channels with a push under way are removed from the turns",
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
        "skipped positions are never scanned",
        ("tests/drivers/test_postgres_floors.py", "skipped and turns"),
        (SchemaPatch("postgres", "word := 'floored';", "null;"),),
    ),
    Mutant(
        "strict channels are passed over",
        ("tests/drivers/test_postgres_floors.py", "strict_channels"),
        (
            Patch(
                "headrace.drivers.postgres.fastpath.cache:QueueCache.turn_floor",
                "settings.serial or ",
                "",
            ),
        ),
    ),
    Mutant(
        "strict channels are not locked by claims on the fast path",
        interleaving("channels", "postgres", "strict_channel_in_a_long"),
        (
            SchemaPatch(
                "postgres",
                "from headrace.ready_channel r where r.channel = c.channel\n"
                "            for no key update skip locked",
                "from headrace.ready_channel r where r.channel = c.channel",
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
        contract("sqlite", "a_strict_channel_waits_for_an_item_that_keeps_its_place"),
        (SqlPatch("sqlite", "blocked_channels", "i.position is not null", "false"),),
    ),
    Mutant(
        "anybody hears that an item is gone",
        contract("sqlite", "the_holder_of_an_item_learns_that_its_channel_was_deleted"),
        (
            Patch(
                "headrace.drivers.sql_common.queues.channels:SqlChannels.went",
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
                "headrace.drivers.sql_common.queues.storage:QueueStorage.failed",
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
                "headrace.model.queues.channels:is_replaceable",
                "is_updateable(last)",
                "'true' in (document.overrides or '')",
            ),
        ),
    ),
    Mutant(
        "pushes to a counted queue do not wait for each other",
        interleaving("channels", "postgres", "beyond_its_limit"),
        (SqlPatch("postgres", "lock_pushes", "pg_advisory_xact_lock(", "greatest("),),
    ),
    Mutant(
        "a key of a refused push stays in use",
        contract("sqlite", "refused_call"),
        (SqlPatch("sqlite", "release_key", "key = :key", "key = :key and false"),),
    ),
    Mutant(
        "patterns with any are not found",
        ("tests/model/test_patterns.py", "finds_what_applies"),
        (Patch(f"{PATTERNS}:PatternIndex._near", "((key, value), (key, ANY))", "((key, value),)"),),
    ),
    Mutant(
        "an index leaves out a choice",
        ("tests/model/test_queries.py", "needed_pairs"),
        (
            Patch(
                "headrace.model.query.index_hints:needed_pairs",
                "ways += choice",
                "ways = [*choice]",
            ),
        ),
    ),
    Mutant(
        "overrides are passed over",
        ("tests/model/test_limit_rules.py", "limit_counters_decide"),
        (Patch(f"{LIMITS}:Rules.bounds", "in checks or [own]", "in [own]"),),
    ),
    Mutant(
        "an override stands beside its rule",
        ("tests/model/test_limit_rules.py", "limit_counters_decide"),
        (Patch(f"{LIMITS}:Rules.bounds", "in checks or [own]", "in [own, *checks]"),),
    ),
    Mutant(
        "what is overridden is not counted",
        ("tests/model/test_limit_rules.py", "limit_counters_decide"),
        (Patch(f"{LIMITS}:Rules.bounds", "in (own, *checks)", "in (checks or [own])"),),
    ),
    Mutant(
        "a limit lets one more through",
        ("tests/model/test_limit_rules.py", "limit_counters_decide"),
        (Patch(f"{LIMITS}:RuleLimits.refusal", "+ count > check.limit", "> check.limit"),),
    ),
    Mutant(
        "what is staged is not counted",
        contract("sqlite", "missing_rows_are_detected"),
        (Patch(f"{SQLITE_STAGING}._copy", "check_stage(stage, found)", "pass"),),
    ),
    Mutant(
        "what is staged in tables is not counted",
        contract("postgres", "missing_rows_are_detected"),
        (Patch("headrace.drivers.postgres.sinks:check_counts", "check_stage(stage,", "str("),),
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
        "a lock is granted before its lease ends",
        contract("sqlite", "an_expired_lease_is_taken_over"),
        (
            Patch(
                "headrace.model.locks:turn_of", "if lock.until > now:", "if lock.until > now + 1:"
            ),
        ),
    ),
    Mutant(
        "any request passes the line",
        contract("postgres", "waiters_are_served_in_order"),
        (Patch("headrace.model.locks:turn_of", "if place.until > now:", "if place.until < now:"),),
    ),
    Mutant(
        "the dead stand in line for ever",
        contract("sqlite", "a_waiter_that_does_not_poll_is_skipped"),
        (Patch("headrace.model.locks:turn_of", "if place.until > now:", "if place.until:"),),
    ),
    Mutant(
        "numbers of a deleted lock start again",
        contract("sqlite", "numbers_only_grow"),
        (Patch(f"{LOCKS}.forget", "if gone:", "if gone and not limit:"),),
    ),
    Mutant(
        "a late holder extends what is somebody else's",
        contract("postgres", "an_expired_lease_is_taken_over"),
        (SqlPatch("postgres", "extend_lock", "and session = %(session)s", ""),),
    ),
    Mutant(
        "a lock is read before it is locked",
        ("tests/interleaving/test_locks.py", "one_of_two_gets and postgres"),
        (SqlPatch("postgres", "load_lock", "for update", ""),),
    ),
    Mutant(
        "delays are read before the items",
        (
            "tests/interleaving/test_delays.py",
            "an_item_returned_with_a_delay_is_not_claimed and postgres-options2",
        ),
        (
            Patch(
                "headrace.drivers.sql_common.queues.candidates:ClaimCandidates.next_items",
                "if not any(item.key_values in delayed for item in chosen.items):",
                "if delayed is not None:",
            ),
        ),
    ),
    Mutant(
        "a shorter delay ends a longer one",
        contract("sqlite", "of_two_delays_the_later_one_counts"),
        (
            SqlPatch(
                "sqlite",
                "delay_channel",
                "max(headrace_channel_delay.until, excluded.until)",
                "excluded.until",
            ),
        ),
    ),
    Mutant(
        "limits are checked before they are locked",
        interleaving("limit_races", "postgres", "two_claims", "selected"),
        (SqlPatch("postgres", "lock_limit_counters", "for no key update", ""),),
    ),
    Mutant(
        "the items of a claim are not counted",
        contract("sqlite", "LimitClaim", "one_call_releases_the_slots_of_all_its_items"),
        (
            Patch(
                f"{SQL_LIMITS}.admission:Admission.close",
                "self._counters.add(self._slots.acquired)",
                "()",
            ),
        ),
    ),
    Mutant(
        "a lease that is over keeps its slot",
        contract("sqlite", "LimitClaim", "an_ended_lease_releases_its_slot"),
        (
            Patch(
                f"{QUEUES}.unit_of_work:UnitOfWork._shift_limit_counters",
                "sign if is_active else 0",
                "0",
            ),
        ),
    ),
    Mutant(
        "what is completed together keeps its slots",
        contract("sqlite", "LimitClaim", "one_call_releases_the_slots_of_all_its_items"),
        (
            Patch(
                f"{SETTLEMENTS}._complete_all",
                '["key_values"] for row in rows',
                "[0] for row in ()",
            ),
        ),
    ),
    Mutant(
        "a dropped queue keeps its slots",
        contract("sqlite", "LimitClaim", "deleted_channels_and_queues"),
        (
            Patch(
                f"{QUEUES}.lifecycle:QueueLifecycle._drop",
                "if queue.limit_version:",
                "if not queue.limit_version:",
            ),
        ),
    ),
    Mutant(
        "a new rule does not count items in flight",
        contract("sqlite", "LimitClaim", "a_new_rule_counts_items_in_flight"),
        (Patch(f"{SQL_LIMITS}.rules:LimitRules._recount", "+= count", "+= 0"),),
    ),
    Mutant(
        "released slots notify no waiter",
        contract("sqlite", "LimitClaim", "a_waiter_is_woken_when_a_slot_is_free", "settled"),
        (
            Patch(
                f"{SQL_LIMITS}.locked_counters:change_limit_counters",
                "if not awaited:",
                "if awaited:",
            ),
        ),
    ),
    Mutant(
        "rules are read once",
        contract("sqlite", "LimitClaim", "changed_limits_apply_immediately"),
        (
            Patch(
                f"{QUEUES}.storage:QueueStorage.limits_at",
                "if known is None or known.version < version:",
                "if known is None:",
            ),
        ),
    ),
    Mutant(
        "a rule misses the first channel of a queue",
        contract("sqlite", "LimitPush", "first_channel"),
        (
            Patch(
                f"{QUEUES}.unit_of_work:UnitOfWork._shift_limit_counters",
                "in self.channels.marked",
                "in ()",
            ),
        ),
    ),
    Mutant(
        "a rate forgets a slot when it begins to be old",
        contract("memory", "LimitClaim", "a_rate"),
        (Patch("headrace.model.limits.rates:_end_of", "bucket + 1", "bucket - 9"),),
    ),
    Mutant(
        "the short way to claim knows no limits",
        contract("postgres", "LimitClaim", "an_empty_pattern_matches_every_item"),
        (
            Patch(
                f"{POSTGRES}.fastpath.limited_claim:counting",
                "queue.limit_version if limits",
                "0 if limits",
            ),
        ),
    ),
    Mutant(
        "the short way to claim on SQLite counts nothing",
        contract("sqlite", "LimitClaim", "an_empty_pattern_matches_every_item"),
        (
            Patch(
                "headrace.drivers.sqlite.fastpath.queues:fast_claim",
                "if admission is not None and items:",
                "if False:",
            ),
        ),
    ),
    Mutant(
        "a fast claim on SQLite claims more than the limit allows",
        contract("sqlite", "LimitClaim", "an_empty_pattern_matches_every_item"),
        (
            Patch(
                "headrace.drivers.sqlite.fastpath.queues:fast_claim",
                "if admission.fits(None) < request.count:",
                "if False:",
            ),
        ),
    ),
    Mutant(
        "the short way to complete gives nothing back",
        contract("postgres", "LimitClaim", "a_claim_skips_items_without_a_free_slot", "plain"),
        (
            Patch(
                f"{POSTGRES}.fastpath.complete:_complete",
                "if queue.limit_version:\n        rules",
                "if False:\n        rules",
            ),
        ),
    ),
    Mutant(
        "counted claims are not flushed",
        ("tests/drivers/test_postgres_limits.py", "durable"),
        (Patch(f"{POSTGRES}.fastpath.wal_flush:flush", "if store.is_safe else", "if False else"),),
    ),
    Mutant(
        "a fair claim does not recheck a counter after waiting for it",
        (
            "tests/drivers/test_postgres_limits.py",
            "a_claim_rechecks_a_counter_after_waiting_for_it and turns and 1",
        ),
        (
            SchemaPatch(
                "postgres",
                " and (limits[1] is null or b.used + numbers[1] <= limits[1]);",
                ";",
            ),
        ),
    ),
    Mutant(
        "a claim does not recheck several counters after waiting for them",
        (
            "tests/drivers/test_postgres_limits.py",
            "a_claim_rechecks_a_counter_after_waiting_for_it and line and 2",
        ),
        (
            SchemaPatch(
                "postgres",
                "where b.id = n.counter and (n.max_used is null or b.used + n.number <= n.max_used)",
                "where b.id = n.counter",
            ),
        ),
    ),
    Mutant(
        "items in no channel are not counted in line",
        ("tests/drivers/test_postgres_limits.py", "items_in_no_channel_count_with_the_others"),
        (
            SchemaPatch(
                "postgres",
                "q.checked, q.max_used from headrace.queue q\n            where q.id = queue_id and h.id = 0",
                "q.checked, q.max_used from headrace.queue q\n            where false",
            ),
        ),
    ),
    Mutant(
        "a claim does not recheck a counter after waiting for it",
        (
            "tests/drivers/test_postgres_limits.py",
            "a_claim_rechecks_a_counter_after_waiting_for_it and no",
        ),
        (
            SchemaPatch(
                "postgres",
                "or headrace.free_slots(checked, max_used) < number then",
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
        contract("sqlite", "LimitClaim", "a_waiter_is_woken_when_a_slot_is_free", "settled"),
        (Patch(f"{SQL_LIMITS}.admission:Admission.close", "if not is_short:", "if is_short:"),),
    ),
    Mutant(
        "nobody waits for what is in files",
        contract("sqlite", "ParkedChannel", "a_waiter_is_woken_when_a_slot_is_free", "settled"),
        (
            Patch(
                f"{SQL_LIMITS}.parked_channels:ParkedChannels.write",
                "is_short and self._has_parking_lanes",
                "False",
            ),
        ),
    ),
    Mutant(
        "parking lanes outlive the rules that filled them",
        contract("sqlite", "ParkedChannel", "a_waiter_is_woken_when_a_slot_is_free", "overridden"),
        (
            Patch(
                f"{SQL_LIMITS}.rules:LimitRules._change",
                "if self._context.traits.parks_channels:",
                "if False:",
            ),
        ),
    ),
    Mutant(
        "files never open",
        contract("sqlite", "ParkedChannel", "a_free_slot_stays_for_claims_that_select_it"),
        (SqlPatch("sqlite", "open_parking_lanes", "< p.max_used", "> p.max_used"),),
    ),
    Mutant(
        "counters are not counted by a new rule",
        contract("sqlite", "without_rules_every_request_is_granted"),
        (
            Patch(
                f"{SQL_LIMITS}.rules:LimitRules.count_in_scope",
                'if scope == ALL and on == "running":',
                'if scope == on == "running":',
            ),
        ),
    ),
    Mutant(
        "the dead keep their slots",
        contract("sqlite", "TestCounter", "an_expired_lease_counts_until_it_is_ended"),
        (
            Patch(
                f"{SQL_COUNTERS}:end_leases",
                "yield from release_slots(sql, limits, gone)",
                "yield from release_slots(sql, limits, [])",
            ),
        ),
    ),
    Mutant(
        "the margin of a lock is measured after the answer",
        contract("memory", "TestLock", "counted_from_before"),
        (
            Patch(
                "headrace.client._sync.locks:Lock._ask",
                "self._begun(answer, asked_at)",
                "self._begun(answer, monotonic())",
            ),
        ),
    ),
    Mutant(
        "the margin of an extended lock is measured after the answer",
        ("tests/contract/test_memory.py", "TestLock and counted_from_before and async"),
        (
            Patch(
                "headrace.client._async.locks:AsyncLock.extend",
                "self._extended(lease_ms, asked_at)",
                "self._extended(lease_ms, monotonic())",
            ),
        ),
    ),
    Mutant(
        "the margin of slots is measured after the answer",
        contract("memory", "TestCounter", "counted_from_before"),
        (
            Patch(
                "headrace.client._sync.counters:Slots.extend",
                "self._sure_until = asked_at",
                "self._sure_until = monotonic()",
            ),
        ),
    ),
    Mutant(
        "the margin of a heartbeat is measured after the answer",
        ("tests/drivers/test_heartbeats.py", "an_unreachable_store_is_a_loss_when_the_lease_ends"),
        (
            Patch(
                "headrace.client.claim_heartbeats:ClaimKeeper._extend",
                "self._sure_until[id] = asked_at",
                "self._sure_until[id] = monotonic()",
            ),
        ),
    ),
    Mutant(
        "a settle contains all outcomes",
        ("tests/worker/test_worker_postponed.py", "settle_is_bounded and memory"),
        (
            Patch(
                "headrace.worker.completer:Completer._next",
                "range(min(len(self._outcomes), MAX_OUTCOMES))",
                "range(len(self._outcomes))",
            ),
        ),
    ),
    Mutant(
        "callers of a group commit do not learn why the store failed",
        ("tests/drivers/test_group_commit.py", "each_caller_gets_the_error_of_a_failing_store"),
        (
            Patch(
                "headrace.client.group_commit:own",
                "mine.__cause__ = error",
                "mine.__cause__ = None",
            ),
        ),
    ),
    Mutant(
        "tasks of a group commit do not learn why the store failed",
        ("tests/drivers/test_group_commit.py", "each_task_gets_the_error_of_a_failing_store"),
        (
            Patch(
                "headrace.client.group_commit:own",
                "mine.__cause__ = error",
                "mine.__cause__ = None",
            ),
        ),
    ),
    Mutant(
        "a worker claims before it is registered",
        (
            "tests/worker/test_worker_updates.py",
            "a_worker_claims_nothing_before_it_is_registered and memory",
        ),
        (
            Patch(
                "headrace.worker.prefetch:Prefetcher._claim",
                "if not self.is_registered:",
                "if False:",
            ),
        ),
    ),
    Mutant(
        "one outcome that is refused holds up all",
        (
            "tests/worker/test_worker_postponed.py",
            "other_outcomes_do_not_wait_for_capacity and memory-outcome",
        ),
        (
            Patch(
                "headrace.worker.completer:Completer._send",
                "elif not isinstance(error, StoreError):",
                "elif False:",
            ),
        ),
    ),
    Mutant(
        "an item that is being settled is reported as lost",
        ("tests/drivers/test_heartbeats.py", "settled_during_a_heartbeat"),
        (
            Patch(
                "headrace.client.claim_heartbeats:ClaimKeeper._extend",
                "elif id not in self._settling:",
                "else:",
            ),
        ),
    ),
    Mutant(
        "procs of one millisecond take no turns",
        contract("memory", "turns_within_a_millisecond"),
        (
            Patch(
                "headrace.model.topics.procs:turn",
                "return state.last_claimed_at, state.turn",
                "return state.last_claimed_at, 0",
            ),
        ),
    ),
    Mutant(
        "procs of one millisecond take no turns in SQL",
        contract("sqlite", "turns_within_a_millisecond"),
        (SqlPatch("sqlite", "proc_candidates", "p.turn, p.id", "p.id"),),
    ),
    Mutant(
        "a pattern matches the names of Headrace",
        ("tests/model/test_scopes.py", "what_a_scope_allows"),
        (
            Patch(
                "headrace.model.scopes:matches",
                "if name.startswith(RESERVED) and not pattern.startswith(RESERVED):",
                "if False:",
            ),
        ),
    ),
    Mutant(
        "settlements and acks write to any topic",
        ("tests/node/test_required_scopes.py", "writes_inside_of_other_operations"),
        (
            Patch(
                "headrace.node.required_scopes:_commits",
                'yield Need("commit", "topic", part.topic)',
                "yield from ()",
            ),
        ),
    ),
    Mutant(
        "the last secret of a token goes, and the token stays",
        contract("memory", "token_without_secrets_is_revoked"),
        (
            Patch(
                "headrace.model.access_tokens:revoked",
                "revoked_at=token.revoked_at if left else now",
                "revoked_at=token.revoked_at",
            ),
        ),
    ),
    Mutant(
        "every secret of a known token is right",
        ("tests/node/test_token_guard.py", "without_a_valid_token and queues.push"),
        (
            Patch(
                "headrace.node.token_guard:TokenGuard._known",
                "or not has_secret(known.token, presented)",
                "",
            ),
        ),
    ),
    Mutant(
        "a connection without an address comes through a Unix socket",
        ("tests/node/test_token_guard.py", "unix_socket_is_local"),
        (
            Patch(
                "headrace.node.token_guard:TokenGuard.authenticate",
                "if request.is_private:",
                "if not request.client:",
            ),
        ),
    ),
    Mutant(
        "a token is remembered that was revoked during its look-up",
        ("tests/node/test_token_guard.py", "lookup_that_a_revocation_overtook"),
        (
            Patch(
                "headrace.node.token_cache:TokenCache._look_up",
                "if revocations == self._revocations:",
                "if True:",
            ),
        ),
    ),
    Mutant(
        "a node executes a repeated request again",
        ("tests/faults/test_node_answers.py", "not_noticed and push-blocking-after"),
        (
            Patch(
                "headrace.node.request_log:RequestLog.answer",
                "entry = self._answers.get(key)",
                "entry = None",
            ),
        ),
    ),
    Mutant(
        "a node forgets an answer and executes the repeat",
        ("tests/faults/test_node_answers.py", "no_longer_has_is_unknown"),
        (
            Patch(
                "headrace.node.request_log:RequestLog.answer",
                "now - missing_seconds <= self._forgotten",
                "False",
            ),
        ),
    ),
    Mutant(
        "a node executes what was meant for the one before it",
        ("tests/faults/test_node_answers.py", "cannot_answer_for_the_one_before"),
        (
            Patch(
                "headrace.node.operations:OperationHandler._check_incarnation",
                "wanted is not None and wanted != self._incarnation",
                "False",
            ),
        ),
    ),
    Mutant(
        "a client sends a repeat to another incarnation than the first request",
        ("tests/faults/test_node_answers.py", "other_call_learns_of_the_restart"),
        (
            Patch(
                "headrace.drivers.http.store:HttpStore._write",
                "self._exchange(call, body, id, incarnation, give_up, since)",
                "self._exchange(call, body, id, self._incarnation, give_up, since)",
            ),
        ),
    ),
    Mutant(
        "a connection is used again although its answer is missing",
        ("tests/drivers/test_http_driver.py", "cancelled_read_does_not_answer"),
        (
            Patch(
                "headrace.drivers.http.connections:_Connection.exchange",
                "self.is_clean = False",
                "self.is_clean = True",
            ),
        ),
    ),
    Mutant(
        "a failing action of a schedule leaves what it had written",
        ("tests/contract/test_sqlite.py", "TestSchedule and a_failed_push_leaves_nothing"),
        (
            Patch(
                "headrace.drivers.sql_common.schedules:SqlSchedules._fire_one",
                "yield _UNDO",
                "pass",
            ),
        ),
    ),
    Mutant(
        "an edited schedule may fire a time again",
        ("tests/contract/test_memory.py", "TestSchedule and clocks_that_are_set_back"),
        (
            Patch(
                "headrace.model.schedules.schedule:redefined",
                "max(_beginning(definition, now), _latest(found.prev_due, before, definition))",
                "_beginning(definition, now)",
            ),
        ),
    ),
    Mutant(
        "a retry of a schedule counts as a misfire",
        ("tests/contract/test_memory.py", "TestSchedule and a_retry_is_no_misfire"),
        (
            Patch(
                "headrace.model.schedules.schedule:caught_up",
                "due is None or schedule.attempts or",
                "due is None or",
            ),
        ),
    ),
    Mutant(
        "a time that comes twice is due twice",
        ("tests/model/test_schedule_times.py", "moment_of_asking or across_changes"),
        (
            Patch(
                "headrace.model.schedules.due_times:_cron_times",
                "if due > after:",
                "if True:",
            ),
        ),
    ),
)
