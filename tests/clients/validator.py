#!/usr/bin/env python3
"""Suite validator-python: openapi-spec-validator over every document.

    validator.py KUBECONFIG [--record]

One of its rules cannot hold for a faithful server: that a `default` satisfies
the schema it stands in. Upstream publishes `default: {}` for structs with
required fields and `default: ""` for enums, and clients apply them. Everything
else must hold without exception; of broken defaults a document may not have
more than upstream's, whose number per document is recorded.
"""

import json
import sys
import warnings

from checks import RECORDED, check, finish, part
from kubernetes import config, dynamic
from openapi_spec_validator import OpenAPIV2SpecValidator, OpenAPIV30SpecValidator
from openapi_spec_validator.validation.keywords import ValueValidator

BROKEN_DEFAULTS = RECORDED / "broken-defaults.tsv"


class CountedDefaults(ValueValidator):
    """Counts values that do not satisfy their schema instead of reporting them."""

    count = 0

    def __call__(self, schema, value):
        validator = OpenAPIV30SpecValidator.keyword_validators["default"](self.registry)
        CountedDefaults.count += sum(1 for _ in validator(schema, value))
        return iter(())


class WithoutDefaults(OpenAPIV30SpecValidator):
    keyword_validators = {**OpenAPIV30SpecValidator.keyword_validators, "default": CountedDefaults}


def main(kubeconfig, record):
    warnings.simplefilter("ignore")
    part(documents, kubeconfig, record)
    finish()


def documents(kubeconfig, record):
    client = dynamic.DynamicClient(config.new_client_from_config(kubeconfig))

    def read(path):
        return json.loads(client.request("get", path, serialize=False).data)

    report("openapi v2", OpenAPIV2SpecValidator(read("/openapi/v2")))
    allowed = {}
    if not record:
        allowed = dict(line.split("\t") for line in BROKEN_DEFAULTS.read_text().splitlines())
    found = {}
    # Both spellings of names; a kube-apiserver ignores the parameter.
    for key, url in sorted({
        (key, entry["serverRelativeURL"])
        for root in ("/openapi/v3", "/openapi/v3?names=upstream")
        for key, entry in read(root)["paths"].items()
    }):
        CountedDefaults.count = 0
        report(f"openapi v3 {url}", WithoutDefaults(read(url)))
        found[key] = CountedDefaults.count
        most = int(allowed.get(key, 0))
        check(record or found[key] <= most, f"openapi v3 {url}: {found[key]} broken defaults, upstream has {most}")
    if record:
        BROKEN_DEFAULTS.write_text("".join(f"{key}\t{count}\n" for key, count in found.items() if count))


def report(name, validator, most=10):
    errors = list(validator.iter_errors())
    check(not errors, f"{name}: {len(errors)} complaints")
    for error in errors[:most]:
        print(f"  {'/'.join(map(str, error.absolute_path))}: {error.message[:300]}")


if __name__ == "__main__":
    main(sys.argv[1], "--record" in sys.argv[2:])
