"""Settings: which source wins, what is unset, and what is refused."""

from pathlib import Path
from typing import Any

import pytest

import headrace
from headrace import settings
from headrace.errors import InvalidSetting, InvalidUrl
from headrace.model.url import masked

NO_ENVIRONMENT: dict[str, str] = {}


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_nothing_set_is_all_defaults(tmp_path: Path) -> None:
    """And none of them is handed on, so that the URL's own options count."""
    found = settings.load(folder=tmp_path, environ=NO_ENVIRONMENT)
    assert {s.name: s.value for s in found.all} == {
        "url": None,
        "durability": "safe",
        "patience": 30.0,
        "max_body": 1024 * 1024,
        "migrate": "create",
    }
    assert all(s.origin is None for s in found.all)
    assert found.options() == {}
    with pytest.raises(
        InvalidSetting, match="no store is configured: give --url, set HEADRACE_URL"
    ):
        _ = found.url


def test_defaults_are_those_of_connect(tmp_path: Path) -> None:
    import inspect

    found = settings.load(folder=tmp_path, environ=NO_ENVIRONMENT)
    parameters = inspect.signature(headrace.connect).parameters
    for name in ("patience", "max_body", "migrate"):
        assert found[name].value == parameters[name].default


def test_arguments_beat_the_environment_beats_files(tmp_path: Path) -> None:
    """One setting at a time: what a higher source leaves out comes from below."""
    file = write(
        tmp_path / "headrace.toml",
        'url = "memory://file"\ndurability = "relaxed"\npatience = 5\nmax_body = 100\n',
    )
    environ = {"HEADRACE_URL": "memory://environment", "HEADRACE_PATIENCE": "7.5"}
    found = settings.load(folder=tmp_path, environ=environ, url="memory://argument")
    assert [(s.name, s.value, s.origin) for s in found.all] == [
        ("url", "memory://argument", "the argument url"),
        ("durability", "relaxed", str(file)),
        ("patience", 7.5, "HEADRACE_PATIENCE"),
        ("max_body", 100, str(file)),
        ("migrate", "create", None),
    ]
    assert found.options() == {"durability": "relaxed", "patience": 7.5, "max_body": 100}
    assert found.url == "memory://argument"


def test_a_value_that_equals_the_default_is_still_set(tmp_path: Path) -> None:
    """It overrides what the URL says; an unset one does not."""
    environ = {"HEADRACE_DURABILITY": "safe"}
    found = settings.load(folder=tmp_path, environ=environ)
    assert (found["durability"].value, found["durability"].origin) == (
        "safe",
        "HEADRACE_DURABILITY",
    )
    assert found.options() == {"durability": "safe"}


def test_an_empty_variable_and_a_none_are_not_set(tmp_path: Path) -> None:
    write(tmp_path / "headrace.toml", 'url = "memory://file"')
    found = settings.load(folder=tmp_path, environ={"HEADRACE_URL": ""}, url=None)
    assert found.url == "memory://file"


def test_the_real_environment_and_working_directory_are_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "headrace.toml", "patience = 3")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEADRACE_MAX_BODY", "4096")
    found = settings.load()
    assert (found["patience"].value, found["max_body"].value) == (3.0, 4096)


@pytest.mark.parametrize("marker", [".git", "pyproject.toml"])
def test_the_search_ends_at_the_root_of_the_project(tmp_path: Path, marker: str) -> None:
    """The first folder with ``.git`` or ``pyproject.toml``: what lies above belongs to others."""
    write(tmp_path / "headrace.toml", "patience = 1")
    root = tmp_path / "project"
    write(root / marker, "")
    folder = root / "a" / "b"
    folder.mkdir(parents=True)
    found = settings.load(folder=folder, environ=NO_ENVIRONMENT)
    assert (found["patience"].origin, found.file, found.root) == (None, None, str(root))
    file = write(root / "headrace.toml", "patience = 2")
    found = settings.load(folder=folder, environ=NO_ENVIRONMENT)
    assert (found["patience"].value, found.file, found.root) == (2.0, str(file), str(root))


