"""A kube-apiserver to ask."""
import pathlib
import shutil
import socket
import ssl
import subprocess
import tempfile
import time
import urllib.request

USERS = pathlib.Path(__file__).resolve().parents[1] / "crates/sternpost/tests/corpus/users.csv"
# A hang-guard.
READY_SECONDS = 120
TOKEN = "admin"


def etcd_command(programs, folder, *flags):
    """What starts an etcd of one member, and where it is reached."""
    url, peer = ("http://127.0.0.1:%d" % free_port() for _ in range(2))
    return [
        programs / "etcd", "--data-dir", folder, *flags,
        "--listen-client-urls", url, "--advertise-client-urls", url,
        "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default=" + peer,
    ], url


class Peer:
    """A fresh kube-apiserver on a free port of this machine, with a fresh etcd unless the URL of one is given."""

    def __init__(self, programs, flags, users="", authorization="RBAC", store=None):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="sternpost-peer-"))
        self.processes = []
        port = free_port()
        self.store, self.url = store, "https://127.0.0.1:%d" % port
        if not store:
            command, self.store = etcd_command(programs, self.folder / "etcd", "--unsafe-no-fsync")
            self.start(*command)
        key = self.folder / "sa.key"
        subprocess.run(["openssl", "genrsa", "-out", key, "2048"], check=True, capture_output=True)
        tokens = self.folder / "users.csv"
        users = users or USERS.read_text()
        tokens.write_text('%s,admin,admin-uid,"system:masters"\n%s' % (TOKEN, users))
        base = [
            "--etcd-servers=" + self.store,
            "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--secure-port=%d" % port,
            "--cert-dir=%s" % (self.folder / "certs"), "--service-cluster-ip-range=10.0.0.0/24",
            "--service-account-issuer=https://kubernetes.default.svc",
            "--service-account-key-file=%s" % key, "--service-account-signing-key-file=%s" % key,
            "--token-auth-file=%s" % tokens, "--authorization-mode=%s" % authorization,
        ]
        given = {flag.split("=")[0] for flag in flags}
        self.start(programs / "kube-apiserver", *(flag for flag in base if flag.split("=")[0] not in given), *flags)

    def start(self, program, *arguments):
        with open(self.folder / (program.name + ".log"), "w") as log:
            self.processes.append(
                subprocess.Popen([program, *arguments], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            )

    def wait(self):
        request = urllib.request.Request(self.url + "/readyz", headers={"Authorization": "Bearer " + TOKEN})
        end = time.monotonic() + READY_SECONDS
        while time.monotonic() < end and all(process.poll() is None for process in self.processes):
            try:
                if urllib.request.urlopen(request, context=ssl._create_unverified_context(), timeout=5).status == 200:
                    return
            except OSError:
                time.sleep(0.2)
        raise SystemExit("kube-apiserver is not ready:\n" + (self.folder / "kube-apiserver.log").read_text()[-2000:])

    def kubeconfig(self, path):
        """Writes one of its admin."""
        return write_kubeconfig(path, self.url)

    def __enter__(self):
        try:
            self.wait()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for process in reversed(self.processes):
            process.kill()
            process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def write_kubeconfig(path, url):
    """Of whoever has TOKEN."""
    path.write_text(
        "apiVersion: v1\nkind: Config\nclusters:\n- name: peer\n  cluster:\n    insecure-skip-tls-verify: true\n"
        f"    server: {url}\nusers:\n- name: admin\n  user:\n    token: {TOKEN}\n"
        "contexts:\n- name: peer\n  context:\n    cluster: peer\n    user: admin\ncurrent-context: peer\n")
    return path


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]
