"""What how-tos show outside of Python is right, too: projects, units, configuration, commands."""

import configparser
import json
import os
import selectors
import shlex
import shutil
import signal
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from documents import ROOT, Block, blocks, environment, run_shell, write_files

import headrace
from headrace.testing.pgbouncer import PrivatePgBouncer
from headrace.testing.postgres import PrivatePostgres, find_binaries

HOW_TOS = ROOT / "docs" / "howto"


def blocks_of(page: str, language: str) -> list[Block]:
    return [block for block in blocks(HOW_TOS / page) if block.language == language]


@pytest.fixture
def shop_url(postgres: PrivatePostgres) -> Iterator[str]:
    """An empty database of the name that the how-tos use."""

    def drop() -> None:
        for name in ("shop", "shop_restored"):
            postgres.execute(f"drop database if exists {name} with (force)")

    drop()
    postgres.execute("create database shop")
    yield f"postgresql://headrace@127.0.0.1:{postgres.port}/shop"
    drop()


DJANGO_ON_POSTGRES = """
DATABASES["default"] = {{
    "ENGINE": "django.db.backends.postgresql",
    "HOST": "127.0.0.1", "PORT": {port}, "USER": "headrace", "NAME": "shop",
}}
HEADRACE_URL = {url!r}
"""


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_the_django_project_runs(database, tmp_path, request):
    """Its tables are made, its session prints what the page shows, its worker runs the task."""
    code = blocks_of("django.md", "python")
    write_files(HOW_TOS / "django.md", tmp_path)
    url, options = "sqlite:///shop.db", ""
    if database == "postgresql":
        url = request.getfixturevalue("shop_url")
        port = request.getfixturevalue("postgres").port
        with (tmp_path / "shop" / "settings.py").open("a") as settings:
            settings.write(DJANGO_ON_POSTGRES.format(port=port, url=url))
        options = "-o IGNORE_EXCEPTION_DETAIL"  # one error words its next step for the database
    tables, worker = [block.text for block in blocks_of("django.md", "sh")]
    run_shell(tables.replace("sqlite:///shop.db", url), tmp_path)
    start = ">>> import django\n>>> django.setup()\n"
    session = [block.text for block in code if block.text.startswith(">>>")]
    (tmp_path / "session.txt").write_text("\n\n".join([start, *session]))
    run_shell(
        f"python -m doctest {options} session.txt",
        tmp_path,
        DJANGO_SETTINGS_MODULE="shop.settings",
    )
    assert first_line(worker, tmp_path) == "welcome, Ann"


