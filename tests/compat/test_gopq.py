"""gopq's queues: each code block of its documents, and what each kind promises."""

import sqlite3
import threading
import time
from typing import Any

import pytest
from async_facade import Kinds, bare

import headrace
from headrace import Backoff
from headrace.compat import gopq
from headrace.compat.gopq import (
    ACK_DELETE,
    ACK_MARK,
    INFINITE_RETRIES,
    AckOpts,
    ErrDBLocked,
    ErrNoItemsWaiting,
    Msg,
)
from headrace.errors import InvalidBody, InvalidOption, ItemLost, NotConnected, StoreBusy
from headrace.testing.clocks import FakeClock

ONCE = AckOpts(max_retries=0)
ALL = ["simple_queue", "unique_queue", "ack_queue", "unique_ack_queue"]


class TestDocument:
    """The code blocks of the documents, from top to bottom."""

    def test_getting_started(self, kinds: Kinds, tmp_path: Any) -> None:
        queue = kinds.simple_queue(str(tmp_path / "myqueue.db"))
        assert queue.enqueue(b"Hello, gopq!") is None
        assert queue.dequeue().item == b"Hello, gopq!"
        queue.close()
        with pytest.raises(NotConnected):
            queue.enqueue(b"too late")

    def test_acknowledged_queue(self, kinds: Kinds, store_url: str, clock: FakeClock) -> None:
        opts = AckOpts(ack_timeout=30, max_retries=3, retry_backoff=5)
        queue = kinds.ack_queue(store_url, opts)
        queue.enqueue(b"Process me")
        queue.enqueue(b"Me, too")
        first, second = queue.dequeue(), queue.dequeue()
        assert (first.item, second.item) == (b"Process me", b"Me, too")
        assert queue.ack(first.id) is None
        assert queue.nack(second.id) is None
        with pytest.raises(ErrNoItemsWaiting):
            queue.try_dequeue()
        clock.advance(5)
        assert queue.try_dequeue() == second

    def test_unique_queue(self, kinds: Kinds, store_url: str) -> None:
        queue = kinds.unique_queue(store_url)
        queue.enqueue(b"unique_item_1")
        queue.enqueue(b"unique_item_1")
        queue.enqueue(b"unique_item_2")
        assert [queue.dequeue().item for _ in range(2)] == [b"unique_item_1", b"unique_item_2"]
        with pytest.raises(ErrNoItemsWaiting):
            queue.try_dequeue()
        queue.enqueue(b"unique_item_1")
        assert queue.len() == 1

    @pytest.mark.parametrize("kind", ALL)
    def test_in_memory_queue(self, kinds: Kinds, kind: str) -> None:
        """Each object is a queue of its own, and ends with it."""
        one, two = getattr(kinds, kind)(""), getattr(kinds, kind)("")
        one.enqueue(b"x")
        assert (one.len(), two.len()) == (1, 0)
        one.close()
        one.close()
        with headrace.connect("memory://gopq") as hr:
            assert [info.name for info in hr.queues.list(prefix=kind)] == [two.name]

    def test_dead_letter_queue(self, kinds: Kinds) -> None:
        main, letters = kinds.ack_queue("", ONCE), kinds.simple_queue("")
        main.register_dead_letter_queue(letters)
        main.enqueue(b"poison")
        main.nack(main.dequeue().id)
        assert letters.dequeue().item == b"poison"

    def test_custom_failure_callbacks(self, kinds: Kinds) -> None:
        failed: list[Msg] = []
        main = kinds.ack_queue("", ONCE)
        main.register_on_failure_callback(failed.append)
        main.enqueue(b"poison")
        message = main.dequeue()
        main.nack(message.id)
        assert failed == [message] == [Msg(message.id, b"poison")]

    def test_configurable_retries(self, kinds: Kinds, store_url: str, clock: FakeClock) -> None:
        queue = kinds.ack_queue(
            store_url, AckOpts(ack_timeout="1m", max_retries=5, retry_backoff="10s")
        )
        queue.enqueue(b"x")
        queue.dequeue()
        clock.advance(59)
        assert queue.len() == 0
        clock.advance(1)
        assert queue.len() == 1

    @pytest.mark.parametrize("deletes", [None, False, True])
    def test_store_or_delete_processed_elements(
        self, kinds: Kinds, store_url: str, deletes: bool | None
    ) -> None:
        """The record is kept by default, with the option it is removed."""
        plain = kinds.simple_queue(store_url, delete_on_dequeue=deletes)
        plain.enqueue(b"x")
        plain.dequeue()
        action = {None: None, False: ACK_MARK, True: ACK_DELETE}[deletes]
        acked = kinds.ack_queue(store_url, AckOpts(ack_action=action))
        acked.enqueue(b"x")
        acked.ack(acked.dequeue().id)
        for queue in (plain, acked):
            assert queue.queue.stats().completed == (0 if deletes else 1)

    def test_two_definitions_of_uniqueness(self, kinds: Kinds, store_url: str) -> None:
        """At most one active copy of an element, or one in the life of the queue."""
        live = kinds.unique_queue(store_url)
        lifelong = kinds.unique_queue(store_url, name="lifelong", unique="forever")
        acked = kinds.unique_ack_queue(store_url, unique="forever")
        for queue in (live, lifelong, acked):
            queue.enqueue(b"x")
            message = queue.dequeue()
            if queue is acked:
                queue.ack(message.id)
            queue.enqueue(b"x")
        assert [queue.len() for queue in (live, lifelong, acked)] == [1, 0, 0]


