#!/usr/bin/env python3
"""What a whole cluster in small costs its API server: the real kube-controller-manager, kube-scheduler and
kwok roll out one Deployment over many nodes and delete it; CPU, time and memory of sternpost, and of
kube-apiserver with its etcd; a Markdown table.

    cluster.py --sternpost BINARY --programs DIR [--nodes N] [--pods N] [--servers NAMES] [--docs DIR]

DIR holds `kube-controller-manager`, `kube-scheduler` and `kwok`, and `kube-apiserver` and `etcd` for the
peer. See README.md in this folder. Linux only; needs Python 3.9.
"""

import argparse
import contextlib
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import objects
import serving

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests"))
from peer import Peer, etcd_command  # noqa: E402

TARGET = 10  # so many times cheaper than the peer
# The clients' own limits are not what is measured.
QUERIES_PER_SECOND = 5_000
POLL_SECONDS = 0.25
IDLE_SECONDS = 15
# Hang-guards.
NODES_SECONDS, PODS_SECONDS = 300, 1_800

NODES, DEPLOYMENTS = "/api/v1/nodes", "/apis/apps/v1/namespaces/default/deployments"
PODS, REPLICA_SETS = "/api/v1/namespaces/default/pods", "/apis/apps/v1/namespaces/default/replicasets"


def main():
    arguments = parse_arguments()
    measured = {}
    for name in arguments.servers.split(","):
        with contextlib.ExitStack() as stack:
            folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(dir=arguments.scratch)))
            server, kubeconfig = START[name](arguments, folder, stack)
            measured[name] = run(arguments, server, kubeconfig, folder, stack)
    text = table(arguments, measured)
    print(text)
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(measured, indent=1) + "\n")
    if arguments.docs:
        objects.replace_part(pathlib.Path(arguments.docs) / "benchmarks.md", "cluster", f"{objects.machine()}\n\n{text}")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--sternpost", required=True, metavar="BINARY", help="what to start and measure")
    parser.add_argument("--programs", required=True, type=pathlib.Path, metavar="DIR", help="where the other programs are")
    parser.add_argument("--nodes", type=int, default=300, metavar="N")
    parser.add_argument("--pods", type=int, default=3_000, metavar="N")
    parser.add_argument("--servers", default="sternpost,peer", metavar="NAMES", help="which servers, separated by commas; `etcd` is sternpost on one")
    parser.add_argument("--json", metavar="FILE", help="write the figures there, too")
    parser.add_argument("--docs", metavar="DIR", help="write the table into benchmarks.md there")
    parser.add_argument("--logs", type=pathlib.Path, metavar="DIR", help="keep what the programs say there, and the server's metrics after each part")
    parser.add_argument("--scratch", metavar="DIR", help="where to keep data; should be a real disk")
    return parser.parse_args()


def start_sternpost(arguments, folder, stack):
    # What kube-controller-manager does is its own here, as with a kube-apiserver.
    server = objects.start(arguments.sternpost, folder / "data", stack, "--controllers=-*")
    return server, folder / "data.kubeconfig"


def start_peer(arguments, folder, stack):
    peer = stack.enter_context(Peer(arguments.programs, []))
    kubeconfig = peer.kubeconfig(folder / "peer.kubeconfig")
    store, own = (process.pid for process in peer.processes)
    return objects.Process(serving.Server("kube-apiserver", kubeconfig, own), store), kubeconfig


def start_on_etcd(arguments, folder, stack):
    """sternpost on an etcd, whose CPU counts as its own."""
    store = start_etcd(arguments.programs, folder, stack)
    server = objects.start(arguments.sternpost, folder / "data", stack, f"--etcd-servers={store.url}")
    server.parts.append(objects.process_of("etcd", server.server.address, store.pid))
    return server, folder / "data.kubeconfig"


def start_etcd(programs, folder, stack):
    command, url = etcd_command(programs, folder / "etcd", "--quota-backend-bytes", str(8 << 30))
    log = stack.enter_context(open(folder / "etcd.log", "w"))
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    stack.callback(stop, process)
    process.url = url
    return process


START = {"sternpost": start_sternpost, "peer": start_peer, "etcd": start_on_etcd}


def run(arguments, server, kubeconfig, folder, stack):
    """CPU and wall seconds of each part, and bytes of memory."""
    if arguments.logs:
        arguments.logs.mkdir(parents=True, exist_ok=True)
    start_programs(arguments, server.server.name, kubeconfig, folder, stack)
    for number in range(arguments.nodes):
        objects.send(server.server, "POST", NODES, node(number), 201)
    wait_for(f"{arguments.nodes} nodes", NODES_SECONDS, lambda: ready_nodes(server.server) == arguments.nodes)
    objects.settle(server)
    steps = {
        "idle": lambda: time.sleep(IDLE_SECONDS),
        "roll-out": lambda: roll_out(server.server, arguments.pods),
        "deletion": lambda: delete(server.server),
    }
    parts = {}
    for part, step in steps.items():
        parts[part] = measure(server, step)
        if arguments.logs:
            # How often what was asked, so far.
            metrics = serving.expect(server.server.connect().get("/metrics"), 200).body
            (arguments.logs / f"{server.server.name}-{part}.metrics").write_bytes(metrics)
        if part == "roll-out":
            objects.settle(server)
            parts["memory"] = server.memory()
    parts["peak"] = server.memory("VmHWM")
    return parts


