"""Counting for the Python suites: check() as often as there is something to
check, finish() once at the end. An exception in a part() is a failed check and
leaves the other parts to run."""

import pathlib
import sys
import traceback

RECORDED = pathlib.Path(__file__).parent / "recorded"
RESOURCE_COLUMNS = (
    "group_version", "name", "singular", "scope", "response", "kind", "verbs", "short_names", "categories", "hash",
)

ran = failed = 0


def check(ok, message):
    global ran, failed
    ran += 1
    if not ok:
        failed += 1
        print(f"FAIL {message}")
    return bool(ok)


def equal(what, got, expected):
    return check(got == expected, f"{what}: {got!r}, expected {expected!r}")


def same_set(what, got, expected, most=20):
    got, expected = set(got), set(expected)
    if not check(got == expected, f"{what}: answers differ"):
        for label, lines in (("unexpected", got - expected), ("missing", expected - got)):
            for line in sorted(lines, key=str)[:most]:
                print(f"  {label}: {line}")


def part(function, *arguments):
    try:
        return function(*arguments)
    except Exception as problem:
        traceback.print_exc()
        check(False, f"{function.__name__}: {problem!r}"[:500])
        return None


def recorded_resources():
    """The rows of recorded/resources.tsv as dictionaries."""
    lines = (RECORDED / "resources.tsv").read_text().splitlines()
    return [dict(zip(RESOURCE_COLUMNS, line.split("\t"), strict=True)) for line in lines]


def finish():
    print(f"checks {ran} failed {failed}")
    sys.exit(1 if failed else 0)
