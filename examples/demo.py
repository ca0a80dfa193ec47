"""A shop's day in one SQLite file: orders become invoices, invoices become hourly reports.

Run it with ``make demo``. It needs no server, and leaves a chart behind: demo.svg.
"""

import tempfile
import time
from collections import Counter
from queue import Queue

from pyspark.sql import functions as f
from shop import ORDERS, PRICES, orders, show, speed

import headrace
from headrace.pipelines import session


def invoice(order: dict) -> dict:
    """The record pipeline: a plain function, which Spark runs for each order."""
    return {**order, "eur": PRICES[order["item"]] * order["count"]}


with tempfile.TemporaryDirectory() as folder, headrace.connect(f"sqlite:///{folder}/shop.db") as hr:
    print(f"1. connect   {hr}: topics, queues and procs in one file, no server")
    spark = session("demo")
    billing = hr.pipelines.create(
        "billing", source="orders", to="invoices", processor=invoice, count=20_000
    )
    hr.commit_many("orders", orders(0, 1))
    billing.run_once()
    print(f"2. spark     {spark.version}, on this machine; the first order is through")

    with billing.start():
        started = time.perf_counter()
        for number in range(1, ORDERS, 1000):
            hr.commit_many("orders", orders(number, number + 1000))
        print(f"3. commit    {speed(started)} to the topic 'orders', each call safe on disk")
        hr.procs.wait_idle(billing)
        print(f"4. pipeline  {speed(started)} on to the topic 'invoices', each exactly once")

    # The windowed aggregate: what was sold in each hour, from a topic into a queue.
    source = {"url": f"sqlite:///{folder}/shop.db", "topic": "invoices", "proc": "report"}
    target = {"url": source["url"], "queue": "reports", "mode": "upsert", "sink": "report"}
    invoices = spark.readStream.format("headrace").schema("at timestamp, item string, eur long")
    hours = invoices.options(**source).load().groupBy("item", f.window("at", "1 hour"))
    reports = hours.agg(f.sum("eur").alias("eur")).selectExpr(
        "concat(item, window.start) AS subject", "item", "hour(window.start) AS hour", "eur"
    )
    stream = reports.writeStream.format("headrace").outputMode("complete").options(**target)
    stream = stream.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True)
    stream.start().awaitTermination()
    waiting = hr.queues.stats("reports", exact=True)[0].pending
    print(f"5. stream    summed up per hour and item: {waiting} reports in the queue 'reports'")

    handled: Queue[dict] = Queue()
    hr.start_worker("reports", lambda item: handled.put(item.payload))
    done = [handled.get(timeout=30) for _ in range(waiting)]
    sums = Counter({(row["hour"], row["item"]): row["eur"] for row in done})
    print(f"6. worker    handled all of them: {sums.total():,} EUR sold")

    billed = sum(bill.body["eur"] for bill in hr.iterate("invoices"))
    assert (hr.topic("invoices").length(), billed) == (ORDERS, sums.total()), "lost or doubled"
    spark.stop()
show(sums)
