"""Operations for blocking callers, by a shorter way.

Most operations are one statement, and the client's part of the work is not small beside it. Here
nothing stands between their steps and the connection; whatever else they ask for goes on by the
ordinary way.
"""

from __future__ import annotations

import os
from typing import Any, TypeVar

import psycopg

from headrace.contract.op import Op
from headrace.drivers.postgres import failures
from headrace.drivers.postgres.fates import LostAtCommit
from headrace.drivers.postgres.transacting import Talk, Transacting, whole
from headrace.drivers.relational.sql import Announce, Whole
from headrace.drivers.running import TryAgain, drive, no_probe
from headrace.errors import HeadraceError
from headrace.telemetry.events import is_heard

T = TypeVar("T")


class Blocking(Transacting):
    """Runs operations in the thread that wants them."""

    def run(self, op: Op[T]) -> T:
        if not op.writes or is_heard():
            return super().run(op)
        return self.run_at_once(op, self._attempt_now)

    def _attempt_now(self, op: Op[T]) -> T:
        """``attempt`` without a generator."""
        try:
            return self._with_connection(op)
        except LostAtCommit as lost:
            drive(self._find_out(op, lost), self.perform)
            result: T = lost.result  # type: ignore[assignment]  # exceptions are not generic
            return result

    def _with_connection(self, op: Op[T]) -> T:
        if self._pid != os.getpid():
            self._begin_anew()
        pool = self._pool
        try:
            connection = pool.take()
        except psycopg.OperationalError as error:
            raise TryAgain(failures.unavailable(error, self.address)) from error
        is_good = False
        try:
            result = self._follow(connection, op)
            is_good = True
            return result
        except HeadraceError:
            # Raised by the operation itself, which was rolled back: the connection is fine.
            is_good = True
            raise
        except psycopg.Error as error:
            raise self._judge(error, connection) from error
        finally:
            pool.give(connection, is_good=is_good)

    def _follow(self, connection: Any, op: Op[T]) -> T:
        """Do what the steps of an operation ask for, while that is a statement at a time."""
        talk = Talk(op.alone())
        while True:
            try:
                request = talk.steps.send(talk.answer)
            except StopIteration as stop:
                if talk.announced:
                    self.tell(talk.announced)
                if talk.was_sent and self.probe is not no_probe:
                    self.probe(op.name, "committed")
                return stop.value  # type: ignore[no-any-return]  # StopIteration is not generic
            talk.answer = None
            kind = type(request)
            if kind is Whole:
                before = self._before_whole(connection, op, talk, request)
                try:
                    rows = self.perform(whole(connection, before, request))
                    talk.answer = rows[len(before) :]
                except psycopg.Error as error:
                    self._not_done(connection, op, error)
            elif kind is Announce:
                talk.announced |= request.topics
            else:
                talk.request = request
                return drive(self._transact(connection, op, talk), self.perform)
