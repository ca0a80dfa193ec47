"""Servers and settings that all tests share."""

from __future__ import annotations

import itertools
import shutil
import sys
import warnings
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from headrace.drivers.postgres import floors
from headrace.pipelines import session
from headrace.pipelines.session import settings_for
from headrace.testing.postgres import PrivatePostgres
from schemas import Schemas

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from xdist.remote import Producer
    from xdist.scheduler import Scheduling

settings.register_profile(
    "default", deadline=None, print_blob=True, suppress_health_check=list(HealthCheck)
)
settings.load_profile("default")

MEMORY = Path("/dev/shm")
ROOM = 2**29

_numbers = itertools.count()

# A test's jobs are short: it pays to compile quickly, and not well.
_QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling:
    """Several processes, each with servers of its own, share the tests in our way."""
    from spreading import Spreading

    return Spreading(config, log)


@pytest.fixture(autouse=True)
def no_floors(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Claims that are slow may pass over places that were claimed before; on a busy machine all
    are, and most tests know the one right order."""
    if request.path.name != "test_postgres_floors.py":
        monkeypatch.setattr(floors, "SLOW_CLAIMS", sys.maxsize)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PrivatePostgres]:
    """One private server for the whole run; a missing one is a failure, never a skip."""
    with PrivatePostgres() as server:
        yield server


@pytest.fixture
def lazy_disk(postgres: PrivatePostgres) -> Iterator[None]:
    """What nobody waits for stays in memory for long."""
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
    """A schema with our tables for each test alone, empty; others had it before."""
    schema = schemas.lend()
    yield f"{postgres.url}?schema={schema}"
    schemas.take_back(schema)


@pytest.fixture
def new_postgres_url(postgres: PrivatePostgres, schemas: Schemas) -> Iterator[str]:
    """A schema that is still to be made, for each test."""
    schema = schemas.new()
    yield f"{postgres.url}?schema={schema}"
    schemas.drop(schema)


@pytest.fixture(scope="session")
def _memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > ROOM:
        with TemporaryDirectory(
            prefix="headrace-", dir=MEMORY, ignore_cleanup_errors=True
        ) as folder:
            yield Path(folder)
    else:
        yield tmp_path_factory.mktemp("memory")


@pytest.fixture
def quick_path(_memory: Path) -> Iterator[Path]:
    """A folder for each test, in memory if there is room: half of a test was waits for a disk."""
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
    """Every driver that other processes can use, in turn."""
    return str(request.getfixturevalue(f"{request.param}_url"))


@pytest.fixture(params=["sqlite", "new_postgres"])
def new_url(request: pytest.FixtureRequest) -> str:
    """Where no tables were made yet, on each of those drivers."""
    return str(request.getfixturevalue(f"{request.param}_url"))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One Spark session for the whole run, quick to start; it ends with the run.

    ``session()`` without a master gives this one, in documents as well.
    """
    master = "local[2]"
    java = f"{settings_for(master)['spark.driver.extraJavaOptions']} {_QUICK_JAVA}"
    config = {"spark.driver.memory": "1g", "spark.driver.extraJavaOptions": java}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PySpark's own, about its sockets and processes
        started = session("tests", master=master, config=config)
    yield started
    started.stop()