class TestQueue:
    """Both plain kinds."""

    def test_first_in_first_out(self, kinds: Kinds, store_url: str) -> None:
        queue = kinds.simple_queue(store_url)
        for item in (b"one", b"", b"one"):
            queue.try_enqueue(item)
        assert queue.len() == 3
        first, empty = queue.dequeue(), queue.try_dequeue()
        assert (first.item, empty.item, empty.id > first.id) == (b"one", b"", True)
        assert queue.dequeue(timeout=1).item == b"one"
        assert queue.len() == 0

    def test_an_empty_queue(self, kinds: Kinds, store_url: str) -> None:
        queue = kinds.simple_queue(store_url)
        for attempt in (queue.try_dequeue, lambda: queue.dequeue(timeout=0.02)):
            with pytest.raises(ErrNoItemsWaiting, match="no items waiting") as caught:
                attempt()
            assert caught.value.retryable

    def test_dequeue_waits(self, kinds: Kinds, store_url: str) -> None:
        queue = kinds.simple_queue(store_url)
        with gopq.simple_queue(store_url) as other:
            timer = threading.Timer(0.05, lambda: other.enqueue(b"hello"))
            timer.start()
            assert queue.dequeue(timeout=20).item == b"hello"
            timer.join()

    @pytest.mark.parametrize("item", ["text", None, 5, {"a": 1}], ids=repr)
    def test_items_are_bytes(self, kinds: Kinds, item: Any) -> None:
        queue = kinds.unique_queue("")
        with pytest.raises(InvalidBody, match="bytes"):
            queue.enqueue(item)
        queue.enqueue(bytearray(b"x"))
        queue.enqueue(memoryview(b"x"))
        assert queue.len() == 1
        assert queue.dequeue().item == b"x"

    def test_a_file_has_one_queue_of_each_kind_and_more_by_name(
        self, kinds: Kinds, tmp_path: Any
    ) -> None:
        path = tmp_path / "queues %41.db"
        for number, kind in enumerate(ALL):
            queue = getattr(kinds, kind)(path)
            queue.enqueue(str(number).encode())
            getattr(kinds, kind)(str(path), name=f"other {kind}").enqueue(b"other")
            assert queue.name == kind
        assert path.exists()
        for number, kind in enumerate(ALL):
            queue = getattr(kinds, kind)(path)
            assert (queue.len(), queue.dequeue().item) == (1, str(number).encode())

    def test_a_locked_database(self, kinds: Kinds, tmp_path: Any) -> None:
        """The ``try_`` forms make one attempt. The others wait, and for a timeout if there is
        one."""
        path = str(tmp_path / "queue.db")
        queue = kinds.ack_queue(path)
        queue.enqueue(b"x")
        queue.enqueue(b"y")
        message = queue.dequeue()
        lock = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        lock.execute("begin immediate")
        begun = time.monotonic()
        for attempt in (
            lambda: queue.try_enqueue(b"z"),
            lambda: queue.enqueue(b"z", timeout=0.02),
            queue.try_dequeue,
            lambda: queue.try_ack(message.id),
            lambda: queue.try_nack(message.id),
        ):
            with pytest.raises(ErrDBLocked, match="locked") as caught:
                attempt()
            assert isinstance(caught.value.__cause__, StoreBusy)
            assert caught.value.retryable
        assert time.monotonic() - begun < 15
        timer = threading.Timer(0.3, lambda: lock.execute("rollback"))
        timer.start()
        queue.enqueue(b"z")
        timer.join()
        lock.close()
        queue.ack(message.id)
        assert queue.len() == 2

    @pytest.mark.parametrize("wrong", [-1, "x", float("nan")], ids=repr)
    def test_wrong_timeouts_are_refused(self, kinds: Kinds, wrong: Any) -> None:
        with pytest.raises(InvalidOption):
            kinds.simple_queue("").dequeue(timeout=wrong)

    def test_wrong_options_of_plain_queues_are_refused(self, kinds: Kinds) -> None:
        with pytest.raises(InvalidOption):
            kinds.unique_queue("", unique="sometimes")
        with pytest.raises(InvalidOption):
            kinds.simple_queue("", delete_on_dequeue="yes")
        with pytest.raises(InvalidOption):
            kinds.simple_queue(None)
        with pytest.raises(InvalidOption):
            kinds.ack_queue("", {"max_retries": 1})


