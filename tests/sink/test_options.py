"""Options of a write: what is missing or wrong is named."""

import pytest

from headrace.errors import InvalidOption, InvalidQueueName, InvalidTopicName
from headrace.pipelines.sink.options import sink_options

URL = {"url": "sqlite:///x.db"}


def test_a_batch_write_to_a_topic() -> None:
    options = sink_options({**URL, "topic": "t", "path": "x"}, is_stream=False)
    assert (options.topic, options.topic_column, options.queue) == ("t", "", "")


def test_without_a_target_the_column_topic_names_it() -> None:
    assert sink_options(URL, is_stream=False).topic_column == "topic"
    chosen = sink_options({**URL, "topic_column": "kind"}, is_stream=False)
    assert chosen.topic_column == "kind"


def test_a_stream_has_a_sink() -> None:
    given = {**URL, "queue": "q", "mode": "upsert", "sink": "s", "on_replay": "skip"}
    options = sink_options({**given, "checkpointLocation": "c"}, is_stream=True)
    assert (options.sink, options.mode, options.on_replay) == ("s", "upsert", "skip")
    with pytest.raises(InvalidOption, match="'sink' is missing"):
        sink_options({**URL, "topic": "t"}, is_stream=True)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "'url' is missing"),
        ({**URL, "topik": "t"}, "no option 'topik'"),
        ({**URL, "topic": "t", "sink": "s"}, "no option 'sink'"),
        ({**URL, "topic": "t", "queue": "q"}, "both 'topic' and 'queue'"),
        ({**URL, "topic_column": " "}, "topic_column is empty"),
        ({**URL, "topic": "t", "mode": "upsert"}, "'upsert' is for queues"),
        ({**URL, "queue": "q", "mode": "insert"}, "use push or upsert"),
        ({**URL, "topic": "t", "max_body": "1 MB"}, "max_body is '1 MB'"),
    ],
)
def test_a_wrong_option_is_named(given: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidOption, match=message):
        sink_options(given, is_stream=False)


def test_names_are_checked() -> None:
    with pytest.raises(InvalidTopicName):
        sink_options({**URL, "topic": "a b"}, is_stream=False)
    with pytest.raises(InvalidQueueName):
        sink_options({**URL, "queue": "a/b"}, is_stream=False)
    with pytest.raises(InvalidOption, match="cannot name a sink"):
        sink_options({**URL, "topic": "t", "sink": "a b"}, is_stream=True)
    with pytest.raises(InvalidOption, match="on_replay is 'x'"):
        sink_options({**URL, "topic": "t", "sink": "s", "on_replay": "x"}, is_stream=True)
