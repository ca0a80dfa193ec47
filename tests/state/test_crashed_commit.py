"""A commit to several topics that crashes, at every point it has."""

import headrace
from headrace.testing.faults import crashing

TOPICS = ("left", "right")
POINTS = (*range(1, 10), "commit", "committed")


def test_a_commit_to_several_topics_is_whole_or_not_there(store_url):
    """Before it takes effect nothing of it is visible, in any of the topics."""
    with headrace.connect(store_url) as hr:
        hr.commit([(topic, {}) for topic in TOPICS])
        struck = []
        for point in POINTS:
            before = _lengths(hr)
            with crashing(hr, point) as crash:
                hr.commit([(topic, {}) for topic in TOPICS])
            is_there = crash.is_after_commit or not crash.has_struck
            assert _lengths(hr) == [length + is_there for length in before], point
            struck += [point] * crash.has_struck
        assert struck[-2:] == ["commit", "committed"]


def _lengths(hr: headrace.Headrace) -> list[int]:
    return [hr.topic(topic).length() for topic in TOPICS]