def first_line(commands: str, folder: Path) -> str:
    """What a command prints first; it is stopped by a signal then, and must end well."""
    *others, last = commands.splitlines()
    with subprocess.Popen(
        ["bash", "-c", "\n".join([*others, f"exec {last}"])],
        cwd=folder,
        env=environment(folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            with selectors.DefaultSelector() as selector:
                selector.register(process.stdout, selectors.EVENT_READ)
                assert selector.select(timeout=120), "nothing was printed"
            line = process.stdout.readline()
            process.send_signal(signal.SIGTERM)
            _, errors = process.communicate(timeout=100)
        finally:
            process.kill()
    assert process.returncode == 0, errors
    return line.strip()


def test_the_first_example_of_the_readme_runs_word_for_word(tmp_path):
    readme = ROOT / "README.md"
    write_files(readme, tmp_path)
    [commands] = [
        block.text for block in blocks(readme) if "shop.py" in block.text and block.language == "sh"
    ]
    assert first_line(commands, tmp_path) == "welcome, Ann"


def test_the_task_of_the_quickstart_runs_word_for_word(tmp_path):
    page = ROOT / "docs" / "quickstart.md"
    write_files(page, tmp_path)
    first = next(block for block in blocks(page) if block.text.startswith(">>>"))
    (tmp_path / "session.txt").write_text(first.text)
    run_shell("python -m doctest session.txt", tmp_path)
    worker = next(block for block in blocks(page) if block.text.startswith("headrace worker"))
    assert first_line(worker.text, tmp_path) == "welcome, Ann de"


@pytest.mark.parametrize("option", ["", "--schema=headrace "])
def test_a_dump_of_postgresql_restores(option, shop_url, postgres, tmp_path):
    with headrace.connect(shop_url) as hr:
        hr.push("mail", {"to": "ann"})
        hr.commit("orders", {"item": "lamp"})
    [commands] = [block.text for block in blocks_of("backup.md", "sh") if "pg_dump" in block.text]
    run_shell(
        commands.replace("pg_dump ", f"pg_dump {option}"),
        tmp_path,
        PATH=f"{find_binaries()}:{os.environ['PATH']}",
        PGHOST="127.0.0.1",
        PGPORT=str(postgres.port),
        PGUSER="headrace",
    )
    with headrace.connect(f"{shop_url}_restored") as restored:
        assert [item.payload for item in restored.queue("mail").claim()] == [{"to": "ann"}]
        assert restored.procs.create("billing", "orders").claim()[0].body == {"item": "lamp"}
        verdicts = {finding.check: finding.verdict for finding in restored.admin.diagnose()}
        assert (verdicts["schema"], verdicts["functions"]) == ("ok", "ok")


def test_a_pooler_runs_with_the_configuration_of_the_page(postgres, shop_url):
    [block] = blocks_of("pgbouncer.md", "ini")
    assert "host=db dbname=shop" in block.text
    server = f"host=127.0.0.1 port={postgres.port} user=headrace dbname="
    pooler = PrivatePgBouncer(postgres)
    (pooler.folder / "pgbouncer.ini").write_text(
        block.text.replace("host=db dbname=shop", f"{server}shop\npostgres = {server}postgres")
        + f"listen_addr = 127.0.0.1\nlisten_port = {pooler.port}\nunix_socket_dir =\n"
        f"auth_type = any\nauth_file = {pooler.folder / 'users'}\n"
    )
    with pooler, headrace.connect(pooler.url.replace("/postgres", "/shop")) as hr:
        hr.push("mail", {"to": "ann"})
        [item] = hr.queue("mail").claim(wait=60)
        item.complete()
        [pooling] = [finding for finding in hr.admin.diagnose() if finding.check == "pooling"]
        assert "pooler" in str(pooling)


def unit() -> configparser.ConfigParser:
    [block] = blocks_of("deployment.md", "ini")
    parser = configparser.ConfigParser(interpolation=None)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read_string(block.text)
    return parser


def grace_of(command: list[str]) -> float:
    """The seconds that a worker gives its handlers."""
    return float(command[command.index("--grace") + 1])


def test_supervisors_wait_longer_than_workers():
    service = unit()["Service"]
    assert float(service["TimeoutStopSec"]) > grace_of(shlex.split(service["ExecStart"]))
    [dockerfile] = blocks_of("deployment.md", "dockerfile")
    [compose] = blocks_of("deployment.md", "yaml")
    [command] = [line[4:] for line in dockerfile.text.splitlines() if line.startswith("CMD ")]
    grace = grace_of(json.loads(command))
    [worker] = yaml.safe_load(compose.text)["services"].values()
    assert float(worker["stop_grace_period"].removesuffix("s")) > grace


def test_the_image_has_a_python_and_extras_that_exist():
    [block] = blocks_of("deployment.md", "dockerfile")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    [tag] = [line.partition(":")[2] for line in block.text.splitlines() if line.startswith("FROM ")]
    newest, needed = tag.removesuffix("-slim"), project["requires-python"].removeprefix(">=")
    assert tuple(map(int, newest.split("."))) >= tuple(map(int, needed.split(".")))
    extras = block.text.partition("[")[2].partition("]")[0].split(",")
    assert set(extras) <= set(project["optional-dependencies"])


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="there is no systemd here")
def test_systemd_accepts_the_unit(tmp_path):
    [block] = blocks_of("deployment.md", "ini")
    assert block.file == "/etc/systemd/system/shop-worker@.service"
    text = block.text.replace("/srv/shop/venv/bin/headrace", shutil.which("true") or "")
    unit_file = tmp_path / Path(block.file).name
    unit_file.write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", unit_file],
        capture_output=True,
        text=True,
        check=False,
    )
    # It also reports what is wrong with units of this machine.
    assert done.returncode == 0, done.stderr
    assert unit_file.name not in done.stderr
