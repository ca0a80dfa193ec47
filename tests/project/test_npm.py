"""What tests take from npm is pinned by hashes, and is there."""

import json

import javascript

LOCK = json.loads((javascript.FOLDER / "package-lock.json").read_text())
MANIFEST = json.loads((javascript.FOLDER / "package.json").read_text())


def test_the_lock_has_a_hash_of_every_package_and_no_address():
    packages = {path: entry for path, entry in LOCK["packages"].items() if path}
    assert packages
    # What is in a bundle comes, and is checked, with the package around it.
    unpinned = [
        path
        for path, entry in packages.items()
        if not entry.get("inBundle") and not entry.get("integrity", "").startswith("sha512-")
    ]
    assert unpinned == []
    assert [path for path, entry in packages.items() if "resolved" in entry] == []


def test_the_manifest_names_exact_versions_and_the_lock_agrees():
    root = LOCK["packages"][""]
    assert root["dependencies"] == MANIFEST["dependencies"]
    for name, version in MANIFEST["dependencies"].items():
        assert LOCK["packages"][f"node_modules/{name}"]["version"] == version


def test_the_packages_are_installed_and_load():
    program = "for (const name of process.argv.slice(1)) require(name); console.log('loaded')"
    done = javascript.run("-e", program, *MANIFEST["dependencies"])
    assert (done.stdout, done.returncode) == ("loaded\n", 0), done.stderr
