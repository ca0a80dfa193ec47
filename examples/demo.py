"""Orders become invoices: a topic, a proc and another topic, all in one SQLite file.

Run it with ``make demo``. It cleans up after itself.
"""

import random
import tempfile
import time

import headrace

ORDERS = 20_000
PRICES = {"chair": 120, "desk": 480, "lamp": 39}


def order() -> dict[str, object]:
    return {"item": random.choice([*PRICES]), "count": random.randint(1, 5)}


def invoice(placed: headrace.Record) -> dict[str, object]:
    item, count = placed.body["item"], placed.body["count"]
    return {"order": placed.id, "item": item, "total": PRICES[item] * count}


def main(folder: str) -> None:
    with headrace.connect(f"sqlite:///{folder}/shop.db") as hr:
        print(f"1. connect     {hr}")

        started = time.perf_counter()
        for _ in range(ORDERS // 1000):
            hr.commit_many("orders", [order() for _ in range(1000)])
        speed = ORDERS / (time.perf_counter() - started)
        print(f"2. commit      {ORDERS} orders, 1000 at a time ({speed:,.0f} records/s)")

        billing = hr.proc("billing", topic="orders")
        print(f"3. proc        {billing}, {billing.lag().records} records behind")

        started, claims = time.perf_counter(), 0
        while claim := billing.claim(count=500):
            claim.ack_commit([("invoices", invoice(placed)) for placed in claim])
            claims += 1
        speed = ORDERS / (time.perf_counter() - started)
        print(f"4. ack_commit  {claims} claims of 500, invoices included ({speed:,.0f} records/s)")

        hr.wait_for_procs("billing", timeout=10)
        print(f"5. wait        billing has caught up, {billing.lag().records} records behind\n")

        print("topic     records  first id          last id")
        for topic in hr.topics():
            first_id = hr.range(topic.name, limit=1)[0].id
            print(f"{topic.name:<9}{topic.length:>8}  {first_id:<17} {topic.last_id}")

        totals = dict.fromkeys(PRICES, 0)
        for billed in hr.iterate("invoices"):
            totals[billed.body["item"]] += billed.body["total"]
        print("\ninvoiced: " + ", ".join(f"{item} {total:,}" for item, total in totals.items()))


with tempfile.TemporaryDirectory() as shop:
    main(shop)
