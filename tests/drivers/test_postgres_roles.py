"""Settings of a session that come from a role, a database or a URL."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
import sqlalchemy
from sqlalchemy import orm

import headrace
from faults.polling import until
from headrace.errors import HeadraceError, InvalidOption, StoreUnavailable, UnsupportedStore
from headrace.testing.postgres import PrivatePostgres

TEXT = {"text": "é € 🎉 \u0000"}


@pytest.mark.parametrize(
    "option",
    [
        "client_encoding=latin1",
        "client_encoding=sql_ascii",
        "options=-cclient_encoding%3Dlatin1",
    ],
)
def test_every_text_is_stored_whatever_client_encoding_says(postgres_url: str, option: str) -> None:
    with headrace.connect(f"{postgres_url}&{option}") as hr:
        hr.commit("t", TEXT)
        hr.commit([("t", TEXT), ("u", TEXT)])
        with hr.transaction() as tx:
            tx.commit("t", TEXT)
        queue = hr.queue("q")
        queue.push(TEXT, channel={"name": "ö €"})
        assert [item.payload for item in queue.claim()] == [TEXT]
        assert [record.body for record in hr.range("t")] == [TEXT] * 3


def test_the_same_by_the_environment(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGCLIENTENCODING", "latin1")
    with headrace.connect(postgres_url) as hr:
        hr.commit("t", TEXT)
        assert [record.body for record in hr.range("t")] == [TEXT]


@contextmanager
def psycopg_connection(url: str, encoding: str) -> Iterator[Any]:
    with psycopg.connect(url, client_encoding=encoding) as connection:
        yield connection


@contextmanager
def alchemy_session(url: str, encoding: str) -> Iterator[Any]:
    address = url.replace("postgresql://", "postgresql+psycopg://")
    engine = sqlalchemy.create_engine(address, connect_args={"client_encoding": encoding})
    with orm.Session(engine) as session:
        yield session
    engine.dispose()


@pytest.mark.parametrize(
    ("opened", "encoding"),
    # SQLAlchemy itself does not work with sql_ascii.
    [
        (psycopg_connection, "latin1"),
        (psycopg_connection, "sql_ascii"),
        (alchemy_session, "latin1"),
    ],
)
def test_a_connection_of_yours_in_another_encoding_is_refused(
    hr: headrace.Headrace, postgres_url: str, opened: Any, encoding: str
) -> None:
    with opened(postgres_url.partition("?")[0], encoding) as connection:
        with pytest.raises(InvalidOption, match="client_encoding=utf8"):
            hr.using(connection).commit("t", TEXT)
        connection.rollback()


def test_a_text_outside_the_encoding_of_the_database_is_refused(postgres: PrivatePostgres) -> None:
    """Other texts are stored."""
    postgres.execute("create database narrow encoding latin1 template template0")
    try:
        with headrace.connect(postgres.url.removesuffix("postgres") + "narrow") as hr:
            hr.commit("t", {"text": "é"})
            queue = hr.queue("q")
            for refused in (
                lambda: hr.commit("t", TEXT),
                lambda: queue.push(TEXT),
                lambda: queue.push({}, channel={"name": "€"}),
            ):
                with pytest.raises(HeadraceError):
                    refused()
            assert [record.body for record in hr.range("t")] == [{"text": "é"}]
            assert not queue.claim()
    finally:
        postgres.execute("drop database narrow with (force)")


@pytest.fixture
def reader(postgres: PrivatePostgres) -> Iterator[str]:
    """A role for the tests of this file."""
    postgres.execute("create role reader login superuser")
    yield "reader"
    postgres.execute("drop role reader")


def as_role(url: str, role: str) -> str:
    return url.replace("//headrace@", f"//{role}@")


READ_ONLY = "default_transaction_read_only"


@pytest.mark.parametrize("owner", ["role reader", "database postgres", "the URL"])
def test_read_only_transactions_are_refused_at_connect(
    postgres: PrivatePostgres, postgres_url: str, reader: str, owner: str
) -> None:
    url = as_role(postgres_url, reader)
    if owner == "the URL":
        with pytest.raises(UnsupportedStore, match=READ_ONLY):
            headrace.connect(f"{url}&options=-c{READ_ONLY}%3Don")
        return
    postgres.execute(f"alter {owner} set {READ_ONLY} = on")
    try:
        with pytest.raises(UnsupportedStore, match=f"{reader}.*{READ_ONLY}"):
            headrace.connect(url)
        # The remedy that the message names.
        with headrace.connect(f"{url}&options=-c{READ_ONLY}%3Doff") as hr:
            hr.commit("t", {})
    finally:
        with psycopg.connect(postgres.url, autocommit=True) as connection:
            connection.execute(f"set {READ_ONLY} = off")
            connection.execute(f"alter {owner} reset {READ_ONLY}".encode())


def test_a_database_that_becomes_read_only_refuses_all_writes(
    postgres: PrivatePostgres, postgres_url: str, reader: str
) -> None:
    """Neither pushes nor claims nor transactions write until it is over."""
    with headrace.connect(as_role(postgres_url, reader), patience=0.1) as hr:
        queue = hr.queue("q")
        queue.push_many([{"n": n} for n in range(3)])
        [item] = queue.claim()
        hr.commit("t", {})
        proc = hr.procs.create("p", "t")

        def transact() -> None:
            with hr.transaction() as tx:
                tx.commit("t", {})

        postgres.execute(f"alter role {reader} set {READ_ONLY} = on")
        hr._store.connections.pool._close_idle()
        for write in (
            lambda: queue.push({}),
            queue.claim,
            item.complete,
            lambda: hr.commit("t", {}),
            lambda: hr.commit([("t", {}), ("u", {})]),
            proc.claim,
            lambda: hr.lock({"l": 1}).acquire(),
            transact,
        ):
            with pytest.raises(StoreUnavailable, match="read-only"):
                write()
        assert hr.topic("t").length() == 1
        postgres.execute(f"alter role {reader} reset {READ_ONLY}")
        hr._store.connections.pool._close_idle()
        item.complete()
        until(lambda: len(queue.claim(2)) == 2, "the others")
