#!/usr/bin/env python3
"""Makes what a release consists of: archives, Debian packages, wheels, npm packages, SBOMs, checksums.

    packages/dist.py [--target TRIPLE]... [--binary TRIPLE=FILE]... [--output DIR] [--url URL --homepage URL]

Without targets it is the static ones for Linux. A target is built with the profile `dist`, by cargo-zigbuild where that
is there, else by cargo; `--binary` takes a program that is built already. The same commit gives the same bytes.
`--check` only checks the types for all targets, or for those that are named. `cargo xtask dist` is this program.
"""

import argparse
import datetime
import gzip
import hashlib
import importlib.util
import io
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
SHELLS = {"bash": "sternpost.bash", "zsh": "_sternpost", "fish": "sternpost.fish", "powershell": "sternpost.ps1", "elvish": "sternpost.elv"}


class Target(NamedTuple):
    triple: str
    #: As in the names of archives: Go's and Docker's words for it.
    name: str
    wheel: str
    npm: str
    debian: str = ""

    @property
    def program(self):
        return "sternpost.exe" if "windows" in self.triple else "sternpost"


# Static programs run on every Linux, whatever its C library: the tags name the oldest that installers know.
TARGETS = [
    Target("x86_64-unknown-linux-musl", "linux-amd64", "manylinux_2_17_x86_64.musllinux_1_1_x86_64", "linux-x64", "amd64"),
    Target("aarch64-unknown-linux-musl", "linux-arm64", "manylinux_2_17_aarch64.musllinux_1_1_aarch64", "linux-arm64", "arm64"),
    Target("x86_64-apple-darwin", "darwin-amd64", "macosx_11_0_x86_64", "darwin-x64"),
    Target("aarch64-apple-darwin", "darwin-arm64", "macosx_11_0_arm64", "darwin-arm64"),
    Target("x86_64-pc-windows-gnu", "windows-amd64", "win_amd64", "win32-x64"),
]


def main():
    args = read_arguments()
    if args.check:
        return check(args.targets or TARGETS)
    os.environ["SOURCE_DATE_EPOCH"] = str(timestamp())
    version = read_version()
    wanted = args.targets or [find_target(triple) for triple in args.binaries] or TARGETS[:2]
    binaries = {target: args.binaries.get(target.triple) or build(target) for target in wanted}
    empty(args.output)
    with tempfile.TemporaryDirectory() as scratch:
        pages = documents(runnable(binaries), Path(scratch))
        for target, binary in binaries.items():
            write_archive(args.output, version, target, binary, pages)
            if target.debian:
                write_debian(args.output, version, target, binary, pages)
            write_wheel(args.output, target, binary)
            write_sbom(args.output, version, target)
    write_npm(args.output, binaries)
    if args.url:
        write_formula(args.output, version, args.url, args.homepage or args.url)
    write_checksums(args.output)
    for file in sorted(args.output.iterdir()):
        print(f"{file.stat().st_size:>12} {file.name}")
    return 0


def empty(folder):
    """Only what an earlier run has made is removed."""
    if folder.exists() and any(folder.iterdir()) and not (folder / "SHA256SUMS").is_file():
        raise SystemExit(f"dist: {folder} has files of somebody else")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)


def read_arguments():
    parser = argparse.ArgumentParser(prog="cargo xtask dist", description=__doc__.split("\n")[0])
    parser.add_argument("--target", action="append", default=[], dest="targets", metavar="TRIPLE", type=find_target,
                        help="one of " + ", ".join(target.triple for target in TARGETS))
    parser.add_argument("--binary", action="append", default=[], dest="binaries", metavar="TRIPLE=FILE",
                        help="a program that is built already")
    parser.add_argument("--output", type=Path, default=ROOT / "target/packages", help="where to; what an earlier run made is removed first")
    parser.add_argument("--url", help="where the archives will be: writes the formula for Homebrew")
    parser.add_argument("--homepage", help="of the formula")
    parser.add_argument("--check", action="store_true", help="only check the types, for every target")
    args = parser.parse_args()
    given = [binary.partition("=") for binary in args.binaries]
    for triple, equals, file in given:
        if not equals or not Path(file).is_file():
            parser.error(f"--binary {triple}{equals}{file}: want TRIPLE=FILE, and a file that is there")
    args.binaries = {find_target(triple).triple: Path(file) for triple, _, file in given}
    return args


def find_target(triple):
    for target in TARGETS:
        if target.triple == triple:
            return target
    raise SystemExit(f"dist: there is no target {triple}, but " + ", ".join(target.triple for target in TARGETS))


def read_version():
    return re.search(r'^version = "(.*)"$', (ROOT / "Cargo.toml").read_text(), re.MULTILINE)[1]


def timestamp():
    """Of the commit, not of the day."""
    if "SOURCE_DATE_EPOCH" in os.environ:
        return int(os.environ["SOURCE_DATE_EPOCH"])
    git = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    return int(git.stdout) if git.returncode == 0 else 0


# Programs


