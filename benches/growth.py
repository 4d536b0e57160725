#!/usr/bin/env python3
"""How costs grow: CPU and memory of sternpost while there are more and more objects, watchers,
namespaces, definitions and connections; Markdown tables and a plot.

    growth.py --sternpost BINARY [--peer-kubeconfig FILE [--peer-store-pid N]] [--most N] [--only NAMES]

See README.md in this folder for what the rows mean. Linux only; needs Python 3.9, and the programs of
benches/floor beside the binary.
"""

import argparse
import contextlib
import json
import math
import pathlib
import sys
import tempfile

import objects
import serving

SIZES = {
    "objects": (1_000, 10_000, 100_000, 1_000_000),
    "watchers": (10, 100, 1_000, 10_000),
    "namespaces": (1, 10, 100, 1_000, 10_000),
    "definitions": (10, 100, 1_000, 10_000),
    "connections": (1, 10, 100, 1_000, 4_000),
}
STREAMS = 100  # watchers on a connection, where there are so many
NEW = 1_000  # the last ones of each size are those whose creation is measured
READS = 5_000
PAGE = 500
PAGES = 100
SELECTED = 100  # one of so many has the label that is selected by
DELIVERIES, EVENTS_LEAST, EVENTS_MOST = 100_000, 20, 2_000
WATCH_TARGETS = "at most 1.3 × the floor and at least 4.5 × cheaper than kube-apiserver"


def main():
    arguments = parse_arguments()
    figures = Figures()
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(dir=arguments.scratch)))
        programs = pathlib.Path(arguments.sternpost).parent
        bench = objects.Bench(arguments, programs / "load", folder, stack)
        for dimension, sizes in SIZES.items():
            sizes = [size for size in sizes if size <= (arguments.most or size)]
            if bench.wants(dimension):
                server = objects.start(arguments.sternpost, folder / dimension, stack)
                DIMENSIONS[dimension](Grown(bench, figures, dimension, server), sizes)
                server.stop()
                print(f"measured: {dimension}\n{figures.table(dimension)}", file=sys.stderr)
    print(figures)
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(figures.rows, indent=1) + "\n")
    if arguments.docs:
        folder = pathlib.Path(arguments.docs)
        text = f"{objects.machine()}\n\n{figures}\n\n![costs by size, logarithmic](growth.svg)"
        objects.replace_part(folder / "benchmarks.md", "growth", text)
        (folder / "growth.svg").write_text(plot(figures))


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--sternpost", required=True, metavar="BINARY", help="what to start and measure")
    parser.add_argument("--peer-kubeconfig", metavar="FILE", help="a kube-apiserver on this machine, for the watchers")
    parser.add_argument("--peer-store-pid", type=int, metavar="N", help="its etcd, whose CPU counts as its own")
    parser.add_argument("--most", type=int, metavar="N", help="no more of anything than this")
    parser.add_argument("--only", metavar="NAMES", help=f"only these of {', '.join(SIZES)}, separated by commas")
    parser.add_argument("--json", metavar="FILE", help="write the figures there, too")
    parser.add_argument("--docs", metavar="DIR", help="write them into benchmarks.md there, and growth.svg")
    parser.add_argument("--scratch", metavar="DIR", help="where to keep data; should be a real disk")
    return parser.parse_args()


class Grown:
    """A server that has more and more of one thing."""

    def __init__(self, bench, figures, dimension, server):
        self.bench, self.figures, self.dimension, self.server = bench, figures, dimension, server
        self.size, self.empty = 0, server.memory()

    def grow(self, size, label, operation, new=NEW, **options):
        """Creates what is missing to a size, and measures the last of it."""
        first = max(self.size, size - new)
        if first > self.size:
            self.bench.run(self.server, operation, first - self.size, "grow", first=self.size, **options)
            self.settle()
        before = self.server.cpu()
        self.bench.run(self.server, operation, size - first, "grow", first=first, **options)
        self.settle()
        self.size = size
        self.add(label, (self.server.cpu() - before) / (size - first))

    def read(self, label, path, count=READS, each=1, **options):
        """A GET; `each` is how many things of the size an answer has."""
        options = {"objects": self.size, "path": path, **options}
        seconds, _ = self.bench.run(self.server, "read", count, "grow", **options)
        self.add(label, seconds / count / each)

    def memory(self, label):
        self.add(label, (self.server.memory() - self.empty) / self.size, "bytes")

    def add(self, label, value, unit="seconds"):
        self.figures.add(self.dimension, label, self.size, value, unit)

    def settle(self):
        objects.settle(self.server)


