"""Willow's clients: its document from top to bottom, heartbeats, what is lost, refusals."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from async_facade import Blocking, LoopThread, bare, blocking, wait_until

from headrace import ANY, KeyValues, where
from headrace.compat._async.willow import AsyncWillow
from headrace.compat.willow import Channel, Counter, Queue, Willow
from headrace.errors import (
    InvalidKeyValues,
    InvalidOption,
    InvalidQuery,
    InvalidUrl,
    ItemGone,
    ItemLost,
    LimitExists,
    LimitReached,
    LockLost,
    NotConnected,
    QueueExists,
    QueueFull,
    UnknownLimit,
    UnknownLock,
    UnknownQueue,
    UnsupportedStore,
)
from headrace.node.app import NodeApp
from headrace.types import MatchQuery
from served_node import ServedNode

LINUX = {"os": "linux"}
BUILD = {"repo_name": "willow", "branch_name": "main", "os": "linux"}


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedNode]:
    served = ServedNode(tmp_path_factory.mktemp("node"))
    yield served
    served.close()


@pytest.fixture
def connect(node: ServedNode, mode: str, loop: LoopThread) -> Iterator[Callable[..., Any]]:
    """Make clients of a node with an empty store."""
    made: list[Any] = []

    def make(url: str | None = None) -> Any:
        url = url or node.tcp_url
        made.append(Blocking(AsyncWillow(url), loop) if mode == "async" else Willow(url))
        return made[-1]

    with node.serving("memory://"):
        yield make
        for client in made:
            client.close()


@pytest.fixture
def willow(connect: Callable[..., Any]) -> Any:
    """A client, and the queue ``q``."""
    client = connect()
    client.create_queue("q")
    return client


class TestDocument:
    def test_the_four_steps(self, willow: Any) -> None:
        rules = willow.limiter
        builds = rules.create_rule({"repo_name": ANY, "branch_name": ANY}, 1)
        rules.create_override(builds.id, {"repo_name": "willow", "branch_name": "main"}, -1)
        systems = rules.create_rule({"os": ANY}, 0)
        rules.create_override(systems.id, LINUX, -1)
        for os in ("windows", "mac"):
            rules.create_override(systems.id, {"os": os, "branch_name": "main"}, -1)
        willow.create_queue("git commits", max_items=50)
        assert willow.get_queue("git commits") == Queue(name="git commits", max_items=50)
        feature = {**BUILD, "branch_name": "new_feature_72"}
        for channel, retries in ((feature, 1), ({**BUILD, "os": "windows"}, 0), (BUILD, 0)):
            willow.enqueue(
                "git commits",
                channel,
                b"git commit to build",
                updateable=True,
                retry_attempts=retries,
                timeout=1,
            )
        main = willow.dequeue("git commits", where(os="linux", branch_name="main"))
        assert (main.data, main.key_values.plain) == (b"git commit to build", BUILD)
        other = willow.dequeue("git commits", where(os="linux"))
        assert other.key_values.plain == feature
        willow.enqueue("git commits", feature, b"a newer commit", updateable=True)
        assert willow.dequeue("git commits", where(os="linux"), wait=0) is None
        # Failed, at the front, and there is newer content: it is dropped for that.
        other.ack(False)
        assert willow.dequeue("git commits", where(os="linux")).data == b"a newer commit"
        main.ack()
        channels = willow.query_channels("git commits")
        assert sorted(channel.key_values.plain["os"] for channel in channels) == [
            "linux",
            "windows",
        ]


class TestQueues:
    def test_queues(self, willow: Any) -> None:
        willow.create_queue("a b", 3)
        assert willow.list_queues() == [
            Queue(name="a b", max_items=3),
            Queue(name="q", max_items=-1),
        ]
        with pytest.raises(QueueExists):
            willow.create_queue("q")
        willow.update_queue("a b", 0)
        with pytest.raises(QueueFull):
            willow.enqueue("a b", LINUX, b"x")
        for _ in range(2):
            willow.delete_queue("a b")
        for act in (
            lambda: willow.get_queue("a b"),
            lambda: willow.update_queue("a b", 1),
            lambda: willow.enqueue("a b", LINUX, b"x"),
            lambda: willow.dequeue("a b"),
            lambda: willow.delete_channel("a b", LINUX),
        ):
            with pytest.raises(UnknownQueue):
                act()

    def test_channels(self, willow: Any) -> None:
        willow.enqueue("q", LINUX, b"1")
        willow.enqueue("q", LINUX, b"2")
        willow.enqueue("q", {"os": "mac"}, b"3")
        item = willow.dequeue("q", where(os="linux"))
        assert willow.query_channels("q", where(os="linux")) == [
            Channel(key_values=KeyValues.of(LINUX), enqueued_items=1, processing_items=1)
        ]
        willow.delete_channel("q", LINUX)
        with pytest.raises(ItemGone):
            item.ack()
        assert item.lost
        assert len(willow.query_channels("q")) == 1

    def test_a_query_may_be_willows_json(self, willow: Any) -> None:
        willow.enqueue("q", LINUX, b"1")
        sent = where(os="linux").to_json()
        assert willow.dequeue("q", {"Selections": sent["Selection"]}).data == b"1"
        with pytest.raises(InvalidQuery):
            willow.dequeue("q", {"Selektion": sent["Selection"]})


class TestHeartbeats:
    def test_an_item_is_kept_until_it_is_acked(self, willow: Any) -> None:
        """For longer than its time."""
        willow.enqueue("q", LINUX, b"x", timeout=0.6)
        item = willow.dequeue("q")
        first_end = bare(item)._sure_until
        wait_until(lambda: bare(item)._sure_until > first_end + 0.6)
        assert not item.lost
        assert willow.dequeue("q", wait=0) is None
        item.ack()
        assert not item.lost
        assert willow.query_channels("q") == []
        with pytest.raises(ItemLost):
            item.ack()

    def test_a_heartbeat_finds_out_that_it_was_lost(self, willow: Any) -> None:
        willow.enqueue("q", LINUX, b"x", timeout=0.3)
        item = willow.dequeue("q")
        willow.delete_queue("q")
        wait_until(lambda: item.lost)
        for act in (item.ack, item.heartbeat):
            with pytest.raises(ItemLost):
                act()

    def test_a_closed_client_keeps_nothing(self, willow: Any, connect: Callable[..., Any]) -> None:
        """After its time another consumer gets the item, and a late ack is refused."""
        willow.enqueue("q", LINUX, b"x", timeout=0.3, retry_attempts=1)
        other = connect()
        item = other.dequeue("q")
        other.close()
        wait_until(lambda: item.lost)
        again = willow.dequeue("q", wait=20)
        assert (again.data, again.id == item.id) == (b"x", False)
        for act in (item.ack, lambda: other.dequeue("q", wait=0)):
            with pytest.raises(NotConnected):
                act()
        again.ack()

    def test_a_lock_is_kept_until_it_is_released(
        self, willow: Any, connect: Callable[..., Any]
    ) -> None:
        other = connect()
        held = willow.obtain_lock(LINUX, timeout=0.6)
        first_end = bare(held)._sure_until
        wait_until(lambda: bare(held)._sure_until > first_end + 0.6)
        assert other.obtain_lock(LINUX, wait=0) is None
        [info] = willow.query_locks(where(os="linux"))
        assert (info.id, info.held_or_waiting) == (held.id, 1)
        assert 0 < info.seconds_left <= 0.6
        held.release()
        assert not held.lost
        taken = other.obtain_lock(LINUX)
        assert taken.session != held.session
        with pytest.raises(LockLost):
            held.heartbeat()
        taken.release()
        with pytest.raises(UnknownLock):
            taken.heartbeat()
        assert willow.query_locks() == []

    def test_a_lost_lock_says_so(self, willow: Any, connect: Callable[..., Any]) -> None:
        other = connect()
        held = other.obtain_lock(LINUX, timeout=0.3)
        other.close()
        assert willow.obtain_lock(LINUX, wait=20) is not None
        assert held.lost


class TestWaiting:
    def test_a_dequeue_waits(self, willow: Any, connect: Callable[..., Any]) -> None:
        other = connect()
        timer = threading.Timer(0.1, lambda: other.enqueue("q", LINUX, b"x"))
        timer.start()
        assert willow.dequeue("q", wait=20).data == b"x"
        timer.join()
        assert willow.dequeue("q", wait=0.05) is None

    def test_many_dequeues_leave_connections_for_acks(
        self, connect: Callable[..., Any], willow: Any
    ) -> None:
        waiting = [
            threading.Thread(target=lambda: willow.dequeue("q", wait=20).ack()) for _ in range(40)
        ]
        for thread in waiting:
            thread.start()
        other = connect()
        for _ in range(40):
            other.enqueue("q", LINUX, b"x")
        for thread in waiting:
            thread.join(30)
        assert willow.query_channels("q") == []


def test_a_cancelled_dequeue_takes_nothing(node: ServedNode) -> None:
    async def main() -> None:
        async with AsyncWillow(node.tcp_url) as willow:
            await willow.create_queue("q")
            waiting = asyncio.ensure_future(willow.dequeue("q"))
            await asyncio.sleep(0.05)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            await willow.enqueue("q", LINUX, b"x")
            item = await willow.dequeue("q", wait=20)
            assert item is not None
            await item.ack()

    with node.serving("memory://"):
        asyncio.run(main())


class TestLimiter:
    def test_rules(self, willow: Any) -> None:
        rules = willow.limiter
        made = rules.create_rule({"os": ANY}, 1)
        assert made.group_by_key_values == {"os": {"Type": 1024, "Data": None}}
        with pytest.raises(LimitExists):
            rules.create_rule({"os": ANY}, 2)
        rules.update_rule(made.id, 2)
        assert rules.get_rule(made.id).limit == 2
        assert [rule.id for rule in rules.query_rules()] == [made.id]
        assert rules.match_rules({"os": "mac", "n": 1}) == rules.query_rules(where(os__exists=True))
        assert rules.match_rules(MatchQuery.of({"n": 1})) == []
        override = rules.create_override(made.id, {"os": "mac"}, -1)
        rules.update_override(made.id, override.id, 0)
        assert rules.get_override(made.id, override.id).limit == 0
        found = rules.query_overrides(made.id, where(os="mac"))
        assert found == rules.match_overrides(made.id, {"os": "mac"})
        assert [one.id for one in found] == [override.id]
        rules.delete_override(made.id, override.id)
        rules.delete_rule(made.id)
        for act in (rules.get_rule, rules.delete_rule, rules.query_overrides):
            with pytest.raises(UnknownLimit):
                act(made.id)

    def test_counters(self, willow: Any) -> None:
        rules = willow.limiter
        rules.create_rule({"os": ANY}, 2)
        rules.update_counter(LINUX)
        rules.update_counter(LINUX, 1)
        with pytest.raises(LimitReached):
            rules.update_counter(LINUX)
        rules.update_counter(LINUX, -1)
        one = Counter(key_values=KeyValues.of(LINUX), counters=1)
        assert rules.query_counters() == rules.query_counters(where(os="linux")) == [one]
        rules.set_counter(LINUX, 0)
        assert rules.query_counters() == []


class TestRefusals:
    @pytest.mark.parametrize(
        ("options", "error"),
        [
            ({"data": b""}, InvalidOption),
            ({"data": "text"}, InvalidOption),
            ({"key_values": {}}, InvalidKeyValues),
            ({"key_values": {"os": ANY}}, InvalidKeyValues),
            ({"timeout": 0}, InvalidOption),
            ({"retry_position": "top"}, Exception),
            ({"retry_attempts": -1}, Exception),
        ],
        ids=str,
    )
    def test_wrong_items(self, willow: Any, options: dict[str, Any], error: Any) -> None:
        good: dict[str, Any] = {"key_values": LINUX, "data": b"x"}
        with pytest.raises(error):
            willow.enqueue("q", **{**good, **options})
        assert willow.query_channels("q") == []

    @pytest.mark.parametrize("wait", [-1, "1", True])
    def test_wrong_waits(self, willow: Any, wait: Any) -> None:
        with pytest.raises(InvalidOption):
            willow.dequeue("q", wait=wait)

    def test_a_url_that_is_none_of_a_node(
        self, connect: Callable[..., Any], tmp_path: Path
    ) -> None:
        with pytest.raises(InvalidUrl, match="headrace up"):
            connect(f"sqlite:///{tmp_path}/flow.db")
        with pytest.raises(NotConnected):
            connect(f"unix://{tmp_path}/nothing.sock").list_queues()

    def test_a_node_without_willow(self, willow: Any, node: ServedNode) -> None:
        node.app = NodeApp(node._store, guard=node._guard, closing=node._node.closing, willow=False)
        with pytest.raises(UnsupportedStore, match="--no-willow"):
            willow.list_queues()


def test_it_works_over_a_socket(node: ServedNode, mode: str, loop: LoopThread) -> None:
    with node.serving("memory://"):
        if mode == "async":
            blocking(_use, loop)(AsyncWillow(node.unix_url))
        else:
            with Willow(node.unix_url) as willow, willow.obtain_lock(LINUX) as held:
                assert [info.id for info in willow.query_locks()] == [held.id]


async def _use(willow: AsyncWillow) -> None:
    async with willow:
        lock = await willow.obtain_lock(LINUX)
        assert lock is not None
        async with lock:
            assert [info.id for info in await willow.query_locks()] == [lock.id]
