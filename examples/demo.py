"""A shop's day in one SQLite file: orders become invoices, invoices become hourly reports.

Run it with ``make demo``. It needs no server, and leaves a chart behind: demo.svg.
"""

import random
import tempfile
import time
from collections import Counter
from pathlib import Path
from queue import Queue

from bars import draw
from pyspark.sql import SparkSession, functions
from pyspark.sql.streaming import StreamingQuery

import headrace
from headrace.pipelines import session

ORDERS, OPENING, HOURS = 60_000, 1_800_000_000, 12
PRICES = {"chair": 120, "desk": 480, "lamp": 39}
COLOURS = {"chair": "#e07a5f", "desk": "#3d405b", "lamp": "#e9b44c"}


def order(number: int) -> dict[str, object]:
    at = OPENING + HOURS * 3600 * number / ORDERS
    return {"at": at, "item": random.choice([*PRICES]), "count": random.randint(1, 5)}


def invoice(placed: dict) -> dict:
    """The record pipeline: a plain function of an order."""
    return {**placed, "eur": PRICES[placed["item"]] * placed["count"]}


def report(spark: SparkSession, url: str, folder: str) -> StreamingQuery:
    """The windowed aggregate: what was sold in each hour, from a topic into a queue."""
    invoices = spark.readStream.format("headrace").schema("at double, item string, eur long")
    return (
        invoices.options(url=url, topic="invoices", proc="report")
        .load()
        .selectExpr("timestamp_seconds(at) as at", "item", "eur")
        .groupBy("item", functions.window("at", "1 hour"))
        .agg(functions.sum("eur").alias("eur"))
        .selectExpr("concat(item, window.start) subject", "item", "hour(window.start) hour", "eur")
        .writeStream.format("headrace")
        .options(url=url, queue="reports", mode="upsert", sink="report")
        .option("checkpointLocation", f"{folder}/checkpoint")
        .outputMode("complete")
        .trigger(availableNow=True)
        .start()
    )


def main(folder: str) -> None:
    url = f"sqlite:///{folder}/shop.db"
    with headrace.connect(url) as hr:
        print(f"1. connect   {hr}: topics, queues and procs in one file, no server")
        spark = session("demo")
        billing = hr.system_proc(
            "billing", source="orders", to="invoices", processor=invoice, count=20_000
        )
        hr.commit("orders", order(0))
        billing.run_once()
        print(
            f"2. spark     {spark.version} on {spark.sparkContext.master}, the first order is through"
        )

        with billing.start():
            started = time.perf_counter()
            for first in range(1, ORDERS, 1000):
                hr.commit_many(
                    "orders", [order(n) for n in range(first, min(first + 1000, ORDERS))]
                )
            print(f"3. commit    {speed(started)} to the topic 'orders', each call safe on disk")
            hr.wait_for_procs(billing)
            print(f"4. pipeline  {speed(started)} on to the topic 'invoices', each exactly once")

        report(spark, url, folder).awaitTermination()
        waiting = hr.compute_stats("reports")[0].pending
        print(f"5. stream    summed up per hour and item: {waiting} reports in the queue 'reports'")

        handled: Queue[dict] = Queue()
        hr.register_worker("reports", lambda item: handled.put(item.payload))
        done = [handled.get(timeout=30) for _ in range(waiting)]
        sums = Counter({(row["hour"], row["item"]): row["eur"] for row in done})
        print(f"6. worker    handled all of them: {sums.total():,} EUR sold\n")

        billed = sum(bill.body["eur"] for bill in hr.iterate("invoices"))
        assert (hr.length("invoices"), billed) == (ORDERS, sums.total()), "lost or doubled"
        spark.stop()

    print("hour" + "".join(f"{item:>12}" for item in PRICES))
    for hour in sorted({hour for hour, _ in sums}):
        print(f"{hour:>4}" + "".join(f"{sums[hour, item]:>12,}" for item in PRICES))
    draw(Path("demo.svg"), "EUR per hour", COLOURS, sums)
    print("\nThe same as a chart: demo.svg")


def speed(started: float) -> str:
    return f"{ORDERS:,} records, {ORDERS / (time.perf_counter() - started):,.0f}/s,"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as shop:
        main(shop)
