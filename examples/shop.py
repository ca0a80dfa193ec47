"""Stacked bars as an SVG file."""

from collections import Counter
from pathlib import Path

WIDTH, HEIGHT, MARGIN = 640, 320, 40


def draw(path: Path, title: str, colours: dict[str, str], sums: Counter[tuple[int, str]]) -> None:
    """A bar for each hour, in it a part for each item."""
    hours = sorted({hour for hour, _ in sums})
    highest = max(sum(sums[hour, item] for item in colours) for hour in hours)
    step, scale = (WIDTH - 2 * MARGIN) / len(hours), (HEIGHT - 2 * MARGIN) / highest
    parts = [f'<text x="{MARGIN}" y="24" font-weight="bold">{title}</text>']
    for place, hour in enumerate(hours):
        left, bottom = MARGIN + place * step, HEIGHT - MARGIN
        parts.append(f'<text x="{left + step / 2}" y="{bottom + 18}">{hour}</text>')
        for item, colour in colours.items():
            height = sums[hour, item] * scale
            bottom -= height
            box = f'x="{left}" y="{bottom:.1f}" width="{step - 4:.1f}" height="{height:.1f}"'
            parts.append(f'<rect {box} fill="{colour}"><title>{item}</title></rect>')
    for place, (item, colour) in enumerate(colours.items()):
        parts.append(f'<text x="{WIDTH - 200 + place * 60}" y="24" fill="{colour}">{item}</text>')
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
    style = 'font-family="sans-serif" font-size="12">'
    path.write_text("\n".join([head + style, *parts, "</svg>\n"]), "utf-8")
