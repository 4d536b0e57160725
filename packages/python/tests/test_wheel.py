"""The wheel as users get it, in an environment of its own without any other package."""

import os
import platform
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

import sternpost

PLATFORM = f"linux_{platform.machine()}"
HERE = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, str(HERE / "backend/wheel_backend.py"), "--binary", sternpost.find_binary()]
    subprocess.run([*build, "--platform", PLATFORM, "--output", str(folder)], check=True)
    (file,) = folder.glob("*.whl")
    return file


def test_names_and_record(wheel):
    assert wheel.name == f"sternpost-{sternpost.__version__}-py3-none-{PLATFORM}.whl"
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        info = f"sternpost-{sternpost.__version__}.dist-info"
        recorded = [line.split(",")[0] for line in archive.read(f"{info}/RECORD").decode().splitlines()]
        assert sorted(recorded) == sorted(names)
        assert f"{info}/licenses/LICENSE" in names
        assert archive.getinfo("sternpost/bin/sternpost").external_attr >> 16 & 0o111


@pytest.mark.skipif(sys.platform != "linux", reason="the wheel is for Linux")
def test_it_works_alone(wheel, tmp_path):
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env/bin/python"
    install = [python, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--disable-pip-version-check"]
    subprocess.run([*install, "--force-reinstall", wheel], check=True)
    environ = {"PATH": os.defpath, "HOME": str(tmp_path)}
    program = "import sternpost\nwith sternpost.start() as server: print(server.request('GET', '/readyz'), sternpost.find_binary())"
    done = subprocess.run([python, "-c", program], env=environ, cwd=tmp_path, stdout=subprocess.PIPE, text=True, check=True)
    answer, binary = done.stdout.split()
    assert answer == "ok"
    assert Path(binary).is_relative_to(tmp_path)
    command = tmp_path / "env/bin/sternpost"
    version = subprocess.run([command, "version"], env=environ, cwd=tmp_path, stdout=subprocess.PIPE, text=True, check=True)
    assert version.stdout.startswith(f"sternpost {sternpost.__version__} ")
