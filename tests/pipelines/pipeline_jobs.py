"""Processors that other processes can import."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import functools
import json
import os
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from headrace import Record

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


def double(body: dict[str, Any]) -> dict[str, Any]:
    return {"n": body["n"] * 2}


def triple(body: dict[str, Any]) -> dict[str, Any]:
    return {"n": body["n"] * 3}


tripled = functools.partial(triple)


class inherited(threading.Thread):  # noqa: N801  # a processor of the tests
    """Has methods that another module defines."""


@functools.wraps(double)
def wrapped(body: dict[str, Any]) -> dict[str, Any]:
    return double(body)


def by_size(body: dict[str, Any]) -> Any:
    """As many results as the number says: none, one as it is, several in a list."""
    n = body["n"]
    if n == 0:
        return None
    return {"of": n} if n == 1 else [{"of": n, "i": i} for i in range(n)]


def whole(record: Record) -> dict[str, Any]:
    return {"id": record.id, "topic": record.topic, "who": record.headers.get("who")}


async def later(body: dict[str, Any]) -> dict[str, Any]:
    """The first record is the last to be ready."""
    await asyncio.sleep(0.05 if body["n"] == 0 else 0)
    if body["n"] == 7:
        raise ValueError("seven")
    return {"n": body["n"] + 1}


def picky(body: dict[str, Any]) -> dict[str, Any]:
    if body.get("bad"):
        raise ValueError(f"bad {body['n']}")
    return {"n": body["n"]}


def number(body: dict[str, Any]) -> Any:
    return {5: 5, 6: {"n": float("nan")}, 7: [{"n": 7}, "text"]}.get(body["n"], body)


def leaving(body: dict[str, Any]) -> Any:
    if body["n"] == 3:
        raise SystemExit(4)
    return body


class Odd(BaseException):
    """An object whose text cannot be computed."""

    def __str__(self) -> str:
        raise Odd


class Sour(dict[str, Any]):
    """A result that cannot be inspected."""

    def items(self) -> Any:
        raise Odd

    __iter__ = keys = values = __len__ = items


RAISED: dict[str, BaseException] = {
    "cancelled": asyncio.CancelledError(),
    "interrupted": KeyboardInterrupt(),
    "left": SystemExit(4),
    "odd": Odd(),
    "closed": GeneratorExit(),
}


def raising(body: dict[str, Any]) -> Any:
    if "how" in body:
        raise RAISED[body["how"]]
    return body


async def raising_later(body: dict[str, Any]) -> Any:
    await asyncio.sleep(0)
    match body.get("how"):
        case "itself":
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
        case "everything":
            for task in asyncio.all_tasks():
                task.cancel()
            await asyncio.sleep(1)
        case "stopped":
            asyncio.get_running_loop().stop()
            await asyncio.sleep(1)
        case _:
            raising(body)
    return body


def deadly(body: dict[str, Any]) -> Any:
    """Ends its process."""
    match body.get("how"):
        case "exit":
            os._exit(3)
        case "crash":
            ctypes.string_at(0)
    return body


def endless(body: dict[str, Any]) -> Any:
    """Never returns. It can be interrupted, or not."""
    match body.get("how"):
        case "busy":
            while True:
                pass
        case "asleep":
            time.sleep(3600)
        case "deaf":
            while True:
                with contextlib.suppress(BaseException):
                    time.sleep(3600)
    return body


async def endless_later(body: dict[str, Any]) -> Any:
    if body.get("how") == "asleep":
        await asyncio.sleep(3600)
    await asyncio.sleep(0)
    return endless(body)


def endless_batch(batch: pa.RecordBatch) -> Any:
    for text in batch.column("body").to_pylist():
        endless(json.loads(text))
    return batch.select(["seq"])


def endless_frame(records: DataFrame) -> DataFrame:
    """Sent to executors by value, since they cannot import this module."""

    def waiting(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            while any('"deaf"' in text for text in batch.column(0).to_pylist()):
                with contextlib.suppress(BaseException):
                    time.sleep(3600)
            yield batch

    return records.select("body").mapInArrow(waiting, "body string")


def texts(batch: pa.RecordBatch) -> Any:
    """A batch with bodies of JSON text. One bad body makes the whole batch fail."""
    import pyarrow as pa

    bodies = [json.loads(text) for text in batch.column("body").to_pylist()]
    if any(body.get("bad") for body in bodies):
        raise ValueError("something is bad in here")
    return pa.table({"body": [json.dumps({"n": body["n"]}, indent=1) for body in bodies]})


def columns(batch: pa.RecordBatch) -> Any:
    return batch.select(["seq", "topic", "id"])


def frame(records: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f

    n = f.get_json_object("body", "$.n").cast("int")
    is_bad = f.get_json_object("body", "$.bad").isNotNull()
    return records.select(
        f.when(is_bad, f.raise_error(f.lit("bad"))).otherwise(n * 10).alias("n"), "seq"
    )


def halves(records: DataFrame) -> DataFrame:
    """Its frame twice, with complementary conditions."""
    from pyspark.sql import functions as f

    low, high = records.where("seq < 90"), records.where("seq >= 90")
    return low.unionByName(high).select(f.col("seq"))


def paired(records: DataFrame) -> DataFrame:
    """Its frame joined with a part of itself, after reading another part of it."""
    assert records.where("seq >= 290").count() <= records.count()
    part = records.where("seq >= 40").selectExpr("seq", "id as twin")
    return records.join(part, "seq", "left").select("seq", "twin").orderBy("seq")