def build(target):
    run([*cargo("build"), "--profile", "dist", "--bin", "sternpost", "--target", target.triple])
    metadata = json.loads(output(["cargo", "metadata", "--locked", "--no-deps", "--format-version", "1"]))
    return Path(metadata["target_directory"]) / target.triple / "dist" / target.program


def check(targets):
    failed = [target.triple for target in targets if subprocess.run([*cargo("check"), "--bin", "sternpost", "--target", target.triple], cwd=ROOT).returncode]
    print(f"{len(targets) - len(failed)} targets have the right types" + (f", not so: {', '.join(failed)}" if failed else ""))
    return 1 if failed else 0


def cargo(command):
    """zig is a C compiler for every target; the C of our dependencies needs one."""
    zigbuild = shutil.which("cargo-zigbuild")
    words = {"build": [zigbuild, "zigbuild"], "check": [zigbuild, "check"]}[command] if zigbuild else ["cargo", command]
    return [*words, "--locked", "--package", "sternpost"]


def runnable(binaries):
    """One that runs here: it writes the man pages and the completions."""
    machine = {"x86_64": "amd64", "aarch64": "arm64", "AMD64": "amd64", "arm64": "arm64"}.get(platform.machine())
    here = f"{platform.system().lower()}-{machine}"
    for target, binary in binaries.items():
        if target.name == here:
            return binary.resolve()
    raise SystemExit(f"dist: man pages and completions need a program that runs here ({here}): add --target or --binary of it")


def documents(binary, folder):
    """Man pages and completions, by their names in an archive."""
    run([binary, "man", folder])
    pages = {f"man/{page.name}": page.read_bytes() for page in sorted(folder.iterdir())}
    for shell, name in SHELLS.items():
        pages[f"completions/{name}"] = subprocess.run([binary, "completion", shell], check=True, stdout=subprocess.PIPE).stdout
    return pages


# Archives


def write_archive(folder, version, target, binary, pages):
    root = f"sternpost-{version}-{target.name}"
    files = {target.program: (binary.read_bytes(), 0o755)}
    for name in ("LICENSE", "README.md", "CHANGELOG.md"):
        files[name] = ((ROOT / name).read_bytes(), 0o644)
    files |= {name: (data, 0o644) for name, data in pages.items()}
    if target.debian:
        files["sternpost.service"] = ((HERE / "systemd/sternpost.service").read_bytes(), 0o644)
    files = {f"{root}/{name}": content for name, content in files.items()}
    if "windows" in target.triple:
        write_zip(folder / f"{root}.zip", files)
    else:
        (folder / f"{root}.tar.gz").write_bytes(tar(files))


def tar(files):
    """Files and the folders above them, all of root, all of one time."""
    folders = sorted({str(parent) for name in files for parent in Path(name).parents if str(parent) not in (".", "/")})
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for name in folders:
            archive.addfile(entry(name, 0o755, kind=tarfile.DIRTYPE))
        for name, (data, mode) in sorted(files.items()):
            archive.addfile(entry(name, mode, size=len(data)), io.BytesIO(data))
    return compress(plain.getvalue())


def entry(name, mode, size=0, kind=tarfile.REGTYPE):
    found = tarfile.TarInfo(name)
    found.mode, found.size, found.type = mode, size, kind
    found.mtime = timestamp()
    found.uname = found.gname = "root"
    return found


def compress(data):
    return gzip.compress(data, 9, mtime=0)


def write_zip(file, files):
    moment = datetime.datetime.fromtimestamp(max(timestamp(), 315532800), datetime.timezone.utc)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, (data, mode) in sorted(files.items()):
            found = zipfile.ZipInfo(name, moment.timetuple()[:6])
            found.compress_type = zipfile.ZIP_DEFLATED
            found.external_attr = (0o100000 | mode) << 16
            archive.writestr(found, data)


# Debian


def write_debian(folder, version, target, binary, pages):
    doc = "usr/share/doc/sternpost"
    copyright = "Copyright: the sternpost authors\nLicense: Apache-2.0, on Debian in /usr/share/common-licenses/Apache-2.0.\n"
    files = {
        "usr/bin/sternpost": (binary.read_bytes(), 0o755),
        "usr/lib/systemd/system/sternpost.service": ((HERE / "systemd/sternpost.service").read_bytes(), 0o644),
        "usr/share/bash-completion/completions/sternpost": (pages["completions/sternpost.bash"], 0o644),
        "usr/share/zsh/vendor-completions/_sternpost": (pages["completions/_sternpost"], 0o644),
        "usr/share/fish/vendor_completions.d/sternpost.fish": (pages["completions/sternpost.fish"], 0o644),
        f"{doc}/copyright": (copyright.encode(), 0o644),
        f"{doc}/changelog.gz": (compress((ROOT / "CHANGELOG.md").read_bytes()), 0o644),
    }
    for name, data in pages.items():
        if name.startswith("man/"):
            files[f"usr/share/man/man1/{Path(name).name}.gz"] = (compress(data), 0o644)
    kilobytes = sum(len(data) for data, _ in files.values()) // 1024 + 1
    control = f"""\
Package: sternpost
Version: {version}
Architecture: {target.debian}
Maintainer: the sternpost authors
Installed-Size: {kilobytes}
Section: net
Priority: optional
Description: Kubernetes API without the cluster
 One program that answers as kube-apiserver does, for tests, continuous
 integration and platforms of one's own; it builds kustomizations and judges
 manifests, too. It needs no container, no etcd and no node.
"""
    sums = "".join(f"{hashlib.md5(data).hexdigest()}  {name}\n" for name, (data, _) in sorted(files.items()))
    inner = tar({"./control": (control.encode(), 0o644), "./md5sums": (sums.encode(), 0o644)})
    parts = [
        ("debian-binary", b"2.0\n"),
        ("control.tar.gz", inner),
        ("data.tar.gz", tar({f"./{name}": content for name, content in files.items()})),
    ]
    with open(folder / f"sternpost_{version}_{target.debian}.deb", "wb") as package:
        package.write(b"!<arch>\n")
        for name, data in parts:
            package.write(f"{name:<16}{timestamp():<12}{0:<6}{0:<6}{'100644':<8}{len(data):<10}`\n".encode())
            package.write(data + b"\n" * (len(data) % 2))


