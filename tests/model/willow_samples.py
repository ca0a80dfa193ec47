"""The samples of Willow's own tests, in the short form of its authors, and values to draw."""

from hypothesis import strategies as st

from headrace.model.query.key_values import KeyValues
from headrace.model.query.typed_values import ANY, Type, Value

# 1I is key "1" with int 1, 1S with string "1", 1A with any.
ROWS = [
    "1I",
    "2I",
    "3I",
    "1S",
    "2S",
    "3S",
    "1A",
    "2A",
    "3A",
    "1I2I",
    "1I2S",
    "1I2A",
    "1I3I",
    "1I3S",
    "1I3A",
    "1S2I",
    "1S2S",
    "1S2A",
    "1S3I",
    "1S3S",
    "1S3A",
    "1A2I",
    "1A2S",
    "1A2A",
    "1A3I",
    "1A3S",
    "1A3A",
    "2I3I",
    "2I3S",
    "2I3A",
    "2S3I",
    "2S3S",
    "2S3A",
    "2A3I",
    "2A3S",
    "2A3A",
    "1I2I3I",
    "1S2S3S",
    "1A2A3A",
]


def row(text: str) -> KeyValues:
    pairs = {}
    for key, kind in zip(text[::2], text[1::2], strict=True):
        pairs[key] = {"I": int(key), "S": key, "A": ANY}[kind]
    return KeyValues.of(pairs, allow_any=True)


STORED = [row(text) for text in ROWS]


def numbers(text: str) -> set[int]:
    """``0 6 9-14`` as numbers of rows."""
    found: set[int] = set()
    for word in text.split():
        first, _, last = word.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return found


BITS = {"8": 8, "16": 16, "32": 32, "64": 64, "": 64}


def whole(kind: Type) -> st.SearchStrategy[int]:
    bits = BITS[kind.word.lstrip("uint")]
    low, high = (
        (0, 2**bits - 1) if kind.word.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    )
    return st.integers(low, high) | st.integers(max(low, -2), 3) | st.sampled_from([low, high])


TEXT = st.text(max_size=6) | st.sampled_from(["", "a", "b", "linux", "1", "ä", "\0", "𝄞"])


def data_of(kind: Type) -> st.SearchStrategy:
    if kind == Type.ANY:
        return st.just("")
    if kind == Type.STRING:
        return TEXT
    if kind == Type.FLOAT32:
        return st.floats(width=32, allow_nan=False) | st.sampled_from([0.0, -0.0, 1.0])
    if kind == Type.FLOAT64:
        return st.floats(allow_nan=False) | st.sampled_from([0.0, -0.0, 1.0])
    return whole(kind)


def values(*kinds: Type) -> st.SearchStrategy[Value]:
    return st.sampled_from(kinds or tuple(Type)).flatmap(
        lambda kind: st.builds(Value, st.just(kind), data_of(kind))
    )


TYPED = tuple(kind for kind in Type if kind != Type.ANY)
KEYS = st.text(min_size=1, max_size=4).filter(lambda key: not key.startswith("_"))
