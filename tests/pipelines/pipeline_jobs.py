"""Processors that other processes can import."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from headrace import Record

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


def double(body: dict[str, Any]) -> dict[str, Any]:
    return {"n": body["n"] * 2}


def triple(body: dict[str, Any]) -> dict[str, Any]:
    return {"n": body["n"] * 3}


def by_size(body: dict[str, Any]) -> Any:
    """As many results as the number says: none, one as it is, several in a list."""
    n = body["n"]
    if n == 0:
        return None
    return {"of": n} if n == 1 else [{"of": n, "i": i} for i in range(n)]


def whole(record: Record) -> dict[str, Any]:
    return {"id": record.id, "topic": record.topic, "who": record.headers.get("who")}


async def later(body: dict[str, Any]) -> dict[str, Any]:
    """The first is the last to be ready."""
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


def texts(batch: pa.RecordBatch) -> Any:
    """A batch with bodies of JSON text; what is bad makes all of it fail."""
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
