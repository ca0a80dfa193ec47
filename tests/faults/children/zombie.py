"""Claims an item, waits for a word, and settles it, however late that is."""

import json
import sys
from pathlib import Path
from typing import Any

import headrace
from faults.children import consumer
from faults.waiting import until
from headrace.contract.items import Outcome, PushCall
from headrace.model.items import Document
from headrace.testing.ledger import Ledger
from headrace.testing.queue_ledger import place_of


def main(url: str, ledger: str, name: str, queue: str, word: str, kind: Any) -> None:
    with Ledger(Path(ledger)) as book, headrace.connect(url) as hr:
        store: Any = hr._store
        [item] = consumer.claim(store, queue, 1)
        token = item.token or ""
        book.intend(name, token=token, kind=kind, items=[place_of(item)])
        until(Path(word).exists, "a word")
        more = PushCall(queue=f"{queue}-more", documents=(Document(payload="1"),))
        said = Outcome(item=item.id, token=token, kind=kind, pushes=(more,))
        [settled] = store.run(store.settle(queue, [said]))
        extended = store.run(store.extend_items(queue, token, [item.id], 60_000))
        book.outcome(name, states=[settled.state], extended=extended)


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