# Packages of other languages


def write_wheel(folder, target, binary):
    path = HERE / "python/backend/wheel_backend.py"
    spec = importlib.util.spec_from_file_location("wheel_backend", path)
    backend = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(backend)
    backend.write_wheel(folder, binary, target.wheel)


def write_npm(folder, binaries):
    if not shutil.which("npm"):
        print("dist: no npm packages, for there is no npm", file=sys.stderr)
        return
    pack = ["node", HERE / "npm/pack.mjs", "--output", folder]
    run(pack)
    for target, binary in binaries.items():
        run([*pack, "--binary", binary, "--platform", target.npm])


def write_formula(folder, version, url, homepage):
    text = (HERE / "homebrew/sternpost.rb.in").read_text().partition("\n")[2]
    missing = []

    def checksum(match):
        file = folder / f"sternpost-{version}-{match[1]}.tar.gz"
        if not file.is_file():
            missing.append(match[1])
            return ""
        return sha256(file)

    text = re.sub("@SHA256:(.*?)@", checksum, text)
    if missing:
        print(f"dist: no formula, for these archives are not there: {', '.join(missing)}", file=sys.stderr)
        return
    for name, value in {"VERSION": version, "URL": url.rstrip("/"), "HOMEPAGE": homepage}.items():
        text = text.replace(f"@{name}@", value)
    (folder / "sternpost.rb").write_text(text)


# What is in it, and whether it is whole


def write_sbom(folder, version, target):
    """CycloneDX of the crates that are linked into the program for a target."""
    words = ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", target.triple]
    metadata = json.loads(output(words))
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    root = next(name for name, package in packages.items() if package["name"] == "sternpost")
    used, waiting, edges = {root}, [root], {}
    while waiting:
        name = waiting.pop()
        normal = [dep["pkg"] for dep in nodes[name]["deps"] if any(kind["kind"] is None for kind in dep["dep_kinds"])]
        edges[name] = sorted(reference(packages[dep]) for dep in normal)
        waiting += [dep for dep in normal if dep not in used]
        used.update(normal)
    checksums = lock_checksums()
    components = sorted((component(packages[name], checksums) for name in used if name != root), key=lambda c: c["bom-ref"])
    moment = datetime.datetime.fromtimestamp(timestamp(), datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": moment,
            "component": {**component(packages[root], checksums), "type": "application"},
            "properties": [{"name": "cargo:target", "value": target.triple}],
        },
        "components": components,
        "dependencies": [{"ref": reference(packages[name]), "dependsOn": edges[name]} for name in sorted(used)],
    }
    (folder / f"sternpost-{version}-{target.name}.cdx.json").write_text(json.dumps(document, indent=1) + "\n")


def reference(package):
    return f"pkg:cargo/{package['name']}@{package['version']}"


def component(package, checksums):
    found = {
        "type": "library",
        "bom-ref": reference(package),
        "name": package["name"],
        "version": package["version"],
        "purl": reference(package),
    }
    if package.get("license"):
        found["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    if checksum := checksums.get((package["name"], package["version"])):
        found["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    return found


def lock_checksums():
    pattern = re.compile(r'name = "(.*)"\nversion = "(.*)"\nsource = ".*"\nchecksum = "(.*)"')
    return {(name, version): checksum for name, version, checksum in pattern.findall((ROOT / "Cargo.lock").read_text())}


def write_checksums(folder):
    lines = [f"{sha256(file)}  {file.name}\n" for file in sorted(folder.iterdir())]
    (folder / "SHA256SUMS").write_text("".join(lines))


def sha256(file):
    return hashlib.sha256(file.read_bytes()).hexdigest()


def run(words):
    subprocess.run([str(word) for word in words], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)


def output(words):
    return subprocess.run(words, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


if __name__ == "__main__":
    try:
        sys.exit(main())
    except subprocess.CalledProcessError as error:
        sys.exit(f"dist: {' '.join(map(str, error.cmd[:2]))} failed")
