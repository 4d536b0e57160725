#!/usr/bin/env python3
"""Writes build-stories.case: overlays composed at random from kustomize's features.

    tests/kustomize/stories.py [COUNT] > crates/kustomize/tests/cases/build-stories.case
    KUSTOMIZE=... tests/kustomize/record.py crates/kustomize/tests/cases/build-stories.case

The same COUNT gives the same stories. Nothing is left out for what it answers: a story whose
parts do not fit together records the error.
"""

import json
import random
import sys

SEED = 20261115
NAMES = ["web", "api", "db", "cache", "job-a", "front", "queue"]
IMAGES = ["nginx:1.20", "redis", "my.reg:5000/team/app:v1", "busybox@sha256:" + "ab" * 32, "nginx"]
WORDS = ["alpha", "beta", "true", "1.10", "0777", "2020-01-01", "a: b", "on", "", "x y", "# no", "multi\nline", "é"]


class Story:
    def __init__(self, number):
        self.pick = random.Random(f"{SEED}-{number}")
        self.files = {}
        self.objects = []  # what the layer being written can see
        self.generated = set()
        self.taken = set()

    def some(self, values, most):
        return self.pick.sample(values, self.pick.randint(0, min(most, len(values))))

    def chance(self, percent):
        return self.pick.randrange(100) < percent

    def write(self, path, value):
        self.files[path] = dump(value) if not isinstance(value, str) else value

    # --- resources

    def metadata(self, name):
        metadata = {"name": name}
        if self.chance(20):
            metadata["namespace"] = self.pick.choice(["default", "team-a", "team-b"])
        if self.chance(40):
            metadata["labels"] = {key: self.pick.choice(WORDS[:6]) for key in self.some(["app", "tier", "v"], 2)}
        if self.chance(30):
            metadata["annotations"] = {key: self.pick.choice(WORDS) for key in self.some(["note", "z.io/a"], 2)}
        return metadata

    def container(self, name):
        container = {"name": name, "image": self.pick.choice(IMAGES)}
        if self.chance(40):
            container["env"] = [
                {"name": key, "value": self.pick.choice(WORDS)} for key in self.some(["A", "B", "C"], 3)
            ]
        if self.chance(30):
            container["envFrom"] = [{"configMapRef": {"name": self.pick.choice(["settings", "web", "gen"])}}]
        if self.chance(40):
            container["ports"] = [
                {"containerPort": port, **({"protocol": "TCP"} if self.chance(50) else {})}
                for port in self.some([80, 443, 8080], 2)
            ]
        if self.chance(20):
            container["args"] = self.some(["--a", "--b=1", "c"], 3)
        return container

    def pod_spec(self):
        spec = {"containers": [self.container(name) for name in ["main", "side"][: self.pick.randint(1, 2)]]}
        if self.chance(25):
            spec["initContainers"] = [self.container("init")]
        if self.chance(40):
            spec["volumes"] = [
                {"name": "v", "secret": {"secretName": self.pick.choice(["keys", "gen"])}},
                {"name": "w", "configMap": {"name": self.pick.choice(["settings", "gen"])}},
            ]
        if self.chance(30):
            spec["serviceAccountName"] = self.pick.choice(["runner", "default"])
        return spec

    def resource(self):
        name = self.pick.choice(NAMES)
        kind = self.pick.choice(
            ["Deployment", "StatefulSet", "DaemonSet", "CronJob", "Pod", "Service", "ConfigMap", "Secret",
             "ServiceAccount", "RoleBinding", "Ingress", "HorizontalPodAutoscaler", "Namespace", "Widget",
             "ClusterRole", "PersistentVolumeClaim"]
        )
        versions = {
            "Deployment": "apps/v1", "StatefulSet": "apps/v1", "DaemonSet": "apps/v1", "CronJob": "batch/v1",
            "RoleBinding": "rbac.authorization.k8s.io/v1", "ClusterRole": "rbac.authorization.k8s.io/v1",
            "Ingress": "networking.k8s.io/v1", "HorizontalPodAutoscaler": "autoscaling/v2", "Widget": "example.com/v1",
        }
        if kind == "ConfigMap":
            name = self.pick.choice(["settings", "web"])
        if kind == "Secret":
            name = "keys"
        if kind == "ServiceAccount":
            name = "runner"
        made = {"apiVersion": versions.get(kind, "v1"), "kind": kind, "metadata": self.metadata(name)}
        template = {"metadata": {"labels": {"app": name}}, "spec": self.pod_spec()}
        if kind in ("Deployment", "StatefulSet", "DaemonSet"):
            made["spec"] = {"selector": {"matchLabels": {"app": name}}, "template": template}
            if kind != "DaemonSet" and self.chance(50):
                made["spec"]["replicas"] = self.pick.randint(0, 5)
            if kind == "StatefulSet":
                made["spec"]["serviceName"] = self.pick.choice(NAMES)
        elif kind == "CronJob":
            made["spec"] = {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": template}}}
        elif kind == "Pod":
            made["spec"] = template["spec"]
        elif kind == "Service":
            made["spec"] = {"selector": {"app": name}, "ports": [{"port": 80}, {"port": 443, "protocol": "TCP"}]}
        elif kind == "ConfigMap":
            made["data"] = {key: self.pick.choice(WORDS) for key in self.some(["a", "b", "c.txt"], 3)}
        elif kind == "Secret":
            made["stringData"] = {"k": self.pick.choice(WORDS)}
        elif kind == "RoleBinding":
            made["roleRef"] = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": self.pick.choice(NAMES)}
            made["subjects"] = [{"kind": "ServiceAccount", "name": self.pick.choice(["runner", "default"]), "namespace": "default"}]
        elif kind == "Ingress":
            made["spec"] = {"rules": [{"host": "h", "http": {"paths": [{"backend": {"service": {"name": self.pick.choice(NAMES)}}}]}}]}
        elif kind == "HorizontalPodAutoscaler":
            made["spec"] = {"scaleTargetRef": {"kind": "Deployment", "name": self.pick.choice(NAMES)}, "maxReplicas": 3}
        elif kind == "Widget":
            made["spec"] = {"parts": [{"name": "p", "size": self.pick.randint(1, 9)}], "image": "nginx", "on": self.chance(50)}
        elif kind == "ClusterRole":
            made["rules"] = [{"verbs": ["get"], "resources": ["secrets"], "resourceNames": ["keys"]}]
        return made

    # --- kustomizations

    def layer(self, directory, below, visible, is_component=False):
        """One kustomization; `below` are the paths of its bases, `visible` what they hold."""
        self.objects = [made for made in visible if made["kind"] != "generated"]
        self.generated = {made["metadata"]["name"] for made in visible if made["kind"] == "generated"}
        k = {"kind": "Component", "apiVersion": "kustomize.config.k8s.io/v1alpha1"} if is_component else {}
        resources = list(below)
        fresh = []
        for _ in range(self.pick.randint(0 if below or is_component else 1, 4)):
            made = self.resource()
            key = (made["kind"], made["metadata"]["name"])
            if key not in self.taken or self.chance(2):
                self.taken.add(key)
                fresh.append(made)
        if fresh:
            self.write(f"{directory}/own.yaml", "---\n".join(dump(made) for made in fresh))
            resources.append("own.yaml")
        self.objects += fresh
        if resources:
            k["resources"] = resources
        if self.chance(25):
            k["namePrefix"] = self.pick.choice(["p-", "dev-", "x1-"])
        if self.chance(15):
            k["nameSuffix"] = self.pick.choice(["-s", "-v2"])
        if self.chance(20):
            k["namespace"] = self.pick.choice(["prod", "stage"])
        if self.chance(25):
            k["labels"] = [{"pairs": {"team": self.pick.choice(["a", "true", "7"])}}]
            flag = self.pick.choice([None, "includeSelectors", "includeTemplates"])
            if flag:
                k["labels"][0][flag] = True
        if self.chance(15):
            k["commonLabels"] = {"env": self.pick.choice(["dev", "1"])}
        if self.chance(20):
            k["commonAnnotations"] = {"owner": self.pick.choice(WORDS)}
        if self.chance(25):
            k["images"] = [
                {"name": name, **self.pick.choice([{"newTag": "v9"}, {"newName": "other/name"}, {"digest": "sha256:" + "cd" * 32}])}
                for name in self.some(["nginx", "redis", "my.reg:5000/team/app", "busybox"], 2)
            ]
        workloads = [o for o in self.objects if o["kind"] in ("Deployment", "StatefulSet")]
        if workloads and self.chance(20):
            k["replicas"] = [{"name": self.pick.choice(workloads)["metadata"]["name"], "count": self.pick.randint(0, 9)}]
        self.generators(directory, k)
        if self.chance(60):
            k["patches"] = [self.patch(directory, number) for number in range(self.pick.randint(1, 3)) if self.objects]
        if self.objects and self.chance(20):
            k["replacements"] = [self.replacement()]
        if self.chance(10):
            k["buildMetadata"] = self.some(["originAnnotations", "transformerAnnotations", "managedByLabel"], 3)
        if self.chance(15):
            k["sortOptions"] = {"order": self.pick.choice(["fifo", "legacy"])}
        if self.chance(10):
            self.write(f"{directory}/t.yaml", {
                "apiVersion": "builtin", "kind": "PrefixTransformer", "metadata": {"name": "t"},
                "prefix": "t-", "fieldSpecs": [{"path": "metadata/name", "kind": self.pick.choice(["Service", "ConfigMap"])}],
            })
            k["transformers"] = ["t.yaml"]
        self.write(f"{directory}/kustomization.yaml", k)
        return self.objects + [{"kind": "generated", "metadata": {"name": name}} for name in sorted(self.generated)]

    def generators(self, directory, k):
        for field in ("configMapGenerator", "secretGenerator"):
            if not self.chance(25):
                continue
            made = {"name": self.pick.choice(["gen", "conf"])}
            key = f"{field}/{made['name']}"
            if key in self.generated or self.chance(2):
                made["behavior"] = self.pick.choice(["merge", "merge", "replace"])
            elif key in self.taken and self.chance(90):
                continue
            self.generated.add(key)
            self.taken.add(key)
            if self.chance(80):
                made["literals"] = [f"{key}={self.pick.choice(WORDS)}" for key in self.some(["a", "b", "c"], 3)]
            if self.chance(30):
                self.write(f"{directory}/file.txt", self.pick.choice(["text\n", "a\nb\n", "tab\there\n"]))
                made["files"] = ["file.txt"]
            if self.chance(20):
                self.write(f"{directory}/some.env", "E=1\nF=two words\n# no\n")
                made["envs"] = ["some.env"]
            if self.chance(30):
                made["options"] = {"disableNameSuffixHash": True, "labels": {"made": "here"}}
            k[field] = [made]
        if self.chance(10):
            k["generatorOptions"] = {"annotations": {"g": "o"}, **({"immutable": True} if self.chance(50) else {})}

    def patch(self, directory, number):
        target = self.pick.choice(self.objects)
        kind = target["kind"]
        if self.chance(40):
            fitting = [
                {"op": "add", "path": "/metadata/annotations", "value": {"patched": self.pick.choice(WORDS)}},
                {"op": "test", "path": "/kind", "value": kind},
            ]
            if "spec" in target:
                fitting.append({"op": "add", "path": "/spec/extra", "value": [1, "two", None, {"a": 1.5}]})
            if "replicas" in target.get("spec", {}):
                fitting.append({"op": "replace", "path": "/spec/replicas", "value": 8})
            if "data" in target:
                fitting.append({"op": "add", "path": "/data/added", "value": self.pick.choice(WORDS)})
            if self.chance(5):
                fitting.append({"op": "remove", "path": "/spec/extra"})
            ops = [self.pick.choice(fitting) for _ in range(self.pick.randint(1, 3))]
            selector = {"kind": kind}
            if self.chance(50):
                selector["name"] = self.pick.choice([target["metadata"]["name"], ".*"])
            return {"target": selector, "patch": json.dumps(ops)}
        change = {"apiVersion": target["apiVersion"], "kind": kind, "metadata": {"name": target["metadata"]["name"]}}
        if "namespace" in target["metadata"]:
            change["metadata"]["namespace"] = target["metadata"]["namespace"]
        pod = {"containers": [self.pick.choice([
            {"name": "main", "image": "patched:1"},
            {"name": "side", "env": [{"name": "B", "value": "patched"}, {"name": "NEW", "value": "1"}]},
            {"name": "extra", "image": "extra"},
            {"name": "main", "$patch": "delete"},
            {"name": "main", "ports": [{"containerPort": 8080, "name": "p"}]},
        ])]}
        if self.chance(15):
            pod["volumes"] = [{"name": "v", "secret": None, "emptyDir": {}}]
        body = self.pick.choice(["pod", "meta", "meta", "delete" if self.chance(30) else "pod"])
        if body == "delete":
            change["$patch"] = "delete"
            self.objects.remove(target)
        elif body == "meta":
            change["metadata"]["labels"] = {"patched": self.pick.choice(WORDS[:6]), "app": None}
            change["metadata"]["annotations"] = {"note": self.pick.choice(WORDS)}
        elif kind in ("Deployment", "StatefulSet", "DaemonSet"):
            change["spec"] = {"template": {"spec": pod}}
        elif kind == "CronJob":
            change["spec"] = {"jobTemplate": {"spec": {"template": {"spec": pod}}}}
        elif kind == "Pod":
            change["spec"] = pod
        elif kind == "Service":
            change["spec"] = {"ports": [{"port": 443, "protocol": "TCP", "name": "tls"}, {"port": 9090}]}
        elif kind in ("ConfigMap", "Secret"):
            change["data"] = {"a": None, "patched": self.pick.choice(WORDS)}
        elif kind == "Widget":
            change["spec"] = {"parts": [{"name": "q"}], "on": None}
        else:
            change["metadata"]["finalizers"] = ["f"]
        if self.chance(50):
            self.write(f"{directory}/patch{number}.yaml", change)
            return {"path": f"patch{number}.yaml"}
        entry = {"patch": dump(change)}
        if self.chance(40):
            entry["target"] = {"kind": kind}
        return entry

    def replacement(self):
        source, target = self.pick.choice(self.objects), self.pick.choice(self.objects)
        made = {
            "source": {"kind": source["kind"], "name": source["metadata"]["name"]},
            "targets": [{
                "select": {"kind": target["kind"]},
                "fieldPaths": [self.pick.choice(["metadata.annotations.copied", "spec.copied", "metadata.labels.app"])],
                "options": {"create": True},
            }],
        }
        if "labels" in source["metadata"] and source["metadata"]["labels"] and self.chance(50):
            made["source"]["fieldPath"] = "metadata.labels"
            made["targets"][0]["fieldPaths"] = ["spec.copied"]
        if self.chance(3):
            made["source"]["fieldPath"] = "data.a"
        if self.chance(20):
            made["targets"][0]["reject"] = [{"name": self.pick.choice(NAMES)}]
        return made

    def render(self, name):
        depth = self.pick.randint(1, 3)
        below, visible = [], []
        for level in range(depth - 1):
            width = self.pick.randint(1, 2) if level == 0 else 1
            paths, held = [], []
            for number in range(width):
                directory = f"l{level}-{number}"
                held += self.layer(directory, below, visible)
                paths.append(f"../{directory}")
            below, visible = paths, held
        if self.chance(20):
            # A component works on what the top has loaded from its bases.
            visible = self.layer("part", [], visible, is_component=True)
            self.layer("top", below, visible)
            self.files["top/kustomization.yaml"] += "components:\n- ../part\n"
        else:
            self.layer("top", below, visible)
        lines = [f"=== {name}", "$ build top"]
        for path, text in self.files.items():
            lines.append(f"-- {path} --")
            lines += [("\\" + line if line.startswith(("\\", "=== ", "-- ", ">> ")) else line) for line in text.split("\n")[:-1]]
        return "".join(line + "\n" for line in lines)


def dump(value, indent=""):
    """Block YAML whose scalars are JSON (valid YAML, and every quoted type stays quoted)."""
    if isinstance(value, dict) and value:
        out = ""
        for key, inner in value.items():
            key = key if key.replace("-", "").replace("_", "").isalnum() and key not in ("on",) else json.dumps(key)
            out += f"{indent}{key}:" + child(inner, indent)
        return out
    if isinstance(value, list) and value:
        out = ""
        for inner in value:
            if isinstance(inner, dict) and inner:
                text = dump(inner, indent + "  ")
                out += f"{indent}- " + text[len(indent) + 2 :]
            else:
                out += f"{indent}-" + child(inner, indent + "  ")
        return out
    return indent + scalar(value) + "\n"


def child(value, indent):
    if isinstance(value, dict) and value:
        return "\n" + dump(value, indent + "  ")
    if isinstance(value, list) and value:
        return "\n" + dump(value, indent)
    if isinstance(value, str) and value.count("\n") > 1 and value.endswith("\n"):
        return " |\n" + "".join(f"{indent}  {line}\n" for line in value.split("\n")[:-1])
    return " " + scalar(value) + "\n"


def scalar(value):
    if isinstance(value, str) and value.isascii() and value.replace("-", "").replace("/", "").isalpha() and len(value) > 3 and value != "true":
        return value
    return json.dumps(value, ensure_ascii=False)


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 320
    print("# Overlays composed at random by tests/kustomize/stories.py.")
    for number in range(count):
        print(Story(number).render(f"story-{number:03}"), end="")


if __name__ == "__main__":
    main()
