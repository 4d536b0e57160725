"""The Kubernetes API for tests: a throw-away server that starts in a fraction of a second.

    with sternpost.start(load=["crds/"]) as server:
        server.request("GET", "/api/v1/namespaces")

With pytest the fixtures `sternpost`, `sternpost_namespace` and `sternpost_client` are there by themselves.
"""

from ._server import ApiError, Server, StartError, find_binary, start

__all__ = ["ApiError", "Server", "StartError", "__version__", "find_binary", "start"]

__version__ = "0.1.0"