def test_the_search_ends_at_the_home_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    monkeypatch.setenv("HOME", str(home))
    write(tmp_path / "headrace.toml", "patience = 1")
    folder = home / "a" / "b"
    folder.mkdir(parents=True)
    found = settings.load(folder=folder, environ=NO_ENVIRONMENT)
    assert (found["patience"].origin, found.root) == (None, str(home))
    write(home / "headrace.toml", "patience = 2")
    assert settings.load(folder=folder, environ=NO_ENVIRONMENT)["patience"].value == 2.0


def test_outside_of_any_project_only_the_folder_itself_counts(tmp_path: Path) -> None:
    """A file in a shared folder above is ignored."""
    write(tmp_path / "headrace.toml", "patience = 1")
    folder = tmp_path / "a"
    folder.mkdir()
    found = settings.load(folder=folder, environ=NO_ENVIRONMENT)
    assert (found["patience"].origin, found.root) == (None, None)
    found = settings.load(folder=tmp_path, environ=NO_ENVIRONMENT)
    assert (found["patience"].value, found.root) == (1.0, None)


def test_only_the_nearest_file_counts(tmp_path: Path) -> None:
    """A parent's file is not mixed in: all settings come from one place."""
    (tmp_path / ".git").mkdir()
    write(tmp_path / "headrace.toml", "patience = 1\nmax_body = 50")
    near = write(tmp_path / "a" / "headrace.toml", "patience = 2")
    folder = tmp_path / "a" / "b"
    folder.mkdir()
    found = settings.load(folder=folder, environ=NO_ENVIRONMENT)
    assert (found["patience"].value, found["patience"].origin) == (2.0, str(near))
    assert found["max_body"].origin is None


def test_pyproject_counts_if_it_has_our_table(tmp_path: Path) -> None:
    write(tmp_path / "headrace.toml", "patience = 1")
    write(tmp_path / "a" / "pyproject.toml", '[project]\nname = "theirs"\n')
    found = settings.load(folder=tmp_path / "a", environ=NO_ENVIRONMENT)
    assert found["patience"].origin is None
    write(tmp_path / "a" / "pyproject.toml", "[tool.headrace]\npatience = 2\n")
    found = settings.load(folder=tmp_path / "a", environ=NO_ENVIRONMENT)
    assert found["patience"].value == 2.0
    assert str(found["patience"].origin).endswith("pyproject.toml [tool.headrace]")


def test_headrace_toml_beats_pyproject_in_the_same_folder(tmp_path: Path) -> None:
    write(tmp_path / "headrace.toml", "patience = 1")
    write(tmp_path / "pyproject.toml", "[tool.headrace]\npatience = 2\n")
    assert settings.load(folder=tmp_path, environ=NO_ENVIRONMENT)["patience"].value == 1.0


def test_a_relative_file_in_a_file_means_the_same_everywhere(tmp_path: Path) -> None:
    """Relative to the settings file, not to the current folder."""
    project = tmp_path / "my project"
    write(project / ".git", "")
    write(project / "headrace.toml", 'url = "sqlite:///flow.db?prefix=mine_"')
    folder = project / "deep"
    folder.mkdir()
    found = settings.load(folder=folder, environ=NO_ENVIRONMENT)
    with headrace.connect(found.url) as hr:
        hr.commit("t", {})
    assert (project / "flow.db").exists()
    assert found.url.endswith("flow.db?prefix=mine_")


@pytest.mark.parametrize("url", ["sqlite:////var/flow.db", "memory://", "postgresql://h/db"])
def test_other_urls_in_files_stay_as_they_are(tmp_path: Path, url: str) -> None:
    write(tmp_path / "headrace.toml", f'url = "{url}"')
    assert settings.load(folder=tmp_path, environ=NO_ENVIRONMENT).url == url


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('ulr = "memory://"', "unknown key 'ulr': it may set url, durability, patience"),
        ('url = "flow.db"', "the url in .* is wrong: 'flow.db' is not a store's URL"),
        ("url = 5", "the url in .* is wrong: a store's URL is text, not int"),
        ('durability = "none"', "durability in .* is 'none': use safe or relaxed"),
        ("durability = true", "is True: use safe or relaxed"),
        ("patience = -1", "patience in .* is -1: use seconds from 0 on"),
        ("patience = nan", "use seconds from 0 on"),
        ("patience = true", "use seconds from 0 on"),
        ('patience = "soon"', "is 'soon': use seconds from 0 on"),
        ("max_body = 1.5", "max_body in .* is 1.5: use a whole number of bytes"),
        ("max_body = 1", "a whole number of bytes from 2 on"),
        ('migrate = "never"', "use auto, create or off"),
        ("patience =", "is not valid TOML"),
    ],
)
def test_the_error_of_a_file_names_the_setting_and_the_file(
    tmp_path: Path, text: str, message: str
) -> None:
    file = write(tmp_path / "headrace.toml", text)
    with pytest.raises(InvalidSetting, match=message) as caught:
        settings.load(folder=tmp_path, environ=NO_ENVIRONMENT)
    assert str(file) in str(caught.value)
    assert caught.value.origin == str(file)
    assert caught.value.code == "invalid_setting"


