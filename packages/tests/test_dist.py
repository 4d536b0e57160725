"""What `packages/dist.py` makes, and the scripts of the GitHub action on it.

    STERNPOST_BINARY=PROGRAM python3 -m unittest -v
"""

import contextlib
import hashlib
import importlib.util
import io
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import unittest
import zipfile
from pathlib import Path

PACKAGES = Path(__file__).resolve().parent.parent
PROGRAM = os.environ.get("STERNPOST_BINARY")
MACHINE = {"x86_64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}.get(platform.machine(), "x86_64")

spec = importlib.util.spec_from_file_location("dist", PACKAGES / "dist.py")
dist = importlib.util.module_from_spec(spec)
spec.loader.exec_module(dist)

VERSION = dist.read_version()
TARGET = dist.find_target(f"{MACHINE}-unknown-linux-musl")
NAME = f"sternpost-{VERSION}-{TARGET.name}"


def setUpModule():
    global scratch, made
    if not PROGRAM:
        raise unittest.SkipTest("STERNPOST_BINARY is not set")
    if sys.platform != "linux":
        raise unittest.SkipTest("the packages of a program for Linux are tried")
    scratch = tempfile.TemporaryDirectory()
    made = Path(scratch.name) / "dist"
    make(made)


def tearDownModule():
    scratch.cleanup()


def make(folder):
    # A program of one line: what is packed is small, and what it does is what the real one does.
    stub = Path(scratch.name) / "sternpost"
    stub.write_text(f'#!/bin/sh\nexec {os.path.abspath(PROGRAM)} "$@"\n')
    stub.chmod(0o755)
    command = [sys.executable, PACKAGES / "dist.py", "--binary", f"{TARGET.triple}={stub}", "--output", folder]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def needs(program):
    return unittest.skipUnless(shutil.which(program), f"there is no {program}")


class Files(unittest.TestCase):
    def test_there_is_one_of_each(self):
        npm = {f"sternpost-{VERSION}.tgz", f"sternpost-{TARGET.npm}-{VERSION}.tgz"} if shutil.which("npm") else set()
        self.assertEqual(
            {file.name for file in made.iterdir()},
            {
                "SHA256SUMS",
                f"{NAME}.tar.gz",
                f"{NAME}.cdx.json",
                f"sternpost_{VERSION}_{TARGET.debian}.deb",
                f"sternpost-{VERSION}-py3-none-{TARGET.wheel}.whl",
            }
            | npm,
        )

    def test_checksums_are_of_all_files(self):
        lines = [line.split("  ") for line in (made / "SHA256SUMS").read_text().splitlines()]
        self.assertEqual({name for _, name in lines}, {file.name for file in made.iterdir()} - {"SHA256SUMS"})
        for checksum, name in lines:
            self.assertEqual(hashlib.sha256((made / name).read_bytes()).hexdigest(), checksum, name)

    def test_the_same_commit_gives_the_same_bytes(self):
        again = Path(scratch.name) / "again"
        make(again)
        self.assertEqual((again / "SHA256SUMS").read_text(), (made / "SHA256SUMS").read_text())

    def test_the_archive_has_all_that_is_installed(self):
        with tempfile.TemporaryDirectory() as folder, tarfile.open(made / f"{NAME}.tar.gz") as archive:
            archive.extractall(folder)
            root = Path(folder) / NAME
            version = subprocess.run([root / "sternpost", "version"], check=True, stdout=subprocess.PIPE, text=True)
            self.assertIn(f"sternpost {VERSION} ", version.stdout)
            for part in ("LICENSE", "README.md", "man/sternpost.1", "man/sternpost-serve.1", "sternpost.service"):
                self.assertTrue((root / part).stat().st_size, part)
            for name in dist.SHELLS.values():
                self.assertIn("in-memory", (root / "completions" / name).read_text(), name)

    def test_the_wheel_says_for_which_platforms_it_is(self):
        with zipfile.ZipFile(made / f"sternpost-{VERSION}-py3-none-{TARGET.wheel}.whl") as wheel:
            text = wheel.read(f"sternpost-{VERSION}.dist-info/WHEEL").decode()
        tags = [line[5:] for line in text.splitlines() if line.startswith("Tag: ")]
        self.assertEqual(tags, [f"py3-none-{one}" for one in TARGET.wheel.split(".")])

    @needs("dpkg-deb")
    def test_the_debian_package_is_one(self):
        file = made / f"sternpost_{VERSION}_{TARGET.debian}.deb"
        fields = subprocess.run(["dpkg-deb", "--field", file, "Package", "Version", "Architecture"], check=True, stdout=subprocess.PIPE, text=True)
        self.assertEqual(fields.stdout, f"Package: sternpost\nVersion: {VERSION}\nArchitecture: {TARGET.debian}\n")
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(["dpkg-deb", "--raw-extract", file, folder], check=True)
            subprocess.run(["md5sum", "--check", "--quiet", "DEBIAN/md5sums"], cwd=folder, check=True)
            subprocess.run([Path(folder) / "usr/bin/sternpost", "version"], check=True, stdout=subprocess.DEVNULL)
            self.assertTrue((Path(folder) / "usr/share/man/man1/sternpost-serve.1.gz").is_file())

    def test_the_sbom_has_what_is_linked_and_nothing_else(self):
        document = json.loads((made / f"{NAME}.cdx.json").read_text())
        parts = {part["name"]: part for part in document["components"]}
        self.assertEqual(len(parts["serde_json"]["hashes"][0]["content"]), 64)
        self.assertEqual(parts["serde_json"]["licenses"], [{"expression": "MIT OR Apache-2.0"}])
        self.assertIn("sternpost-http", parts)
        self.assertEqual(document["metadata"]["component"]["name"], "sternpost")
        # Of tests, of builds, of another platform.
        self.assertFalse({"proptest", "sternpost-testkit", "cc", "windows-sys"} & parts.keys())
        known = {part["bom-ref"] for part in document["components"]} | {document["metadata"]["component"]["bom-ref"]}
        for node in document["dependencies"]:
            self.assertIn(node["ref"], known)
            self.assertLessEqual(set(node["dependsOn"]), known)

    def test_wrong_uses_are_told(self):
        for words, message in [
            (["--target", "sparc"], "there is no target sparc, but x86_64-unknown-linux-musl"),
            (["--binary", "nowhere"], "want TRIPLE=FILE"),
            (["--binary", f"x86_64-pc-windows-gnu={PROGRAM}"], "need a program that runs here"),
            (["--binary", f"{TARGET.triple}={PROGRAM}", "--output", PACKAGES], "has files of somebody else"),
        ]:
            none = Path(scratch.name) / "none"
            done = subprocess.run([sys.executable, PACKAGES / "dist.py", "--output", none, *words], stderr=subprocess.PIPE, text=True)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(message, done.stderr)


class Formula(unittest.TestCase):
    def test_it_is_written_once_all_archives_are_there(self):
        with tempfile.TemporaryDirectory() as name:
            folder, names = Path(name), ["darwin-amd64", "darwin-arm64", "linux-amd64", "linux-arm64"]
            for there in names:
                with contextlib.redirect_stderr(io.StringIO()) as told:
                    dist.write_formula(folder, VERSION, "https://example.com/v1/", "https://example.com")
                self.assertIn(there, told.getvalue())
                self.assertFalse((folder / "sternpost.rb").exists(), there)
                (folder / f"sternpost-{VERSION}-{there}.tar.gz").write_text(there)
            dist.write_formula(folder, VERSION, "https://example.com/v1/", "https://example.com")
            text = (folder / "sternpost.rb").read_text()
            self.assertNotIn("@", text)
            for there in names:
                self.assertIn(f'url "https://example.com/v1/sternpost-{VERSION}-{there}.tar.gz"', text)
                self.assertIn(f'sha256 "{hashlib.sha256(there.encode()).hexdigest()}"', text)
            if shutil.which("ruby"):
                subprocess.run(["ruby", "-c", folder / "sternpost.rb"], check=True, stdout=subprocess.DEVNULL)


class Action(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.temp = Path(self.folder.name)
        for name in ("path", "env", "output"):
            (self.temp / name).touch()

    def script(self, name, **variables):
        environ = {
            "PATH": os.environ["PATH"],
            "HOME": self.folder.name,
            "RUNNER_TEMP": self.folder.name,
            "GITHUB_PATH": str(self.temp / "path"),
            "GITHUB_ENV": str(self.temp / "env"),
            "GITHUB_OUTPUT": str(self.temp / "output"),
            **variables,
        }
        # Its output goes to files: a server that is left running has it open.
        with open(self.temp / "out", "w") as out:
            code = subprocess.run([PACKAGES / "action" / name], env=environ, stdout=out, stderr=out).returncode
        return code, (self.temp / "out").read_text()

    def install(self, url):
        return self.script("install.sh", STERNPOST_RELEASE=VERSION, STERNPOST_RELEASE_URL=url.as_uri())

    @needs("curl")
    def test_it_installs_and_starts(self):
        code, text = self.install(made)
        self.assertEqual(code, 0, text)
        path = (self.temp / "path").read_text().strip()
        code, text = self.script("start.sh", PATH=f"{path}:{os.environ['PATH']}", LOAD=f"{PACKAGES}/fixtures\n", FLAGS="--event-ttl=2h\n")
        self.assertEqual(code, 0, text)
        ready = json.loads((self.temp / "sternpost.ready").read_text())
        try:
            self.assertEqual((self.temp / "env").read_text(), f"KUBECONFIG={self.temp}/sternpost.kubeconfig\n")
            self.assertIn(f"url={ready['url']}\n", (self.temp / "output").read_text())
            self.assertIn(ready["url"], (self.temp / "sternpost.kubeconfig").read_text())
        finally:
            os.kill(ready["pid"], signal.SIGTERM)

    @needs("curl")
    def test_an_archive_that_was_changed_is_refused(self):
        changed = Path(self.folder.name) / "changed"
        shutil.copytree(made, changed)
        with open(changed / f"{NAME}.tar.gz", "ab") as archive:
            archive.write(b"x")
        code, text = self.install(changed)
        self.assertNotEqual(code, 0)
        self.assertIn("FAILED", text)
        self.assertEqual((self.temp / "path").read_text(), "")

    def test_a_server_that_does_not_start_fails_the_step(self):
        code, text = self.script("start.sh", PATH=f"{Path(scratch.name)}:{os.environ['PATH']}", FLAGS="--nonsense")
        self.assertEqual(code, 1)
        self.assertIn("--nonsense", text)


class Unit(unittest.TestCase):
    @needs("systemd-analyze")
    def test_systemd_takes_it(self):
        with tempfile.TemporaryDirectory() as folder:
            unit = Path(folder) / "sternpost.service"
            text = (PACKAGES / "systemd/sternpost.service").read_text()
            self.assertIn("ExecStart=/usr/bin/sternpost serve ", text)
            # Neither the program nor its page are installed here.
            text = text.replace("/usr/bin/sternpost", os.path.abspath(PROGRAM))
            unit.write_text("".join(line for line in text.splitlines(True) if not line.startswith("Documentation=")))
            done = subprocess.run(["systemd-analyze", "verify", unit], stderr=subprocess.PIPE, text=True)
            self.assertEqual((done.returncode, done.stderr), (0, ""))


class Flake(unittest.TestCase):
    @needs("nix-instantiate")
    def test_it_can_be_read(self):
        read = ["nix-instantiate", "--parse", PACKAGES / "nix/flake.nix"]
        done = subprocess.run(read, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
