"""Builds the wheel: the Python files, and the program beside them.

As a build backend it puts in the program that STERNPOST_BINARY names, for the platform of this Python;
without one the wheel is for every platform and looks for a program on the PATH. By hand, for any platform:

    python3 backend/wheel_backend.py --binary PROGRAM --platform manylinux_2_17_x86_64 --output DIR
"""

import argparse
import base64
import hashlib
import io
import os
import re
import stat
import sysconfig
import tarfile
import time
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
ENTRY_POINTS = """\
[console_scripts]
sternpost = sternpost.__main__:main

[pytest11]
sternpost = sternpost.pytest_plugin
"""


def version():
    return re.search(r'^version = "(.*)"$', (HERE / "pyproject.toml").read_text(), re.MULTILINE)[1]


def metadata():
    return f"""\
Metadata-Version: 2.4
Name: sternpost
Version: {version()}
Summary: The Kubernetes API for tests: a throw-away server, with pytest fixtures
Keywords: kubernetes,testing,pytest
License-Expression: Apache-2.0
License-File: LICENSE
Requires-Python: >=3.9
Classifier: Framework :: Pytest
Description-Content-Type: text/markdown

{(HERE / "README.md").read_text()}"""


def timestamp():
    return time.gmtime(max(int(os.environ.get("SOURCE_DATE_EPOCH", "315532800")), 315532800))[:6]


def write_wheel(folder, binary, platform):
    """The same bytes for the same input. Gives the file's name."""
    platform = platform if binary else "any"
    tag = f"py3-none-{platform}"
    # Several platforms are one word in the name, and a line each inside.
    tags = "".join(f"Tag: py3-none-{one}\n" for one in platform.split("."))
    name = f"sternpost-{version()}-{tag}.whl"
    info = f"sternpost-{version()}.dist-info"
    files = [(f"sternpost/{file.name}", file.read_bytes(), 0o644) for file in sorted((HERE / "sternpost").glob("*")) if file.is_file()]
    if binary:
        program = "sternpost.exe" if platform.startswith("win") else "sternpost"
        files.append((f"sternpost/bin/{program}", Path(binary).read_bytes(), 0o755))
    pure = "false" if binary else "true"
    files += [
        (f"{info}/METADATA", metadata().encode(), 0o644),
        (f"{info}/WHEEL", f"Wheel-Version: 1.0\nGenerator: sternpost\nRoot-Is-Purelib: {pure}\n{tags}".encode(), 0o644),
        (f"{info}/entry_points.txt", ENTRY_POINTS.encode(), 0o644),
    ]
    if licence := licence_file():
        files.append((f"{info}/licenses/LICENSE", licence.read_bytes(), 0o644))
    record = "".join(f"{path},sha256={digest(data)},{len(data)}\n" for path, data, _ in files)
    files.append((f"{info}/RECORD", f"{record}{info}/RECORD,,\n".encode(), 0o644))
    with zipfile.ZipFile(Path(folder) / name, "w", zipfile.ZIP_DEFLATED) as wheel:
        for path, data, mode in files:
            entry = zipfile.ZipInfo(path, timestamp())
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3
            entry.external_attr = (stat.S_IFREG | mode) << 16
            wheel.writestr(entry, data)
    return name


def licence_file():
    """In the repository it is at the root, in a source archive beside the rest."""
    return next((file for file in (HERE / "LICENSE", HERE.parent.parent / "LICENSE") if file.is_file()), None)


def digest(data):
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


# What build tools call (PEP 517).


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    platform = re.sub(r"[-.]", "_", sysconfig.get_platform())
    return write_wheel(wheel_directory, os.environ.get("STERNPOST_BINARY"), platform)


def build_sdist(sdist_directory, config_settings=None):
    root = f"sternpost-{version()}"
    files = [HERE / "pyproject.toml", HERE / "README.md", *sorted((HERE / "sternpost").glob("*")), *sorted((HERE / "backend").glob("*"))]
    contents = [(str(file.relative_to(HERE)), file.read_bytes()) for file in files if file.is_file()]
    contents.append(("PKG-INFO", metadata().encode()))
    if licence := licence_file():
        contents.append(("LICENSE", licence.read_bytes()))
    with tarfile.open(Path(sdist_directory) / f"{root}.tar.gz", "w:gz", format=tarfile.PAX_FORMAT) as archive:
        for path, data in contents:
            entry = tarfile.TarInfo(f"{root}/{path}")
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return f"{root}.tar.gz"


def main():
    parser = argparse.ArgumentParser(description="Builds the wheel for one platform.")
    parser.add_argument("--binary", type=Path, required=True)
    parser.add_argument("--platform", required=True, help="platform tag, such as musllinux_1_2_x86_64")
    parser.add_argument("--output", type=Path, default=Path())
    args = parser.parse_args()
    args.output.mkdir(parents=True, exist_ok=True)
    print(args.output / write_wheel(args.output, args.binary, args.platform))


if __name__ == "__main__":
    main()
