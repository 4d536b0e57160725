#!/usr/bin/env python3
"""Makes random cases for the library: cases.py SEED COUNT, COUNT of each sort.

Shapes below are small parts of real types, with few values, so that things
often meet. Merge keys are unique within a list. `$deleteFromPrimitiveList` never
names what the same patch adds: which comes first is left to chance upstream.
"""
import copy
import json
import random
import sys


# Shapes: ("scalar", values), ("strings",) a map of strings, ("struct", fields),
# ("replaced", items), ("set", values), ("merged", items, merge key).
def one_of(*values):
    return ("scalar", values or ("x", "y", "z"))


STRINGS = ("strings",)
META = ("struct", {
    "name": one_of("n"), "labels": STRINGS, "annotations": STRINGS, "finalizers": ("set", ("a", "b", "c", "d")),
    "ownerReferences": ("merged", ("struct", {"uid": one_of("1", "2", "3"), "name": one_of(), "controller": one_of(True, False)}), "uid")})
CONTAINER = ("struct", {
    "name": one_of("a", "b", "c", "d"), "image": one_of(), "command": ("replaced", one_of()),
    "ports": ("merged", ("struct", {"containerPort": one_of(80, 81, 9, 100), "name": one_of(), "protocol": one_of("TCP", "UDP")}), "containerPort"),
    "env": ("merged", ("struct", {"name": one_of("a", "b", "c"), "value": one_of(), "valueFrom": ("struct", {"fieldRef": ("struct", {"fieldPath": one_of()})})}), "name"),
    "resources": ("struct", {"limits": STRINGS, "claims": ("replaced", ("struct", {"name": one_of()}))}),
    "securityContext": ("struct", {"capabilities": ("struct", {"add": ("replaced", one_of())}), "privileged": one_of(True, False)})})
POD = ("struct", {
    "containers": ("merged", CONTAINER, "name"), "initContainers": ("merged", CONTAINER, "name"),
    "volumes": ("merged", ("struct", {"name": one_of("a", "b", "c"), "emptyDir": ("struct", {"medium": one_of()}), "hostPath": ("struct", {"path": one_of()})}), "name"),
    "tolerations": ("replaced", ("struct", {"key": one_of(), "effect": one_of()})), "nodeName": one_of(), "nodeSelector": STRINGS,
    "hostAliases": ("merged", ("struct", {"ip": one_of("1", "2"), "hostnames": ("replaced", one_of())}), "ip")})
SELECTOR = ("struct", {"matchLabels": STRINGS, "matchExpressions": ("replaced", ("struct", {"key": one_of(), "values": ("replaced", one_of())}))})
STRATEGY = ("struct", {"type": one_of("RollingUpdate", "Recreate"), "rollingUpdate": ("struct", {"maxSurge": one_of(1, "25%")})})
TYPES = {
    "io.k8s.api.core.v1.Pod": ("struct", {"metadata": META, "spec": POD}),
    "io.k8s.api.apps.v1.Deployment": ("struct", {"metadata": META, "spec": ("struct", {
        "replicas": one_of(1, 2), "selector": SELECTOR, "strategy": STRATEGY, "template": ("struct", {"metadata": META, "spec": POD})})}),
    "io.k8s.api.policy.v1.PodDisruptionBudget": ("struct", {"metadata": META, "spec": ("struct", {"minAvailable": one_of(1, "50%"), "selector": SELECTOR})}),
    "io.k8s.api.core.v1.ServiceAccount": ("struct", {
        "metadata": META, "secrets": ("merged", ("struct", {"name": one_of(*"abcde"), "kind": one_of()}), "name"), "automountServiceAccountToken": one_of(True, False)}),
    "io.k8s.api.core.v1.Service": ("struct", {"metadata": META, "spec": ("struct", {
        "ports": ("merged", ("struct", {"port": one_of(80, 443, 8080, 9, 100), "targetPort": one_of(80, "http"), "protocol": one_of("TCP", "UDP")}), "port"),
        "selector": STRINGS, "externalIPs": ("replaced", one_of())})}),
    "io.k8s.api.core.v1.Node": ("struct", {"metadata": META, "spec": ("struct", {"taints": ("replaced", ("struct", {"key": one_of()})), "podCIDRs": ("set", tuple("abc"))}),
                                           "status": ("struct", {"conditions": ("merged", ("struct", {"type": one_of("Ready", "Disk", "Mem"), "status": one_of("True", "False")}), "type")})}),
}