def grow_objects(grown, sizes):
    objects.make_namespace(grown.server.server, "grow")
    maps = "/api/v1/namespaces/grow/configmaps"
    for size in sizes:
        grown.grow(size, "create one", "create")
        grown.memory("memory of one")
        grown.read("get one", f"{maps}/object-NUMBER")
        grown.read("list with limit=1", f"{maps}?limit=1", NEW)
        grown.read(f"the first {PAGE}", f"{maps}?limit={PAGE}", PAGES)
        # All of them once at least, each with the token of the one before.
        pages = max(PAGES, math.ceil(size / PAGE))
        seconds, _ = grown.bench.run(grown.server, "page", pages, "grow", connections=1, limit=PAGE)
        grown.add(f"a page of {PAGE}, mean of all pages", seconds / pages)
        found = size // SELECTED
        requests = max(10, 2_000 // found)
        selected = f"{maps}?labelSelector=pick%3Dyes"
        # The first one makes the index of labels.
        grown.bench.run(grown.server, "read", 1, "grow", path=selected)
        grown.read("list by a label of 1 %, an object found", selected, requests, found)


def grow_watchers(grown, sizes):
    """Also of the floor and of the peer, at the same sizes."""
    bench, arguments = grown.bench, grown.bench.arguments
    programs = pathlib.Path(arguments.sternpost).parent
    servers = {"sternpost": grown.server, "floor": objects.start_floor(programs / "floor", bench.folder, bench.stack)}
    if arguments.peer_kubeconfig:
        servers["peer"] = objects.Process(serving.Server("kube-apiserver", arguments.peer_kubeconfig), arguments.peer_store_pid)
    for name, server in servers.items():
        if name != "floor":
            objects.make_namespace(server.server, "bench-watch")
    for size in sizes:
        streams = min(size, STREAMS)
        events = min(EVENTS_MOST, max(EVENTS_LEAST, DELIVERIES // size))
        for name, server in servers.items():
            of = "" if name == "sternpost" else f", {objects.NAMES[name]}"
            grown.size = size
            grown.add(f"memory of an idle one{of}", bench.idle(server, size, streams), "bytes")
            grown.add(f"deliver one event to one{of}", bench.watch(server, 1, size, events, streams))
            objects.settle(server)
    for name in ("floor", "peer"):
        if name in servers:
            servers[name].stop()


def grow_namespaces(grown, sizes):
    body = '{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"grow-NUMBER"}}'
    one = '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"one"}}'
    filled = 0
    for size in sizes:
        grown.grow(size, "create one", "write", path="/api/v1/namespaces", body=body)
        inside = "/api/v1/namespaces/grow-NUMBER/configmaps"
        grown.bench.run(grown.server, "write", size - filled, "grow", first=filled, path=inside, body=one)
        grown.settle()
        filled = size
        grown.memory("memory of one, with a ConfigMap")
        grown.read("get a ConfigMap in one", f"{inside}/one")
        grown.read("list those in one", inside)
        grown.read("list of all, the first of them", "/api/v1/configmaps?limit=1", NEW)
        grown.read("list namespaces, each", "/api/v1/namespaces", max(3, 10_000 // size), size)


def grow_definitions(grown, sizes):
    group = "/apis/grow-NUMBER.example.com/v1"
    widgets = f"{group}/namespaces/default/widgets"
    body = '{"apiVersion":"grow-NUMBER.example.com/v1","kind":"Widget","metadata":{"name":"one"}}'
    filled = 0
    for size in sizes:
        grown.grow(size, "create one, until it is served", "define", new=100)
        grown.memory("memory of one")
        grown.bench.run(grown.server, "write", size - filled, "grow", first=filled, path=widgets, body=body)
        grown.settle()
        filled = size
        grown.read("get an object of one", f"{widgets}/one")
        grown.read("discovery of one", group)
        grown.read("discovery of all, each", "/apis", max(3, 2_000 // size), size)


def grow_connections(grown, sizes):
    objects.make_namespace(grown.server.server, "grow")
    grown.bench.run(grown.server, "create", NEW, "grow")
    for size in sizes:
        grown.settle()
        grown.size, grown.empty = size, grown.server.memory()
        requests = READS * 4
        client = objects.Client(
            grown.bench.load, grown.server, "get", requests, "grow", connections=size, objects=NEW)
        grown.settle()
        grown.memory("memory of one")
        before = grown.server.cpu()
        client.begin()
        client.end()
        grown.add("get over one of them", (grown.server.cpu() - before) / requests)


DIMENSIONS = {
    "objects": grow_objects,
    "watchers": grow_watchers,
    "namespaces": grow_namespaces,
    "definitions": grow_definitions,
    "connections": grow_connections,
}


class Figures:
    def __init__(self):
        self.rows = []

    def add(self, dimension, label, size, value, unit):
        self.rows.append({"dimension": dimension, "label": label, "size": size, "value": value, "unit": unit})
        print(f"measured: {size:,} {dimension}: {label}: {shown(value, unit)}", file=sys.stderr)

    def dimensions(self):
        return list(dict.fromkeys(row["dimension"] for row in self.rows))

    def lines(self, dimension, unit=None):
        """What was measured of each label, by size."""
        found = {}
        for row in self.rows:
            if row["dimension"] == dimension and unit in (None, row["unit"]):
                found.setdefault((row["label"], row["unit"]), {})[row["size"]] = row["value"]
        return found

    def table(self, dimension):
        lines = self.lines(dimension)
        sizes = sorted({size for values in lines.values() for size in values})
        head = [dimension, *(f"{size:,}" for size in sizes), "last ÷ first"]
        rows = [f"| {' | '.join(head)} |", f"|---|{'--:|' * (len(head) - 1)}"]
        for (label, unit), values in lines.items():
            measured = [values.get(size) for size in sizes]
            cells = [shown(value, unit) if value is not None else "–" for value in measured]
            ratio = f"{measured[-1] / measured[0]:.1f}" if measured[0] and measured[0] > 0 and measured[-1] else "–"
            rows.append(f"| {' | '.join([label, *cells, ratio])} |")
        return "\n".join(rows)

    def __str__(self):
        return "\n\n".join([*(self.table(dimension) for dimension in self.dimensions()), *self.watched()])

    def watched(self):
        """What most watchers cost beside the floor and the peer."""
        values = {label: line for (label, _), line in self.lines("watchers", "seconds").items()}
        own, others = None, []
        for label, line in values.items():
            most = max(line)
            if own is None:
                own = line[most]
            else:
                name = label.rsplit(", ", 1)[1]
                others.append(f"{own / line[most]:.2f} × what it costs {name}")
        return [f"With {most:,} watchers one delivery costs {' and '.join(others)} ({WATCH_TARGETS})."] if others else []


def shown(value, unit):
    return objects.microseconds(value) if unit == "seconds" else f"{value / 1e3:.1f} KB"


# The plot


PALETTE = ("#1f6f8b", "#d08770", "#5e8c4a", "#8f5d9b", "#c0a030", "#9aa5b1", "#444444")
PANEL_WIDTH, PANEL_HEIGHT, LEFT, TOP, BETWEEN, LINE = 330, 200, 60, 40, 90, 14


def plot(figures):
    """A panel for each thing that grows: what each costs by its number, both logarithmic. Flat is good."""
    panels = [(f"{dimension}: server CPU", figures.lines(dimension, "seconds"), "seconds") for dimension in figures.dimensions()]
    memory = {}
    for dimension in figures.dimensions():
        for (label, unit), values in figures.lines(dimension, "bytes").items():
            memory[(f"{dimension}: {label}", unit)] = values
    panels.append(("memory", memory, "bytes"))
    parts, y = [], 0
    for index in range(0, len(panels), 2):
        pair = panels[index:index + 2]
        tallest = max(len(lines) for _, lines, _ in pair)
        for column, (title, lines, unit) in enumerate(pair):
            parts.append(panel(title, lines, unit, LEFT + column * (PANEL_WIDTH + BETWEEN), y + TOP))
        y += TOP + PANEL_HEIGHT + 30 + tallest * LINE + 10
    width = LEFT + 2 * PANEL_WIDTH + BETWEEN + 40
    body = "\n".join(parts)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{y}" font-family="sans-serif" '
            f'font-size="11">\n<rect width="100%" height="100%" fill="white"/>\n{body}\n</svg>\n')


def panel(title, lines, unit, left, top):
    drawn = {label: {size: value for size, value in values.items() if value > 0} for (label, _), values in lines.items()}
    drawn = {label: values for label, values in drawn.items() if values}
    sizes = [size for values in drawn.values() for size in values] or [1]
    costs = [value for values in drawn.values() for value in values.values()] or [1]
    across = scale(sizes, left, left + PANEL_WIDTH)
    up = scale(costs, top + PANEL_HEIGHT, top)
    parts = [f'<text x="{left}" y="{top - 10}" font-weight="bold">{title}</text>']
    for power in powers(costs):
        parts.append(f'<line x1="{left}" y1="{up(power):.0f}" x2="{left + PANEL_WIDTH}" y2="{up(power):.0f}" stroke="#ddd"/>'
                     f'<text x="{left - 4}" y="{up(power) + 4:.0f}" text-anchor="end">{shown(power, unit)}</text>')
    for power in powers(sizes):
        parts.append(f'<line x1="{across(power):.0f}" y1="{top}" x2="{across(power):.0f}" y2="{top + PANEL_HEIGHT}" stroke="#eee"/>'
                     f'<text x="{across(power):.0f}" y="{top + PANEL_HEIGHT + 14}" text-anchor="middle">{power:,}</text>')
    for index, (label, values) in enumerate(drawn.items()):
        colour = PALETTE[index % len(PALETTE)]
        points = [(across(size), up(value)) for size, value in sorted(values.items())]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        dashed = ' stroke-dasharray="4 3"' if index >= len(PALETTE) else ""
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"{dashed}/>')
        parts.extend(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{colour}"/>' for x, y in points)
        y = top + PANEL_HEIGHT + 30 + index * LINE
        parts.append(f'<rect x="{left}" y="{y}" width="10" height="10" fill="{colour}"/><text x="{left + 14}" y="{y + 9}">{label}</text>')
    return "\n".join(parts)


def powers(values):
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return [10 ** power for power in range(low, max(high, low + 1) + 1)]


def scale(values, begin, end):
    marks = powers(values)
    low, high = math.log10(marks[0]), math.log10(marks[-1])
    return lambda value: begin + (math.log10(value) - low) / (high - low) * (end - begin)


if __name__ == "__main__":
    main()
