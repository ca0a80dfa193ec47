"""What comes of calling a processor, whatever it raises or returns."""

import pyarrow as pa
import pytest

import headrace
from headrace.errors import InvalidBody
from headrace.pipelines.arrow import encode_table


@pytest.mark.parametrize("name", ["body", "n"])
def test_a_table_with_two_columns_of_one_name_is_refused(name: str) -> None:
    """One of them would be lost."""
    table = pa.table([pa.array(["{}"]), pa.array(["{}"])], names=[name, name])
    with pytest.raises(InvalidBody, match=f"two columns {name!r}"):
        encode_table(table, max_body=100)


@pytest.mark.parametrize("result", [False, 0, "", 0.0, b""], ids=repr)
def test_only_none_and_an_empty_list_commit_nothing(result: object) -> None:
    """What is falsy otherwise is more often a mistake than a wish: the record fails."""
    with headrace.connect("memory://") as hr:
        hr.commit("in", {"n": 1})
        hr.pipelines.create(
            "p",
            source="in",
            to="out",
            processor=lambda body: result,
            max_attempts=1,
            on_exhausted="dead_letter",
        ).run_once(engine="inline")
        [letter] = hr.range("p-dead")
        assert "None for nothing" in letter.body["error"]
        for nothing in (None, []):
            hr.commit("in", {"n": 2})
            hr.pipelines.create(
                "p", source="in", to="out", processor=lambda body, nothing=nothing: nothing
            ).run_once(engine="inline")
        assert [topic.name for topic in hr.topics.list()] == ["in", "p-dead"]
