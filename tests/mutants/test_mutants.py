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
# The reasons of failures are not read, so asserts need not be rewritten.
PLAINLY = ("--assert=plain", "--tb=short")
SECONDS = 600
# As many in parallel as there are processors for this process, one of several that run tests.
AT_A_TIME = max(1, (os.cpu_count() or 1) // int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))
# Every run starts as a fork of one process that has imported what all of them need.
FORKING = multiprocessing.get_context("forkserver")
FORKING.set_forkserver_preload(
    ["pytest", "hypothesis.stateful", "psycopg", "headrace.testing.contract"]
)
pytestmark = pytest.mark.timeout(2 * SECONDS)


class Verdict(NamedTuple):
    """How a run of tests ended."""

    code: int
    output: str
    failed: list[str]
    """The tests that did."""

    @property
    def has_failures(self) -> bool:
        """Whether tests failed, as opposed to could not run."""
        last = self.output.strip().splitlines()[-1]
        is_broken = re.search(r"\d+ error", last)
        return self.code == 1 and bool(re.search(r"\d+ failed", last)) and not is_broken


def _run_here(arguments: Sequence[str], environment: dict[str, str], output: Path) -> None:
    """Run tests in this process, which is used for nothing else, and exit with their exit code."""
    with output.open("wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    os.chdir(ROOT)
    os.environ.update(environment)
    sys.path[:0] = [str(HERE)]
    code = int(pytest.main(list(arguments)))
    sys.stdout.flush()
    os._exit(code)  # Threads and servers are the parent's business; there are none here.


def run(url: str, *tests: str, mutant: str, examples: str) -> Verdict:
    """Run tests in a process of their own, mutated or not."""
    arguments = (*tests, "-x", "-q", *PLUGINS, *PLAINLY)
    with tempfile.TemporaryDirectory() as folder:
        output, failed = Path(folder) / "output", Path(folder) / "failed"
        failed.touch()
        environment = {
            "HEADRACE_MUTANT": mutant,
            "HEADRACE_POSTGRES": url,
            "HEADRACE_EXAMPLES": examples,
            "HEADRACE_FAILED": str(failed),
        }
        process = FORKING.Process(target=_run_here, args=(arguments, environment, output))
        process.start()
        process.join(SECONDS)
        if process.exitcode is None:
            process.kill()
            process.join()
        return Verdict(process.exitcode or 0, output.read_text(), failed.read_text().splitlines())


def run_mutant(url: str, mutant: Mutant) -> Verdict:
    place, words = mutant.tests
    return run(url, place, "-k", words, mutant=mutant.name, examples="3")


@pytest.fixture(scope="module")
def verdicts(request, postgres) -> Iterator[dict[str, Future[Verdict]]]:
    """The requested runs, started immediately. All of them, if only the last test is requested."""
    here = [item for item in request.session.items if item.path == Path(__file__)]
    wanted = [item.callspec.params["mutant"] for item in here if hasattr(item, "callspec")]
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        yield {
            mutant.name: pool.submit(run_mutant, postgres.url, mutant)
            for mutant in wanted or MUTANTS
        }


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_is_noticed(mutant: Mutant, verdicts):
    """The tests for this mistake fail when it is made."""
    verdict = verdicts[mutant.name].result(SECONDS)
    assert verdict.has_failures, f"exit {verdict.code}\n{verdict.output[-3000:]}"


def test_the_same_tests_pass_without_a_mutant(verdicts, postgres):
    """The tests that noticed mutants pass without one."""
    noticed = {test for future in verdicts.values() for test in future.result(SECONDS).failed}
    assert noticed
    verdict = run(postgres.url, *sorted(noticed), mutant="", examples="0.2")
    assert verdict.code == 0, verdict.output[-3000:]
