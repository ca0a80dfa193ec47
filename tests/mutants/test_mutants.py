"""Whether the tests would notice: each mutant must make them fail."""

import multiprocessing
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

from mutants import MUTANTS, Mutant

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
PLUGINS = ("-p", "mutated", "-p", "no:cacheprovider", "-p", "no:randomly")
# Nobody reads why they fail: their asserts need not be rewritten to tell.
PLAINLY = ("--assert=plain", "--tb=short")
SECONDS = 600
# Every run begins as a copy of one process that has imported what all of them need.
FORKING = multiprocessing.get_context("forkserver")
FORKING.set_forkserver_preload(
    ["pytest", "hypothesis.stateful", "psycopg", "headrace.testing.contract"]
)
pytestmark = pytest.mark.timeout(2 * SECONDS)


class Verdict(NamedTuple):
    """How a run of tests ended."""

    code: int
    output: str

    @property
    def has_failures(self) -> bool:
        """Whether tests failed by themselves, rather than could not be run."""
        last = self.output.strip().splitlines()[-1]
        is_broken = re.search(r"\d+ error", last)
        return self.code == 1 and bool(re.search(r"\d+ failed", last)) and not is_broken


def _run_here(arguments: Sequence[str], environment: dict[str, str], output: Path) -> None:
    """Run tests in this process, which is theirs alone, and end it with their exit code."""
    with output.open("wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    os.chdir(ROOT)
    os.environ.update(environment)
    sys.path[:0] = [str(HERE)]
    code = int(pytest.main(list(arguments)))
    sys.stdout.flush()
    os._exit(code)  # Threads and servers are the parent's business; there are none here.


def run(url: str, places: set[str], words: str, *, mutant: str, examples: str) -> Verdict:
    """Run tests in a process of their own, mutated or not."""
    environment = {
        "HEADRACE_MUTANT": mutant,
        "HEADRACE_POSTGRES": url,
        "HEADRACE_EXAMPLES": examples,
    }
    arguments = (*sorted(places), "-k", words, "-x", "-q", *PLUGINS, *PLAINLY)
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "output"
        process = FORKING.Process(target=_run_here, args=(arguments, environment, output))
        process.start()
        process.join(SECONDS)
        if process.exitcode is None:
            process.kill()
            process.join()
        return Verdict(process.exitcode or 0, output.read_text())


def run_mutant(url: str, mutant: Mutant) -> Verdict:
    place, words = mutant.tests
    return run(url, {place}, words, mutant=mutant.name, examples="3")


def run_without(url: str, mutants: Sequence[Mutant]) -> Verdict:
    """The tests of all these mutants together, with none of them made."""
    places = {mutant.tests[0] for mutant in mutants}
    words = {
        # The name of a file is a word as well; a folder's is not.
        f"({Path(place).name} and {words})" if place.endswith(".py") else f"({words})"
        for place, words in (mutant.tests for mutant in mutants)
    }
    return run(url, places, " or ".join(sorted(words)), mutant="", examples="0.2")


@pytest.fixture(scope="module")
def verdicts(request, postgres) -> Iterator[dict[str, Future[Verdict]]]:
    """The runs that are asked for, begun at once: as many at a time as there are processors."""
    wanted = [item for item in request.session.items if item.path == Path(__file__)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        runs = {}
        for item in wanted:
            if hasattr(item, "callspec"):
                mutant = item.callspec.params["mutant"]
                runs[mutant.name] = pool.submit(run_mutant, postgres.url, mutant)
            else:
                runs[""] = pool.submit(run_without, postgres.url, MUTANTS)
        yield runs


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_is_noticed(mutant: Mutant, verdicts):
    """The tests that are meant for this mistake fail when it is made."""
    verdict = verdicts[mutant.name].result(SECONDS)
    assert verdict.has_failures, f"exit {verdict.code}\n{verdict.output[-3000:]}"


def test_the_same_tests_pass_without_a_mutant(verdicts):
    """What the mutants' tests notice is the mutant."""
    verdict = verdicts[""].result(SECONDS)
    assert verdict.code == 0, verdict.output[-3000:]
