"""One server, as a process of its own that ends with this one."""

from __future__ import annotations

import base64
import collections
import json
import os
import re
import shutil
import ssl
import subprocess
import sys
import sysconfig
import threading
import urllib.error
import urllib.request
import weakref
from pathlib import Path
from typing import Any, Iterable, Mapping, Optional, Union

BINARY_VARIABLE = "STERNPOST_BINARY"

#: How long a server may take to be ready, and then to end once it is asked to.
READY_SECONDS = 60.0
END_SECONDS = 10.0

#: How many lines of its log are kept for failures.
LOG_LINES = 10_000

_READY = re.compile(r"sternpost is ready on (?P<url>\S+) in \d+ ms; kubeconfig: (?P<kubeconfig>.+)$")


class StartError(Exception):
    """The server did not start; its log is in the message."""


class ApiError(Exception):
    """An answer that is no success: `code`, and the `Status` as `status`."""

    def __init__(self, code: int, status: Mapping[str, Any]):
        super().__init__(f"{code} {status.get('reason', '')}: {status.get('message', '')}")
        self.code = code
        self.status = status


def find_binary() -> str:
    """The program: what STERNPOST_BINARY names, else the one in this package, else the one on the PATH."""
    name = "sternpost.exe" if sys.platform == "win32" else "sternpost"
    chosen = os.environ.get(BINARY_VARIABLE)
    if chosen:
        if not os.path.isfile(chosen):
            raise StartError(f"{BINARY_VARIABLE} is {chosen}, and there is no such file")
        return chosen
    packaged = Path(__file__).parent / "bin" / name
    if packaged.is_file():
        return str(packaged)
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    found = shutil.which(name, path=os.pathsep.join(f for f in folders if not _is_own_command(f, name)))
    if found is None:
        raise StartError(
            f"there is no sternpost in this package (it was built without one), none on the PATH, "
            f"and {BINARY_VARIABLE} is not set"
        )
    return found


def _is_own_command(folder: str, name: str) -> bool:
    """Whether that is the command which this package installs: it would only search again."""
    if sys.platform == "win32":
        return os.path.normcase(folder) == os.path.normcase(sysconfig.get_path("scripts"))
    try:
        with open(os.path.join(folder, name), "rb") as file:
            return file.read(2) == b"#!"
    except OSError:
        return False


def start(
    *,
    load: Union[str, os.PathLike, Iterable[Union[str, os.PathLike]]] = (),
    controllers: Union[bool, str] = True,
    flags: Iterable[str] = (),
    timeout: float = READY_SECONDS,
) -> "Server":
    """A server that keeps nothing, once it is ready.

    load: files, directories and kustomizations whose objects are there from the beginning.
    controllers: False for none, or what `--controllers` takes.
    flags: further ones of `sternpost serve`.
    """
    return Server(load=load, controllers=controllers, flags=flags, timeout=timeout)