class Maker:
    def __init__(self, seed):
        self.dice = random.Random(seed)

    def often(self, chance):
        return self.dice.random() < chance

    def some(self, values, chance):
        chosen = [value for value in values if self.often(chance)]
        self.dice.shuffle(chosen)
        return chosen

    def value(self, shape, depth=0):
        sort = shape[0]
        if sort == "scalar":
            return self.dice.choice(shape[1])
        if sort == "strings":
            return {key: self.dice.choice("123") for key in "abc" if self.often(0.4)}
        if sort == "struct":
            return {name: self.value(field, depth + 1) for name, field in shape[1].items() if self.often(0.75 if depth < 2 else 0.35)}
        if sort == "replaced":
            return [self.value(shape[1], depth + 1) for _ in range(self.dice.randint(0, 2))]
        if sort == "set":
            return sorted(self.some(shape[1], 0.6))
        items, key = shape[1], shape[2]
        return [{**self.value(items, depth + 1), key: name} for name in self.some(items[1][key][1], 0.5)]

    def changed(self, shape, old, much, depth=0):
        """Another value of the same shape, much or less like the old one."""
        sort = shape[0]
        if depth and self.often(much * 0.25):
            return self.value(shape, depth)
        if sort == "struct":
            kept = {name: self.changed(shape[1][name], value, much, depth + 1) for name, value in old.items() if not self.often(much * 0.3)}
            return kept | {name: self.value(field, depth + 1) for name, field in shape[1].items() if name not in old and self.often(much * 0.3)}
        if sort == "merged":
            items, key = shape[1], shape[2]
            new = [{**self.changed(items, item, much, depth + 1), key: item[key]} for item in old if not self.often(much * 0.5)]
            for item in self.value(shape, depth) if self.often(much) else []:
                if all(item[key] != other[key] for other in new):
                    new.insert(self.dice.randint(0, len(new)), item)
            if self.often(much * 0.5):
                self.dice.shuffle(new)
            return new
        return self.value(shape, depth) if self.often(much) else copy.deepcopy(old)

    def patch(self, shape, depth=0):
        sort = shape[0]
        if depth and self.often(0.06):
            return None
        if sort == "merged":
            return self.patch_list(shape, depth)
        if sort != "struct":
            return self.value(shape, depth)
        patch = {name: self.patch(field, depth + 1) for name, field in shape[1].items() if self.often(0.5 if depth < 2 else 0.25)}
        if depth and self.often(0.04):
            patch["$patch"] = self.dice.choice(["replace", "delete"])
        if self.often(0.06):
            patch["$retainKeys"] = [name for name in shape[1] if (name in patch and self.often(0.97)) or self.often(0.3)]
        for name, field in shape[1].items():
            mentioned = patch.get(name) or []
            if field[0] == "set" and self.often(0.2):
                patch["$deleteFromPrimitiveList/" + name] = [value for value in self.some(field[1], 0.4) if value not in mentioned]
            if field[0] == "set" and self.often(0.3):
                patch["$setElementOrder/" + name] = self.order(mentioned, field[1])
            if field[0] == "merged" and self.often(0.4):
                key = field[2]
                keys = [item[key] for item in mentioned if "$patch" not in item and key in item]
                patch["$setElementOrder/" + name] = [{key: value} for value in self.order(keys, field[1][1][key][1])]
        return patch

    def patch_list(self, shape, depth):
        items, key = shape[1], shape[2]
        patch = []
        for name in self.some(items[1][key][1], 0.5):
            item = {"$patch": "delete"} if self.often(0.2) else self.patch(items, depth + 1) or {}
            if item.get("$patch") == "replace":
                del item["$patch"]
            if self.often(0.99):
                item[key] = name
            patch.append(item)
        if self.often(0.05):
            patch.insert(self.dice.randint(0, len(patch)), {"$patch": self.dice.choice(["replace", "replace", "merge", "other"])})
        return patch

    def order(self, keys, others):
        order = list(keys)
        for other in self.some(others, 0.6):
            if other not in order:
                order.insert(self.dice.randint(0, len(order)), other)
        if self.often(0.05):
            self.dice.shuffle(order)
        return order

    def anything(self, depth=0):
        if depth > 3 or self.often(0.4):
            return self.dice.choice([1, 2, "a", "b", None, True, 1.5, ""])
        if self.often(0.6):
            return {key: self.anything(depth + 1) for key in "abcd" if self.often(0.45)}
        return [self.anything(depth + 1) for _ in range(self.dice.randint(0, 3))]

    def document(self):
        return {key: self.anything(1) for key in "abcd" if self.often(0.7)}

    def changed_document(self, old, depth=0):
        if depth and self.often(0.2):
            return self.anything(depth)
        if isinstance(old, dict):
            new = {key: self.changed_document(value, depth + 1) for key, value in old.items() if self.often(0.8)}
            return new | ({self.dice.choice("abcd"): self.anything(depth + 1)} if self.often(0.3) else {})
        if isinstance(old, list):
            return [self.changed_document(item, depth + 1) for item in old if self.often(0.85)]
        return old

    def pointer(self, document):
        pointer = ""
        while isinstance(document, (dict, list)) and not (pointer and self.often(0.15)):
            if isinstance(document, dict):
                step = self.dice.choice([*document, *document, *document, "q"])
                document = document.get(step)
            else:
                step = self.dice.choice([str(self.dice.randint(-5, 5)), str(self.dice.randint(0, 2)), "-", "01", "+1", "x"])
                try:
                    document = document[int(step)]
                except (IndexError, ValueError):
                    document = None
            pointer += "/" + step
        return pointer

    def operations(self, document):
        operations = []
        for _ in range(self.dice.randint(1, 3)):
            operation = {"op": self.dice.choice(["add", "remove", "replace", "move", "copy", "test"]), "path": self.pointer(document), "value": self.anything(2)}
            if operation["op"] in ("move", "copy"):
                operation["from"] = self.pointer(document)
            if operation["op"] != "test" and operation["value"] is None or self.often(0.1):
                del operation["value"]
            operations.append(operation)
        return operations


def main():
    maker, count = Maker(int(sys.argv[1])), int(sys.argv[2])
    for _ in range(count):
        for name, shape in TYPES.items():
            old = maker.value(shape)
            print(json.dumps({"op": "smp", "type": name, "a": old, "b": maker.patch(shape)}))
            much = maker.dice.choice([0.1, 0.3, 0.6])
            print(json.dumps({"op": "two", "type": name, "a": old, "b": maker.changed(shape, old, much)}))
            first = old if maker.often(0.9) else {}
            case = {"op": "three", "type": name, "a": first, "b": maker.changed(shape, old, much), "c": maker.changed(shape, old, much)}
            print(json.dumps(case | {"overwrite": maker.often(0.8)}))
        for op in ("merge", "jtwo", "jthree", "json", "json"):
            old = maker.document()
            new = maker.operations(old) if op == "json" else maker.changed_document(old)
            print(json.dumps({"op": op, "a": old, "b": new} | ({"c": maker.changed_document(old)} if op == "jthree" else {})))


main()
