"""Servers and settings that all tests share."""

from __future__ import annotations

import itertools
import shutil
import signal
import sys
import warnings
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING
from zlib import crc32

import pytest
from hypothesis import HealthCheck, settings

from headrace.drivers.postgres.fastpath import scan_floor
from headrace.pipelines import session
from headrace.pipelines.spark_session import settings_for
from headrace.testing.postgres import PrivatePostgres
from schemas import Schemas
from served_node import ServedNode

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from xdist.remote import Producer
    from xdist.scheduler import Scheduling

# `make test` tries the same examples in every run, `make test-all` and soaks new ones.
settings.register_profile(
    "explore", deadline=None, print_blob=True, suppress_health_check=list(HealthCheck)
)
settings.register_profile("repeat", parent=settings.get_profile("explore"), derandomize=True)
settings.load_profile("repeat")

MEMORY = Path("/dev/shm")
MIN_FREE_BYTES = 2**29

_numbers = itertools.count()

# A run in the background may ignore it, and so would all programs that tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A test's jobs are short: compile quickly, not well.
_QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling:
    """Several processes, each with its own servers, share the tests by our schedule."""
    from xdist_schedule import LongestFirst

    return LongestFirst(config, log)


@pytest.fixture(autouse=True, scope="session")
def runtime_folder() -> Iterator[None]:
    """Nodes of this run have namespaces of their own, in a short path: it has to fit a socket."""
    with (
        TemporaryDirectory(prefix="headrace-run-") as folder,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("HEADRACE_RUNTIME_DIR", folder)
        yield


# Folders in which claims on PostgreSQL start at the scan floor in every second test.
FLOORED = ("contract", "state", "interleaving")
ABOUT_ORDER = frozenset(
    {
        # Claims from the floor find it after up to two seconds, on a clock that the test does not move.
        "test_an_expired_item_does_not_wait_for_the_backlog",
        # Compares the claims of several clients, each of which has its own floors.
        "test_work_goes_by_the_settings_before_or_after_their_change",
    }
)
"""Tests in which what returns to an old place comes first, without delay."""


@pytest.fixture(autouse=True)
def scan_floors(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slow claims may skip positions that were claimed before, for a second, so that an item which
    returns to one of them waits. On a busy machine all claims are slow, so tests do not leave this
    to the machine. In tests of behaviour the seed of the run decides: floors whenever they are
    allowed, or none. Elsewhere, and without a seed, there are none."""
    if request.path.name == "test_postgres_floors.py":
        return
    monkeypatch.setattr(scan_floor, "SLOW_CLAIMS", sys.maxsize)
    if request.path.parent.name in FLOORED and request.node.originalname not in ABOUT_ORDER:
        seed = request.config.getoption("randomly_seed", None)
        if seed is not None and crc32(f"{seed} {request.node.nodeid}".encode()) % 2:
            monkeypatch.setattr(scan_floor, "SLOW_CLAIMS", 0)
            monkeypatch.setattr(scan_floor, "GAIN", 0.0)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PrivatePostgres]:
    """One private server for the whole run. A missing one is a failure, never a skip."""
    with PrivatePostgres() as server:
        yield server


@pytest.fixture
def slow_wal_writer(postgres: PrivatePostgres) -> Iterator[None]:
    """A commit that does not wait for its flush stays in memory for long."""
    postgres.execute("alter system set wal_writer_delay = '10s'")
    postgres.execute("select pg_reload_conf()")
    yield
    postgres.execute("alter system reset wal_writer_delay")
    postgres.execute("select pg_reload_conf()")


@pytest.fixture(scope="session")
def schemas(postgres: PrivatePostgres) -> Iterator[Schemas]:
    """The schemas of that server."""
    with closing(Schemas(postgres)) as schemas:
        yield schemas


@pytest.fixture
def postgres_url(postgres: PrivatePostgres, schemas: Schemas) -> Iterator[str]:
    """An empty schema with our tables for each test. Earlier tests may have used it."""
    schema = schemas.lend()
    yield f"{postgres.url}?schema={schema}"
    schemas.release(schema)


@pytest.fixture
def new_postgres_url(postgres: PrivatePostgres, schemas: Schemas) -> Iterator[str]:
    """A schema that does not exist yet, for each test."""
    schema = schemas.new()
    yield f"{postgres.url}?schema={schema}"
    schemas.drop(schema)


@pytest.fixture(scope="session")
def _memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > MIN_FREE_BYTES:
        with TemporaryDirectory(
            prefix="headrace-", dir=MEMORY, ignore_cleanup_errors=True
        ) as folder:
            yield Path(folder)
    else:
        yield tmp_path_factory.mktemp("memory")


@pytest.fixture
def quick_path(_memory: Path) -> Iterator[Path]:
    """A folder for each test, in memory if there is space: half of a test was waiting for
    flushes."""
    with TemporaryDirectory(dir=_memory, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@pytest.fixture
def sqlite_url(quick_path: Path) -> str:
    """A file of its own for each test."""
    return f"sqlite:///{quick_path}/flow.db"


@pytest.fixture
def memory_url() -> str:
    """A named store, so that several clients of one test can share it."""
    return f"memory://t{next(_numbers)}"


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def store_url(request: pytest.FixtureRequest) -> str:
    """Every driver in turn."""
    return str(request.getfixturevalue(f"{request.param}_url"))


@pytest.fixture(params=["sqlite", "postgres"])
def durable_url(request: pytest.FixtureRequest) -> str:
    """Every driver that several processes can share, in turn."""
    return str(request.getfixturevalue(f"{request.param}_url"))


@pytest.fixture(params=["sqlite", "new_postgres"])
def new_url(request: pytest.FixtureRequest) -> str:
    """A store without tables, on each of those drivers."""
    return str(request.getfixturevalue(f"{request.param}_url"))


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedNode]:
    """One node for the whole run. Each test gives it a store to serve."""
    with closing(ServedNode(tmp_path_factory.mktemp("node"))) as served:
        yield served


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One Spark session for the whole run, quick to start. It ends with the run.

    ``session()`` without a master returns this one, in documents as well.
    """
    master = "local[2]"
    java = f"{settings_for(master)['spark.driver.extraJavaOptions']} {_QUICK_JAVA}"
    config = {"spark.driver.memory": "1g", "spark.driver.extraJavaOptions": java}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PySpark's own, about its sockets and processes
        started = session("tests", master=master, config=config)
    yield started
    started.stop()