def test_a_table_that_is_no_table_is_named(tmp_path: Path) -> None:
    write(tmp_path / "pyproject.toml", "[tool]\nheadrace = 5\n")
    with pytest.raises(InvalidSetting, match=r"pyproject\.toml \[tool\.headrace\] is not a table"):
        settings.load(folder=tmp_path, environ=NO_ENVIRONMENT)


def test_an_unreadable_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "headrace.toml", "")

    def refuse(*_: object) -> str:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_text", refuse)
    with pytest.raises(InvalidSetting, match=r"headrace\.toml cannot be read: Permission denied"):
        settings.load(folder=tmp_path, environ=NO_ENVIRONMENT)


@pytest.mark.parametrize(
    ("variable", "value"),
    [("HEADRACE_PATIENCE", "abc"), ("HEADRACE_MAX_BODY", "1MB"), ("HEADRACE_URL", "nonsense")],
)
def test_the_error_of_a_variable_names_it(tmp_path: Path, variable: str, value: str) -> None:
    with pytest.raises(InvalidSetting, match=variable):
        settings.load(folder=tmp_path, environ={variable: value})


def test_a_lower_source_that_does_not_count_is_not_judged(tmp_path: Path) -> None:
    write(tmp_path / "headrace.toml", "patience = -1")
    found = settings.load(folder=tmp_path, environ={"HEADRACE_PATIENCE": "2"})
    assert found["patience"].value == 2.0


def test_an_unknown_argument_is_refused(tmp_path: Path) -> None:
    arguments: dict[str, Any] = {"colour": "red"}
    with pytest.raises(InvalidSetting, match="the call has the unknown key 'colour'"):
        settings.load(folder=tmp_path, environ=NO_ENVIRONMENT, **arguments)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://me:secret@h:5432/db", "postgresql://me:***@h:5432/db"),
        ("postgresql://:secret@h/db", "postgresql://:***@h/db"),
        ("postgresql://h/db?x=1&password=secret&y=2", "postgresql://h/db?x=1&password=***"),
        ("postgresql://h/db?x=1&sslpassword=secret", "postgresql://h/db?x=1&sslpassword=***"),
        ("postgresql://me@h:5432/db?schema=s", "postgresql://me@h:5432/db?schema=s"),
        ("sqlite:///a:b@c.db", "sqlite:///a:b@c.db"),
    ],
)
def test_passwords_are_masked(tmp_path: Path, url: str, shown: str) -> None:
    assert masked(url) == shown
    found = settings.load(folder=tmp_path, environ={"HEADRACE_URL": url})
    assert (found["url"].shown, found.url) == (shown, url)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("me:secret@host/db", r"that is not a store's URL"),
        ("postgresql://me:secret%zz@host/db", "quote special characters"),
        ("postgresql://me:secret@host/db?colour=red", "has no option 'colour'"),
    ],
)
def test_a_url_that_cannot_be_read_keeps_its_secret(url: str, message: str) -> None:
    with pytest.raises(InvalidUrl, match=message) as caught:
        headrace.connect(url)
    assert "secret" not in str(caught.value)


def test_a_hash_belongs_to_the_name_of_a_file(tmp_path: Path) -> None:
    """It was cut off there, and another file opened."""
    headrace.connect(f"sqlite:///{tmp_path}/a#b.db").close()
    assert [path.name for path in tmp_path.glob("*")] == ["a#b.db"]