class TestAcknowledgeableQueue:
    """Both kinds with acknowledgements."""

    def test_unique_while_waiting_or_in_flight(self, kinds: Kinds, store_url: str) -> None:
        """Acknowledged and finally failed items may be enqueued again."""
        queue = kinds.unique_ack_queue(store_url, ONCE)
        queue.enqueue(b"x")
        message = queue.dequeue()
        queue.enqueue(b"x")
        assert queue.len() == 0
        queue.ack(message.id)
        queue.enqueue(b"x")
        queue.nack(queue.dequeue().id)
        queue.enqueue(b"x")
        assert queue.len() == 1

    def test_a_message_is_settled_once_by_the_object_that_dequeued_it(
        self, kinds: Kinds, store_url: str
    ) -> None:
        queue, other = kinds.ack_queue(store_url), kinds.ack_queue(store_url)
        queue.enqueue(b"x")
        message = queue.dequeue()
        for stranger in (other.ack, other.try_ack, other.nack, other.try_nack, other.expire_ack):
            with pytest.raises(ItemLost, match="ack deadline"):
                stranger(message.id)
        queue.ack(message.id)
        for late in (queue.ack, queue.try_ack, queue.nack, queue.try_nack, queue.expire_ack):
            for id in (message.id, 10**9, "x"):
                with pytest.raises(ItemLost):
                    late(id)
        assert queue.queue.stats().completed == 1
        assert queue.queue.dead.count() == 0

    def test_an_unacknowledged_item_returns_to_the_front(
        self, kinds: Kinds, store_url: str, clock: FakeClock
    ) -> None:
        """A late acknowledgement is refused, and the delivery counts as a retry."""
        queue = kinds.ack_queue(store_url, AckOpts(ack_timeout="2s", max_retries=1))
        queue.enqueue(b"x")
        queue.enqueue(b"y")
        message = queue.dequeue()
        clock.advance(2)
        assert queue.len() == 2
        other = kinds.ack_queue(store_url)
        assert other.dequeue() == message
        for late in (queue.ack, queue.nack, queue.expire_ack):
            with pytest.raises(ItemLost):
                late(message.id)
        clock.advance(2)
        assert queue.dequeue().item == b"y"
        assert queue.queue.dead.get(message.id).cause == "worker lost"

    def test_expire_ack(self, kinds: Kinds, store_url: str) -> None:
        queue = kinds.ack_queue(store_url)
        queue.enqueue(b"x")
        message = queue.dequeue()
        queue.expire_ack(message.id)
        with pytest.raises(ItemLost):
            queue.expire_ack(message.id)
        assert queue.try_dequeue() == message
        assert queue.queue.item(message.id).attempts == 2

    @pytest.mark.parametrize("retries", [0, 2])
    def test_retries_and_deliveries(self, kinds: Kinds, store_url: str, retries: int) -> None:
        """With n retries, an item is delivered n + 1 times. It keeps its error when it is dead."""
        queue = kinds.ack_queue(store_url, AckOpts(max_retries=retries))
        queue.enqueue(b"x")
        queue.enqueue(b"y")
        for _ in range(retries + 1):
            message = queue.try_dequeue()
            assert message.item == b"x"
            queue.nack(message.id, error="no")
        assert queue.try_dequeue().item == b"y"
        [dead] = queue.queue.dead.list()
        assert (dead.payload, dead.last_error.message) == (b"x", "no")

    def test_infinite_retries(self, kinds: Kinds, store_url: str) -> None:
        queue = kinds.ack_queue(store_url, AckOpts(max_retries=INFINITE_RETRIES))
        queue.enqueue(b"x")
        for _ in range(20):
            queue.try_nack(queue.try_dequeue().id)
        assert queue.len() == 1

    def test_a_nack_hides_for_the_backoff(
        self, kinds: Kinds, store_url: str, clock: FakeClock
    ) -> None:
        """Not for the ack timeout."""
        queue = kinds.ack_queue(store_url, AckOpts(ack_timeout="1h", retry_backoff=5))
        queue.enqueue(b"x")
        queue.nack(queue.dequeue().id)
        assert queue.len() == 0
        clock.advance(5)
        queue.nack(queue.try_dequeue().id)
        queue = kinds.ack_queue(store_url, AckOpts(retry_backoff=Backoff(first=1, jitter=0)))
        clock.advance(5)
        queue.nack(queue.try_dequeue().id)
        clock.advance(3.999)
        with pytest.raises(ErrNoItemsWaiting):
            queue.try_dequeue()
        clock.advance(0.001)
        queue.try_dequeue()

    def test_the_length_is_what_can_be_dequeued_now(
        self, kinds: Kinds, store_url: str, clock: FakeClock
    ) -> None:
        """Items in flight and in a backoff count again as soon as their time is over."""
        opts = AckOpts(ack_timeout=10, retry_backoff=5, max_retries=9)
        queue = kinds.ack_queue(store_url, opts)
        for item in (b"a", b"b", b"c"):
            queue.enqueue(item)
        queue.nack(queue.dequeue().id)
        queue.dequeue()
        assert queue.len() == 1
        clock.advance(5)
        assert queue.len() == 2
        clock.advance(5)
        assert queue.len() == 3
        assert {queue.try_dequeue().item for _ in range(3)} == {b"a", b"b", b"c"}

    def test_failure_callbacks(self, kinds: Kinds, store_url: str) -> None:
        """All of them run, in order, after the last nack. Their exceptions are raised."""
        heard: list[Any] = []

        def refuse(message: Msg) -> None:
            heard.append("refused")
            raise ValueError(message.item)

        opts = AckOpts(max_retries=1, failure_callbacks=[refuse])
        queue = kinds.ack_queue(store_url, opts)
        queue.register_behaviour_on_failure(lambda message: heard.append(message.item))
        queue.enqueue(b"x")
        queue.nack(queue.dequeue().id)
        assert heard == []
        with pytest.raises(ExceptionGroup) as caught:
            queue.try_nack(queue.dequeue().id)
        assert [error.args for error in caught.value.exceptions] == [(b"x",)]
        assert heard == ["refused", b"x"]
        assert queue.queue.dead.count() == 1
        with pytest.raises(InvalidOption):
            queue.register_on_failure_callback("not a function")

    def test_dead_letter_queues(self, kinds: Kinds, store_url: str) -> None:
        """Several, each with a copy; chains; and a setting that all clients share."""
        queue = kinds.ack_queue(store_url, ONCE)
        late = kinds.ack_queue(store_url, ONCE, name="late")
        last, copies = kinds.simple_queue(store_url), kinds.simple_queue(store_url, name="copies")
        for letters in (late, copies, copies):
            queue.register_dead_letter_queue(letters)
        late.register_dead_letter_queue(last)
        queue.enqueue(b"x")
        other = kinds.ack_queue(store_url)
        message = other.dequeue()
        other.nack(message.id, error="bad")
        assert queue.queue.dead.count() == 0
        copy = copies.dequeue()
        assert copy.item == b"x"
        headers = copies.queue.item(copy.id).headers
        assert headers["headrace-dead-queue"] == "ack_queue"
        assert headers["headrace-dead-id"] == str(message.id)
        late.nack(late.dequeue().id)
        assert (last.dequeue().item, copies.len()) == (b"x", 0)

    def test_a_dead_letter_queue_elsewhere(self, kinds: Kinds, store_url: str) -> None:
        """Anything that can enqueue, in another store or in none."""

        class Letters:
            def __init__(self) -> None:
                self.items: list[bytes] = []

            def enqueue(self, item: bytes) -> None:
                self.items.append(item)

        queue, letters, own = kinds.ack_queue(store_url, ONCE), kinds.simple_queue(""), Letters()
        queue.register_dead_letter_queue(letters)
        queue.register_dead_letter_queue(own)
        queue.enqueue(b"x")
        queue.nack(queue.dequeue().id)
        assert letters.try_dequeue().item == b"x"
        assert own.items == [b"x"]
        with pytest.raises(InvalidOption):
            queue.register_dead_letter_queue("letters")

    @pytest.mark.parametrize("target", ["unique_queue", "unique_ack_queue"])
    def test_a_unique_dead_letter_queue_holds_an_item_once(
        self, kinds: Kinds, store_url: str, target: str
    ) -> None:
        letters = getattr(kinds, target)(store_url)
        queue = kinds.ack_queue(store_url, ONCE)
        queue.register_dead_letter_queue(letters)
        for item in (b"x", b"y", b"x"):
            queue.enqueue(item)
            queue.nack(queue.dequeue().id)
        letters.enqueue(b"y")
        assert [letters.dequeue().item for _ in range(2)] == [b"x", b"y"]
        assert letters.len() == 0

    def test_options_that_are_not_given_stay(self, kinds: Kinds, store_url: str) -> None:
        """Opening a queue again without options changes nothing. A new queue gets the defaults of
        its kind."""
        opts = AckOpts(ack_timeout="2m", max_retries=7, ack_action=ACK_DELETE)
        acked = kinds.ack_queue(store_url, opts)
        kinds.unique_ack_queue(store_url, AckOpts(ack_timeout="2m"), unique="forever")
        kinds.unique_queue(store_url, unique="forever", delete_on_dequeue=False)
        kinds.simple_queue(store_url, delete_on_dequeue=True)
        with headrace.connect(store_url) as hr:
            before = {info.name: (info.settings, info.version) for info in hr.queues.list()}
            for kind in ALL:
                getattr(kinds, kind)(store_url)
            assert {i.name: (i.settings, i.version) for i in hr.queues.list()} == before
            kinds.ack_queue(store_url, AckOpts(max_retries=2))
            settings = acked.queue.info().settings
            assert (settings.lease, settings.max_attempts, settings.keep) == (120, 3, "none")

    @pytest.mark.parametrize(
        "opts",
        [
            {"ack_timeout": 0},
            {"ack_timeout": -1},
            {"max_retries": -2},
            {"max_retries": 1.5},
            {"retry_backoff": -1},
            {"ack_action": "burn"},
        ],
        ids=str,
    )
    def test_wrong_options_are_refused(self, kinds: Kinds, store_url: str, opts: Any) -> None:
        with pytest.raises(InvalidOption):
            kinds.ack_queue(store_url, AckOpts(**opts))
        with headrace.connect(store_url) as hr:
            assert hr.queues.list() == []

    def test_messages_that_are_never_acknowledged_are_forgotten(self, kinds: Kinds) -> None:
        """An object keeps no claim whose lease is over."""
        queue = kinds.ack_queue("", AckOpts(ack_timeout=0.001, max_retries=INFINITE_RETRIES))
        for _ in range(50):
            queue.enqueue(b"x")
            queue.dequeue()
            time.sleep(0.002)
        assert len(bare(queue)._held) < 5