def start_programs(arguments, name, kubeconfig, folder, stack):
    configuration = folder / "scheduler.yaml"
    configuration.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nleaderElection: {leaderElect: false}\n"
        f"clientConnection: {{kubeconfig: {kubeconfig}, qps: {QUERIES_PER_SECOND}, burst: {2 * QUERIES_PER_SECOND}}}\n")
    commands = (
        ("kube-controller-manager", f"--kubeconfig={kubeconfig}", "--leader-elect=false", "--secure-port=0",
         f"--kube-api-qps={QUERIES_PER_SECOND}", f"--kube-api-burst={2 * QUERIES_PER_SECOND}"),
        ("kube-scheduler", f"--config={configuration}", "--secure-port=0"),
        ("kwok", f"--kubeconfig={kubeconfig}", "--manage-all-nodes=true", "--node-lease-duration-seconds=40"),
    )
    for program, *options in commands:
        log = stack.enter_context(open(folder / f"{program}.log", "w"))
        process = subprocess.Popen([arguments.programs / program, *options], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        stack.callback(stop, process)
    for program, *_ in commands if arguments.logs else ():
        stack.callback(shutil.copy, folder / f"{program}.log", arguments.logs / f"{name}-{program}.log")


def stop(process):
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def node(number):
    resources = {"cpu": "32", "memory": "256Gi", "pods": "110"}
    name = f"node-{number:04}"
    metadata = {"name": name, "labels": {"kubernetes.io/hostname": name, "type": "kwok"}, "annotations": {"kwok.x-k8s.io/node": "fake"}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": {"allocatable": resources, "capacity": resources}}


def deployment(pods):
    container = {"name": "main", "image": "image", "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}}}
    template = {"metadata": {"labels": {"app": "large"}}, "spec": {"containers": [container]}}
    spec = {"replicas": pods, "selector": {"matchLabels": {"app": "large"}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "large"}, "spec": spec}


def ready_nodes(server):
    is_ready = lambda node: any(
        condition["type"] == "Ready" and condition["status"] == "True" for condition in node["status"].get("conditions", []))
    return sum(map(is_ready, read(server, NODES)["items"]))


def roll_out(server, pods):
    objects.send(server, "POST", DEPLOYMENTS, deployment(pods), 201)
    available = lambda: read(server, f"{DEPLOYMENTS}/large").get("status", {}).get("availableReplicas") == pods
    wait_for(f"{pods} pods", PODS_SECONDS, available)


def delete(server):
    objects.send(server, "DELETE", f"{DEPLOYMENTS}/large", None, 200)
    gone = lambda: not any(read(server, f"{path}?limit=1")["items"] for path in (REPLICA_SETS, PODS))
    wait_for("no pods", PODS_SECONDS, gone)


def read(server, path):
    return json.loads(serving.expect(server.connect().get(path), 200).body)


def wait_for(what, seconds, is_so):
    end = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > end:
            sys.exit(f"waited {seconds} s for {what}")
        time.sleep(POLL_SECONDS)


def measure(server, run):
    cpu, begun = server.cpu(), time.monotonic()
    run()
    measured = {"cpu": server.cpu() - cpu, "wall": time.monotonic() - begun}
    print(f"measured: {server.server.name}: {measured}", file=sys.stderr)
    return measured


def table(arguments, measured):
    own, peer = measured.get("sternpost"), measured.get("peer")
    lines = [f"{arguments.nodes:,} nodes, one Deployment of {arguments.pods:,} pods.", "",
             "| | sternpost: CPU | wall | kube-apiserver and etcd: CPU | wall | × cheaper | at least |", "|---|--:|--:|--:|--:|--:|--:|"]
    seconds = lambda of, part: [f"{of[part]['cpu']:.1f} s", f"{of[part]['wall']:.1f} s"] if of else ["–", "–"]
    for part, target in (("roll-out", TARGET), ("deletion", TARGET), ("idle", "–")):
        ratio = f"{peer[part]['cpu'] / own[part]['cpu']:.1f}" if own and peer else "–"
        lines.append(f"| {part} | {' | '.join([*seconds(own, part), *seconds(peer, part), ratio, str(target)])} |")
    lines.append("")
    for name, of in (("sternpost", own), ("kube-apiserver and etcd", peer)):
        if of:
            lines.append(f"Memory of {name}: {of['memory'] / 1e6:.0f} MB when all run, {of['peak'] / 1e6:.0f} MB at most.")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