class Server:
    """See `start`. It ends with its `with` block, with `stop()`, or with this process, however that ends."""

    def __init__(self, *, load, controllers, flags, timeout):
        paths = [load] if isinstance(load, (str, os.PathLike)) else list(load)
        command = [find_binary(), "serve", "--in-memory", "--listen", "127.0.0.1:0", "--exit-with-parent"]
        for path in paths:
            command += ["--load", os.fspath(path)]
        if controllers is not True:
            command.append(f"--controllers={controllers or '-*'}")
        command += flags
        self._log: collections.deque = collections.deque(maxlen=LOG_LINES)
        self._written = 0
        self._log_lock = threading.Lock()
        self._settled = threading.Event()
        self._ready: Optional[re.Match] = None
        # In a group of its own: a Ctrl-C at the terminal is for the tests, which end the server then.
        own_group = {} if sys.platform == "win32" else {"start_new_session": True}
        # What a test starts is what the test says, not what variables add to it.
        environ = {name: value for name, value in os.environ.items() if not name.startswith("STERNPOST_")}
        self._process = subprocess.Popen(
            command,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            **own_group,
        )
        self._reader = threading.Thread(target=self._read, name="sternpost log", daemon=True)
        self._reader.start()
        self._end = weakref.finalize(self, _end, self._process, os.getpid())
        if not self._settled.wait(timeout):
            self.stop()
            raise StartError(f"the server was not ready in {timeout:g} s; its log:\n{self.log}")
        if self._ready is None:
            self._process.wait()
            self._reader.join()
            raise StartError(f"the server ended with code {self._process.returncode}; its log:\n{self.log}")
        #: Where it is, as https://127.0.0.1:PORT.
        self.url: str = self._ready["url"]
        #: Path of a kubeconfig whose user may do everything.
        self.kubeconfig: str = self._ready["kubeconfig"]
        #: That user's token, and the certificate of the server's authority (PEM).
        self.token, self.ca = _credentials(self.kubeconfig)

    def _read(self) -> None:
        with self._process.stderr as lines:
            for line in lines:
                line = line.rstrip("\n")
                with self._log_lock:
                    self._log.append(line)
                    self._written += 1
                if self._ready is None:
                    self._ready = _READY.match(line)
                    if self._ready:
                        self._settled.set()
        self._settled.set()

    @property
    def log(self) -> str:
        """What the server has written so far, or the last of it."""
        return self.log_since(0)

    @property
    def log_lines(self) -> int:
        """How many lines it has written, for `log_since`."""
        return self._written

    def log_since(self, lines: int) -> str:
        """Its log without the first `lines`."""
        with self._log_lock:
            forgotten = self._written - len(self._log)
            return "\n".join(list(self._log)[max(0, lines - forgotten) :])

    @property
    def environ(self) -> Mapping[str, str]:
        """This process's environment with KUBECONFIG, for programs that tests start."""
        return {**os.environ, "KUBECONFIG": self.kubeconfig}

    def request(self, method: str, path: str, body: Any = None, *, content_type: str = "application/json") -> Any:
        """One request as admin; the answer as JSON gives it. `ApiError` unless it is a success."""
        request = urllib.request.Request(
            self.url + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self.token}", "Accept": "application/json"},
        )
        if body is not None:
            request.add_header("Content-Type", content_type)
        trusting = urllib.request.HTTPSHandler(context=ssl.create_default_context(cadata=self.ca))
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), trusting)
        try:
            with opener.open(request) as response:
                text = response.read()
        except urllib.error.HTTPError as error:
            text = error.read()
            try:
                status = json.loads(text)
            except ValueError:
                status = {"message": text.decode(errors="replace")}
            raise ApiError(error.code, status) from None
        try:
            return json.loads(text)
        except ValueError:
            return text.decode(errors="replace")

    def create_namespace(self, prefix: str = "test-") -> str:
        """A new namespace; its name begins with `prefix`."""
        made = self.request("POST", "/api/v1/namespaces", {"metadata": {"generateName": prefix}})
        return made["metadata"]["name"]

    def delete_namespace(self, name: str) -> None:
        """Asks for its end and does not wait: whatever is in it goes, too."""
        try:
            self.request("DELETE", f"/api/v1/namespaces/{name}")
        except ApiError as error:
            if error.code not in (404, 409):
                raise

    def client(self):
        """An `ApiClient` of the `kubernetes` package."""
        from kubernetes import config

        return config.new_client_from_config(config_file=self.kubeconfig)

    def stop(self) -> None:
        """Ends the server. Nothing is left of it."""
        self._end()
        if self._reader is not threading.current_thread():
            self._reader.join(END_SECONDS)

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *_) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<sternpost.Server {getattr(self, 'url', 'starting')}>"


def _credentials(kubeconfig: str) -> "tuple[str, str]":
    """The one user and cluster of a file that the server has written: a line each."""
    text = Path(kubeconfig).read_text(encoding="utf-8")
    token = re.search(r'^ *token: "([^"]*)"$', text, re.MULTILINE)
    authority = re.search(r"^ *certificate-authority-data: (\S+)$", text, re.MULTILINE)
    if not (token and authority):
        raise StartError(f"{kubeconfig} has no token or no authority")
    return token[1], base64.b64decode(authority[1]).decode()


def _end(process: subprocess.Popen, owner: int) -> None:
    # A forked child has the object, but not the process.
    if os.getpid() != owner or process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
