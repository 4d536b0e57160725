import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

import sternpost

PATIENCE = 60


def wait_until(condition):
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "it did not come to pass"
        time.sleep(0.05)


def is_running(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_server_answers_and_leaves_nothing_behind():
    with sternpost.start() as server:
        assert server.url.startswith("https://127.0.0.1:")
        assert server.request("GET", "/readyz") == "ok"
        pid, folder = server._process.pid, os.path.dirname(server.kubeconfig)
        assert os.path.exists(server.kubeconfig)
    assert not is_running(pid)
    assert not os.path.exists(folder)


def test_errors_have_the_status(sternpost):
    from sternpost import ApiError

    with pytest.raises(ApiError) as error:
        sternpost.request("GET", "/api/v1/namespaces/nowhere")
    assert error.value.code == 404
    assert error.value.status["reason"] == "NotFound"
    assert 'namespaces "nowhere" not found' in str(error.value)


def test_what_is_loaded_is_there(sternpost):
    boat = sternpost.request("GET", "/apis/example.com/v1/namespaces/harbour/boats/loaded")
    assert boat["spec"] == {"masts": 2}


def test_a_wrong_manifest_fails_the_start_with_its_place(tmp_path):
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  namespace: default\ndata:\n  a: [1]\n")
    with pytest.raises(sternpost.StartError, match=r"wrong\.yaml:7:"):
        sternpost.start(load=wrong)


def test_a_wrong_flag_fails_the_start():
    with pytest.raises(sternpost.StartError, match="ended with code 2(.|\n)*--nonsense"):
        sternpost.start(flags=["--nonsense"])


def test_controllers_are_a_switch():
    with sternpost.start(controllers=False) as server:
        name = server.create_namespace()
        server.delete_namespace(name)
        assert server.request("GET", f"/api/v1/namespaces/{name}")["status"]["phase"] == "Terminating"


def test_namespaces_end(sternpost):
    name = sternpost.create_namespace("ending-")
    assert name.startswith("ending-")
    sternpost.delete_namespace(name)

    def is_gone():
        names = [item["metadata"]["name"] for item in sternpost.request("GET", "/api/v1/namespaces")["items"]]
        return name not in names

    wait_until(is_gone)


def test_the_log_is_kept(sternpost):
    before = sternpost.log_lines
    sternpost.request("GET", "/api/v1/nodes")
    wait_until(lambda: "/api/v1/nodes" in sternpost.log_since(before))
    assert "is ready on" in sternpost.log


def test_programs_find_the_server(sternpost):
    assert sternpost.environ["KUBECONFIG"] == sternpost.kubeconfig


def test_settings_of_the_environment_are_not_for_it(monkeypatch):
    monkeypatch.setenv("STERNPOST_BINARY", sternpost.find_binary())
    monkeypatch.setenv("STERNPOST_LOG_FORMAT", "json")
    with sternpost.start() as server:
        assert server.request("GET", "/readyz") == "ok"


def test_a_missing_program_is_told(monkeypatch, tmp_path):
    monkeypatch.setenv("STERNPOST_BINARY", str(tmp_path / "none"))
    with pytest.raises(sternpost.StartError, match="there is no such file"):
        sternpost.start()
    monkeypatch.delenv("STERNPOST_BINARY")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sternpost._server, "__file__", str(tmp_path / "_server.py"))
    with pytest.raises(sternpost.StartError, match="none on the PATH"):
        sternpost.start()


@pytest.mark.skipif(sys.platform == "win32", reason="servers do not see their parents end there")
@pytest.mark.parametrize("end", ["os._exit(3)", "os.kill(os.getpid(), signal.SIGKILL)", "pass"])
def test_a_server_ends_with_the_process_that_started_it(end):
    program = textwrap.dedent(f"""
        import os, signal, sternpost
        server = sternpost.start()
        print(server._process.pid, server.kubeconfig, flush=True)
        {end}
    """)
    done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, timeout=PATIENCE)
    assert done.returncode == {"os._exit(3)": 3, "pass": 0}.get(end, -signal.SIGKILL)
    pid, kubeconfig = done.stdout.split()
    wait_until(lambda: not is_running(int(pid)))
    assert not os.path.exists(kubeconfig)


def test_the_command_is_the_program():
    version = subprocess.run([sys.executable, "-m", "sternpost", "version"], stdout=subprocess.PIPE, text=True, check=True)
    assert version.stdout.startswith(f"sternpost {sternpost.__version__} ")
