import pytest


def test_a_namespace_of_its_own(sternpost, sternpost_namespace):
    path = f"/api/v1/namespaces/{sternpost_namespace}/configmaps"
    made = sternpost.request("POST", path, {"metadata": {"name": "a"}, "data": {"b": "c"}})
    assert made["metadata"]["namespace"] == sternpost_namespace


def test_the_official_client(sternpost_client, sternpost_namespace):
    from kubernetes import client

    core = client.CoreV1Api(sternpost_client)
    core.create_namespaced_config_map(sternpost_namespace, {"metadata": {"name": "a"}, "data": {"b": "c"}})
    assert core.read_namespaced_config_map("a", sternpost_namespace).data == {"b": "c"}
    with pytest.raises(client.ApiException) as error:
        core.read_namespaced_config_map("b", sternpost_namespace)
    assert error.value.status == 404


def test_settings_are_read_and_failures_show_the_log(pytester):
    pytester.makeini("""
        [pytest]
        sternpost_load = manifests.yaml
        sternpost_controllers = false
        sternpost_flags = --log-level=debug
    """)
    pytester.makefile(".yaml", manifests="apiVersion: v1\nkind: Namespace\nmetadata:\n  name: loaded\n")
    pytester.makepyfile("""
        def test_loaded(sternpost):
            assert sternpost.request("GET", "/api/v1/namespaces/loaded")["metadata"]["name"] == "loaded"

        import time

        import pytest
        from sternpost import ApiError

        def fail(server, path):
            with pytest.raises(ApiError):
                server.request("GET", path)
            # The server tells of a request when it has been answered, and its log is read by a thread.
            while path not in server.log:
                time.sleep(0.01)
            assert False

        def test_fails(sternpost):
            fail(sternpost, "/api/v1/namespaces/first")

        def test_fails_too(sternpost):
            fail(sternpost, "/api/v1/namespaces/second")
    """)
    result = pytester.runpytest_subprocess()
    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines(["*sternpost log*", "*/api/v1/namespaces/first*", "*sternpost log*", "*/api/v1/namespaces/second*"])
