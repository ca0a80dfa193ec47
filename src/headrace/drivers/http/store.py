"""A store behind a node.

Each operation is one request. If a request was not sent, or its operation changes nothing, it is
sent again. The node keeps the answers to other requests, by their id: a repeat with the same id
gets the first answer, or is executed if the first request never arrived. Only the same incarnation
of the node can answer that. A repeat that meets another one is sent again if the operation is
repeatable (it has a key, for example); else it is ``OutcomeUnknown``.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, NoReturn, TypeVar
from urllib.parse import quote

import msgspec

from headrace.contract.admin import AdminStore
from headrace.contract.channels import ChannelStore
from headrace.contract.counters import CounterStore
from headrace.contract.limits import LimitStore
from headrace.contract.locks import LockStore
from headrace.contract.op import Op
from headrace.contract.pipelines import PipelineStore
from headrace.contract.procs import ProcStore
from headrace.contract.queues import QueueStore
from headrace.contract.schedules import ScheduleStore
from headrace.contract.sinks import SinkStore
from headrace.contract.store import Session
from headrace.contract.tokens import TokenStore
from headrace.contract.topics import TopicStore
from headrace.contract.wire import NODE_PATH, NOTIFICATIONS_PATH, RESTARTED, NodeInfo
from headrace.drivers.http import failures
from headrace.drivers.http.address import Address
from headrace.drivers.http.connections import (
    AnswerLost,
    AsyncHttpConnections,
    HttpConnections,
    NotSent,
    NotThere,
)
from headrace.drivers.http.messages import Answer, Call, Letterhead, new_id
from headrace.drivers.http.notifications import NodeSource
from headrace.drivers.http.parts import compose
from headrace.drivers.notifier import NotifierWaiter, shared_notifier
from headrace.drivers.runner import (
    FIRST_DELAY,
    MAX_DELAY_SECONDS,
    InDoubt,
    Runner,
    Sleep,
    TryAgain,
    Work,
)
from headrace.errors import HeadraceError, InvalidOption, NotConnected, UnsupportedStore

T = TypeVar("T")

_RESTARTED = "it was restarted"
ANSWER_GRACE_SECONDS = 1.0
"""How long an answer may come after patience has ended: the node gives up at that moment, too."""


class Exchange(msgspec.Struct, frozen=True):
    """The action of this driver: send a request, and wait for its answer until a time."""

    request: bytes
    deadline: float
    is_write: bool


class HttpStore(Runner):
    """Headrace through a node. See ``headrace.contract.store.Store``.

    ``why_ended`` says why the node will not be back, if its spawner knows: no call waits for it.
    """

    name = "http"
    topics: TopicStore
    procs: ProcStore
    queues: QueueStore
    channels: ChannelStore
    limits: LimitStore
    locks: LockStore
    counters: CounterStore
    sinks: SinkStore
    pipelines: PipelineStore
    tokens: TokenStore
    schedules: ScheduleStore
    admin: AdminStore

    def __init__(
        self,
        address: Address,
        *,
        patience: float,
        find_token: Callable[[], str | None] | None = None,
        why_ended: Callable[[], HeadraceError | None] = lambda: None,
    ) -> None:
        super().__init__(patience=patience)
        self._find_token = find_token
        self._why_ended = why_ended
        self._address = address
        self._token = address.token if find_token is None else find_token()
        self._letterhead = Letterhead(address, self._token)
        self._connections = HttpConnections(address)
        self._async_connections = AsyncHttpConnections(address)
        self._waiters = shared_notifier(f"node {address.shown}")
        try:
            self.node = info = self._ask_node()
        except BaseException:
            self._connections.close()
            raise
        self._incarnation = info.incarnation
        self.capabilities = msgspec.structs.replace(
            info.capabilities,
            is_shared=True,
            has_record_view=False,
            supports_transactions=False,
            numbers_at_commit=False,
            has_server=True,
        )
        compose(self)

    def _ask_node(self) -> NodeInfo:
        """What the node says of itself. ``NotConnected`` immediately if there is none."""
        give_up = time.monotonic() + self.patience
        delay = FIRST_DELAY
        while True:
            try:
                answer = self._connections.exchange(self._letterhead.get(NODE_PATH), give_up)
                return self._node_info(answer)
            except NotThere:
                raise failures.not_connected(self._address) from None
            except (NotSent, AnswerLost) as error:
                if not failures.may_be_back(error):
                    raise failures.no_understanding(self._address, error) from error
                is_sent = isinstance(error, AnswerLost)
                report = failures.unanswered if is_sent else failures.unavailable
                failed: HeadraceError = report(self._address, error)
            except TryAgain as failure:
                failed = failure.error
            if time.monotonic() + delay > give_up:
                raise failed
            time.sleep(delay * random.uniform(0.5, 1.0))
            delay = min(delay * 2, MAX_DELAY_SECONDS)

    def _node_info(self, answer: Answer) -> NodeInfo:
        if failures.has_nothing_there(answer):
            raise failures.wrong_path(self._address)
        self._check(answer)
        try:
            return msgspec.json.decode(answer.body, type=NodeInfo)
        except msgspec.DecodeError as error:
            raise UnsupportedStore(
                f"the node at {self._address.shown} is of another release, which this client does "
                f"not understand ({error}): run the same release on both sides."
            ) from None

    def perform(self, action: Any) -> Any:
        if isinstance(action, Exchange):
            return self._connections.exchange(action.request, action.deadline)
        return super().perform(action)

    async def aperform(self, action: Any) -> Any:
        if isinstance(action, Exchange):
            return await self._async_connections.exchange(
                action.request, action.deadline, is_write=action.is_write
            )
        return await super().aperform(action)

    def attempt(self, op: Op[T]) -> Work[T]:
        steps = iter(op)
        call: Call = next(steps)
        give_up = op.give_up if op.give_up is not None else time.monotonic() + self.patience
        self.probe(op.name, 0)
        send = self._write if op.writes else self._read
        result = yield from send(call, give_up)
        if op.writes:
            self.probe(op.name, "committed")
        try:
            steps.send(result)
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]  # StopIteration is not generic
        raise AssertionError(f"{op.name} has one step")

    def _read(self, call: Call, give_up: float) -> Work[Any]:
        """Send a call that changes nothing; the runner repeats it."""
        body = self._letterhead.encode(call)
        try:
            answer = yield self._exchange(call, body, new_id(), self._incarnation, give_up)
        except (NotSent, AnswerLost) as error:
            raise TryAgain(failures.unavailable(self._address, error)) from error
        if self._is_restarted(answer):
            raise TryAgain(failures.unavailable(self._address, _RESTARTED))
        if self._has_new_token(answer):
            raise TryAgain(failures.unavailable(self._address, "its token is another one"))
        self._check(answer)
        return self._result(call, answer)

    def _write(self, call: Call, give_up: float) -> Work[Any]:
        """Send a call until it is answered, under one id and to one incarnation of the node."""
        body = self._letterhead.encode(call)
        id = new_id()
        incarnation = self._incarnation
        # When it was sent first, once an answer to it is missing.
        since: float | None = None
        delay = FIRST_DELAY
        while True:
            sent_at = time.monotonic()
            try:
                answer = yield self._exchange(call, body, id, incarnation, give_up, since)
            except NotSent as error:
                if since is None:
                    raise TryAgain(failures.unavailable(self._address, error)) from error
                reason: object = error
            except AnswerLost as error:
                since = sent_at if since is None else since
                reason = error
            else:
                if self._is_restarted(answer):
                    raise self._after_restart(call, is_in_doubt=since is not None)
                if self._has_new_token(answer):
                    continue
                if answer.request_id == id or (since is None and failures.is_of_node(answer)):
                    self._check(answer)
                    return self._result(call, answer)
                # A repeat was refused, which says nothing about the first request; or a proxy
                # answered, which does not know what became of the request.
                reason = failures.refusal(answer)
                if not failures.may_pass(answer):
                    raise failures.outcome_unknown(self._address, reason)
                since = sent_at if since is None else since
            if time.monotonic() + delay > give_up:
                raise failures.outcome_unknown(self._address, reason)
            yield Sleep(delay * random.uniform(0.5, 1.0))
            delay = min(delay * 2, MAX_DELAY_SECONDS)

    def _after_restart(self, call: Call, *, is_in_doubt: bool) -> Exception:
        if not is_in_doubt:
            return TryAgain(failures.unavailable(self._address, _RESTARTED))
        error = failures.outcome_unknown(self._address, _RESTARTED)
        return InDoubt(error) if call.is_repeatable else error

    def _exchange(
        self,
        call: Call,
        body: bytes,
        id: str,
        incarnation: str,
        give_up: float,
        since: float | None = None,
    ) -> Exchange:
        ended = self._why_ended()
        if ended is not None:
            if since is not None:
                raise failures.outcome_unknown(self._address, ended)
            raise NotConnected(ended.message)
        request = self._letterhead.post(
            call, body, id=id, incarnation=incarnation, give_up=give_up, since=since
        )
        return Exchange(request, give_up + ANSWER_GRACE_SECONDS, call.operation.writes)

    def _is_restarted(self, answer: Answer) -> bool:
        """Whether another incarnation of the node has refused the request. The next is for it."""
        if answer.status != 409 or answer.incarnation is None:
            return False
        problem = failures.problem_of(answer)
        if problem is None or problem.code != RESTARTED:
            return False
        self._incarnation = answer.incarnation
        if not self.capabilities.survives_restart:
            raise failures.node_lost(self._address)
        return True

    def _has_new_token(self, answer: Answer) -> bool:
        """Whether a refused request may be sent again with a token that was just found.

        A node that was restarted has another one for the tools of its user.
        """
        if answer.status != 401 or self._find_token is None:
            return False
        before, self._token = self._token, self._find_token()
        self._letterhead = Letterhead(self._address, self._token)
        return self._token != before

    def _check(self, answer: Answer) -> None:
        """Raise what a node reports; ``TryAgain`` if it may be able later."""
        if answer.status == 200 and answer.incarnation is not None:
            return
        problem = failures.problem_of(answer)
        if problem is None or not failures.is_of_node(answer):
            if failures.may_pass(answer):
                raise TryAgain(failures.unavailable(self._address, f"status {answer.status}"))
            raise failures.no_node(self._address, answer)
        error = failures.error_of(problem)
        if answer.status == 503:
            raise TryAgain(error)
        raise error

    def _result(self, call: Call, answer: Answer) -> Any:
        try:
            return self._letterhead.decode(call, answer)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise UnsupportedStore(
                f"the node's answer to {call.operation.name} is not understood ({error}): the node "
                f"is headrace {self.node.version}; run the same release on both sides."
            ) from None

    def waiter(self, topic: str) -> NotifierWaiter:
        """A waiter for records of a topic."""
        return NotifierWaiter(
            self._waiters,
            topic,
            lambda: NodeSource(
                self._address, self._letterhead.get(NOTIFICATIONS_PATH + quote(topic, safe=""))
            ),
        )

    def transaction(self) -> AbstractContextManager[Session]:
        raise _no_transaction()

    def atransaction(self) -> AbstractAsyncContextManager[Session]:
        raise _no_transaction()

    def using(self, connection: Any) -> NoReturn:
        raise InvalidOption(
            "your connection's database is not this node's: open the database itself with "
            "headrace.connect, and use its using().",
            option="connection",
        )

    ausing = using

    def close(self) -> None:
        self._connections.close()

    async def aclose(self) -> None:
        self._connections.close()
        await self._async_connections.close()


def _no_transaction() -> UnsupportedStore:
    return UnsupportedStore(
        "a transaction cannot stay open across the network: write together what belongs together "
        "(commit([...]), ack_commit, ack_push, or outcomes with commits and pushes), or open the "
        "database itself."
    )
