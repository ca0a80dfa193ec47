"""A session: what one client does over its socket, one request after the other."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, assert_never, cast

from headrace._async.headrace import AsyncHeadrace
from headrace.contract.items import ClaimRequest
from headrace.contract.store import Store
from headrace.contract.wire import Problem
from headrace.errors import HeadraceError, InvalidOption
from headrace.model.codec import DEFAULT_MAX_BODY
from headrace.model.names import check_queue, check_topic
from headrace.model.times import duration_ms
from headrace.model.tokens import claim_token
from headrace.node.capacity import Capacity
from headrace.node.http import Disconnected, HttpError, HttpRequest
from headrace.node.problems import problem_of, unexpected
from headrace.node.resources.callers import Caller
from headrace.node.resources.claims import settled_view
from headrace.node.resources.endpoint import MAX_KEY_LENGTH, ApiCall
from headrace.node.resources.pushes import PushView, pushed
from headrace.node.resources.topics import commit_to_topics
from headrace.node.streams.place import find_place
from headrace.node.web_socket.messages import (
    Ack,
    AnyRequest,
    CommitRecords,
    CommitReply,
    Credit,
    Credited,
    EndedSubscription,
    Id,
    MessageOutcome,
    PushItems,
    PushReply,
    Refused,
    Reply,
    Settle,
    SettledItems,
    Subscribe,
    Subscribed,
    Unsubscribe,
    Unsubscribed,
    decoded,
    encode,
    id_of,
)
from headrace.node.web_socket.queue_subscription import QueueSubscription
from headrace.node.web_socket.socket import ACCESS_ENDED, NODE_STOPS, WebSocket
from headrace.node.web_socket.subscription import Subscription
from headrace.node.web_socket.topic_subscription import TopicSubscription

if TYPE_CHECKING:
    from headrace.node.app import NodeApp

SEND_SECONDS = 1.0
"""How long a client may take to read an answer once its session is to end."""
_log = logging.getLogger("headrace.node")


class SocketSession:
    """Serves one socket. Everything that it does, it does as the socket's identity."""

    def __init__(self, app: NodeApp, socket: WebSocket) -> None:
        self.request: HttpRequest = socket.request
        self._app = app
        self._socket = socket
        self._caller = app.callers.of(self.request.identity)
        self._store = self._caller.store
        self._hr = AsyncHeadrace(cast("Store", self._store), max_body=DEFAULT_MAX_BODY)
        self._subscriptions: dict[Id, tuple[Subscription, asyncio.Task[None]]] = {}
        self._end: asyncio.Future[Problem | None] = asyncio.get_running_loop().create_future()
        self._is_busy = False
        self._has_left = False
        # Subscriptions that begin when their clients have been answered.
        self._answered: list[asyncio.Event] = []

    async def run(self) -> None:
        """Answer requests until the client leaves, or until ``end``."""
        receiving = asyncio.ensure_future(self._receive_all())
        receiving.add_done_callback(lambda _: self.end())
        try:
            problem = await self._end
        finally:
            await self._unsubscribe_all()
            if not self._is_busy:
                receiving.cancel()
            # What is under way is answered.
            while not receiving.done():
                await asyncio.wait([receiving], timeout=SEND_SECONDS)
                if self._socket.is_sending:
                    self.request.abort()
                    receiving.cancel()
            await self._hr.close()
        if not self._has_left:
            await self._close(problem)

    def tick(self, seconds: float) -> None:
        """Nothing: the server pings its clients."""

    def end(self, problem: Problem | None = None) -> None:
        if not self._end.done():
            self._end.set_result(problem)

    async def _close(self, problem: Problem | None) -> None:
        """Say why the session ends. A client that does not read it is cut off."""
        try:
            async with asyncio.timeout(SEND_SECONDS):
                if problem is not None:
                    await self._socket.send(encode(Refused(id=None, problem=problem)))
                    await self._socket.close(ACCESS_ENDED, problem.code)
                else:
                    await self._socket.close(NODE_STOPS, "the node is stopping")
        except TimeoutError:
            self.request.abort()
        except Disconnected:
            pass

    async def _receive_all(self) -> None:
        while not self._end.done():
            text = await self._socket.receive()
            if text is None:
                self._has_left = True
                return
            self._is_busy = True
            try:
                await self._socket.send(encode(await self._answer(text)))
            except Disconnected:
                self._has_left = True
                return
            finally:
                self._is_busy = False
            while self._answered:
                self._answered.pop().set()

    async def _answer(self, text: bytes | str) -> Reply | Refused:
        try:
            request = decoded(text)
        except HeadraceError as error:
            return Refused(id=id_of(text), problem=problem_of(error))
        try:
            with self._app.capacity.running(keeps_work=isinstance(request, Ack | Settle)):
                return await self._perform(request)
        except HttpError as error:
            return Refused(id=request.id, problem=error.problem)
        except HeadraceError as error:
            return Refused(id=request.id, problem=problem_of(error))
        except Exception:
            # The client learns that, but not why: the reason may hold what is not its business.
            _log.exception("a request over a socket failed")
            return Refused(id=request.id, problem=unexpected())

    async def _perform(self, request: AnyRequest) -> Reply:
        match request:
            case Subscribe():
                return await self._subscribe(request)
            case Credit():
                credit = self._subscription(request.subscription).add_credit(request.credit)
                return Credited(id=request.id, credit=credit)
            case Ack():
                outcomes = [MessageOutcome(item=item, kind="complete") for item in request.items]
                return await self._settle(request, outcomes)
            case Settle():
                return await self._settle(request, request.outcomes)
            case PushItems():
                return await self._push(request)
            case CommitRecords():
                committed = await commit_to_topics(self._call(request, request.records))
                return CommitReply(id=request.id, ids=committed.ids)
            case Unsubscribe():
                await self._unsubscribe(request.subscription)
                return Unsubscribed(id=request.id)
            case _:
                assert_never(request)

    async def _subscribe(self, request: Subscribe) -> Subscribed:
        if request.id in self._subscriptions:
            raise InvalidOption(
                f"a subscription has the id {request.id!r} already: use another.", option="id"
            )
        self._app.streams.check(self.request.identity)
        if request.queue is None and request.topic is not None:
            subscription: Subscription = await self._to_topic(request, request.topic)
        elif request.topic is None and request.queue is not None:
            subscription = self._to_queue(request, request.queue)
        else:
            raise InvalidOption("subscribe to a topic or to a queue: give one.", option="topic")
        begun = asyncio.Event()
        task = asyncio.ensure_future(self._run(request.id, subscription, begun))
        self._subscriptions[request.id] = (subscription, task)
        self._answered.append(begun)
        return Subscribed(id=request.id)

    async def _to_topic(self, request: Subscribe, name: str) -> TopicSubscription:
        topic = check_topic(name)
        if request.lease is not None:
            raise InvalidOption("lease is for queues: leave it out.", option="lease")
        place = await find_place(
            self._store, topic, start=request.start, after=request.last_event_id
        )
        heads = self._app.streams.heads
        return TopicSubscription(
            request.id, self._socket, heads, self._store, place, request.credit
        )

    def _to_queue(self, request: Subscribe, name: str) -> QueueSubscription:
        if request.start is not None or request.last_event_id is not None:
            raise InvalidOption("start and last_event_id are for topics.", option="start")
        if request.lease is not None:
            duration_ms("lease", request.lease, least=1)
        claim = ClaimRequest(queue=check_queue(name), token=claim_token(), count=1)
        self._store.authorize(self._store.queues.claim(claim))
        return QueueSubscription(
            request.id, self._socket, self._hr, name, request.credit, request.lease
        )

    async def _run(self, id: Id, subscription: Subscription, begun: asyncio.Event) -> None:
        """Run a subscription once its client knows of it, and tell if it ends."""
        await begun.wait()
        try:
            with self._app.streams.slots.held(self.request.identity):
                await subscription.run()
        except Disconnected:
            return
        except HeadraceError as error:
            problem = problem_of(error)
        except Exception:
            _log.exception("a subscription failed")
            problem = unexpected()
        self._subscriptions.pop(id, None)
        with contextlib.suppress(Disconnected):
            await self._socket.send(encode(EndedSubscription(subscription=id, problem=problem)))

    def _subscription(self, id: Id) -> Subscription:
        found = self._subscriptions.get(id)
        if found is None:
            raise HttpError(
                404,
                "unknown_subscription",
                f"this socket has no subscription {id!r}: it may have ended.",
            )
        return found[0]

    async def _unsubscribe(self, id: Id) -> None:
        self._subscription(id)
        _, task = self._subscriptions.pop(id)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    async def _unsubscribe_all(self) -> None:
        tasks = [task for _, task in self._subscriptions.values()]
        self._subscriptions.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _settle(
        self, request: Ack | Settle, outcomes: Sequence[MessageOutcome]
    ) -> SettledItems:
        subscription = self._subscription(request.subscription)
        if not isinstance(subscription, QueueSubscription):
            raise InvalidOption(
                f"the subscription {request.subscription!r} is to a topic: its records are not "
                "settled. Give credit for more.",
                option="subscription",
            )
        settled = await subscription.settle(outcomes)
        return SettledItems(id=request.id, settled=[settled_view(one) for one in settled])

    async def _push(self, request: PushItems) -> PushReply:
        if request.wait:
            raise InvalidOption("over a socket a push does not wait: leave it out.", option="wait")
        view = await pushed(self._call(request, request))
        views = [view] if isinstance(view, PushView) else view.items
        return PushReply(id=request.id, items=views)

    def _call(self, request: PushItems | CommitRecords, body: Any) -> ApiCall[Any, None]:
        return _SocketCall(self._caller, self.request, request, body, self._app.capacity)


class _SocketCall(ApiCall[Any, None]):
    """What a request over HTTP would be."""

    def __init__(
        self,
        caller: Caller,
        request: HttpRequest,
        message: PushItems | CommitRecords,
        body: Any,
        capacity: Capacity,
    ) -> None:
        super().__init__(caller, request, body, None, capacity)
        self._message = message

    def __getitem__(self, name: str) -> str:
        value: str = getattr(self._message, name)
        return value

    @property
    def key(self) -> str | None:
        key = self._message.key
        if key is not None and not 0 < len(key) <= MAX_KEY_LENGTH:
            raise InvalidOption(
                f"key is empty or longer than {MAX_KEY_LENGTH} characters.", option="key"
            )
        return key
