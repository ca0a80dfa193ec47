"""A folder for namespaces of its own for each test. A test may be a coroutine."""

import asyncio
import inspect
from pathlib import Path

import pytest
from document_fixtures import served_examples  # noqa: F401  # a fixture

from certificates import write_certificate


@pytest.fixture(autouse=True)
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Nodes of tests meet neither each other nor those of the machine."""
    folder = tmp_path / "run"
    monkeypatch.setenv("HEADRACE_RUNTIME_DIR", str(folder))
    return folder


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a coroutine on an event loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for 127.0.0.1 that signs itself, one for a client, and one of another client."""
    folder = tmp_path_factory.mktemp("tls")
    for name in ("node", "client", "stranger"):
        write_certificate(folder, name)
    return folder
