"""What the demo's shop sells, and how its day is shown: nothing of this is Headrace."""

import random
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

ORDERS, OPENING, HOURS = 60_000, datetime(2027, 1, 15, 8, tzinfo=UTC), 12
PRICES = {"chair": 120, "desk": 480, "lamp": 39}
COLOURS = {"chair": "#e07a5f", "desk": "#3d405b", "lamp": "#e9b44c"}
WIDTH, HEIGHT, MARGIN = 640, 320, 40


def orders(first: int, last: int) -> list[dict]:
    """The orders of a day, from one number to before another."""
    return [
        {
            "at": (OPENING + timedelta(hours=HOURS) * number / ORDERS).isoformat(),
            "item": random.choice([*PRICES]),
            "count": random.randint(1, 5),
        }
        for number in range(first, min(last, ORDERS))
    ]


def speed(started: float) -> str:
    """How fast all orders got here."""
    return f"{ORDERS:,} records, {ORDERS / (time.perf_counter() - started):,.0f}/s,"


def show(sums: Counter[tuple[int, str]]) -> None:
    """EUR by hour and item: as a table here, and as a chart in demo.svg."""
    print("\nhour" + "".join(f"{item:>12}" for item in PRICES))
    for hour in sorted({hour for hour, _ in sums}):
        print(f"{hour:>4}" + "".join(f"{sums[hour, item]:>12,}" for item in PRICES))
    draw(Path("demo.svg"), "EUR per hour", sums)
    print("\nThe same as a chart: demo.svg")


def draw(path: Path, title: str, sums: Counter[tuple[int, str]]) -> None:
    """A bar for each hour, in it a part for each item."""
    hours = sorted({hour for hour, _ in sums})
    highest = max(sum(sums[hour, item] for item in COLOURS) for hour in hours)
    step, scale = (WIDTH - 2 * MARGIN) / len(hours), (HEIGHT - 2 * MARGIN) / highest
    parts = [f'<text x="{MARGIN}" y="24" font-weight="bold">{title}</text>']
    for place, hour in enumerate(hours):
        left, bottom = MARGIN + place * step, HEIGHT - MARGIN
        parts.append(f'<text x="{left + step / 2}" y="{bottom + 18}">{hour}</text>')
        for item, colour in COLOURS.items():
            height = sums[hour, item] * scale
            bottom -= height
            box = f'x="{left}" y="{bottom:.1f}" width="{step - 4:.1f}" height="{height:.1f}"'
            parts.append(f'<rect {box} fill="{colour}"><title>{item}</title></rect>')
    for place, (item, colour) in enumerate(COLOURS.items()):
        parts.append(f'<text x="{WIDTH - 200 + place * 60}" y="24" fill="{colour}">{item}</text>')
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
    style = 'font-family="sans-serif" font-size="12">'
    path.write_text("\n".join([head + style, *parts, "</svg>\n"]), "utf-8")
