"""What recorders share: cases are compared with the recorded ones, or put in their place."""
import contextlib
import json
import pathlib
import subprocess
import tempfile

LIBRARIES = pathlib.Path(__file__).resolve().parent / "libraries"


@contextlib.contextmanager
def libraries():
    """The program that asks Go's libraries: a function of a suite and of questions."""
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder) / "libraries"
        subprocess.run(["go", "build", "-o", program, "."], cwd=LIBRARIES, check=True)

        def answers(suite, questions):
            asked = "".join(json.dumps(question) + "\n" for question in questions)
            told = subprocess.run([program, suite], input=asked, stdout=subprocess.PIPE, check=True, text=True).stdout
            return [json.loads(line) for line in told.split("\n") if line]

        yield answers


def read_lines(path):
    return [json.loads(line) for line in texts(path)]


def texts(path):
    path = pathlib.Path(path)
    # Only these end a line; texts may have what Unicode takes for one.
    return path.read_text().removesuffix("\n").split("\n") if path.exists() else []


def settle(path, cases, check, comparable=lambda case: case, write=None):
    """Says which of the cases differ from those recorded in a file, and writes them unless check is set.

    What is comparable has nothing left of times, ids and orders that are never the same twice. A case
    that does not differ in it stays as it is recorded, to the byte. Cases without a name have the number
    of their line. Gives the number of differences.
    """
    name = lambda number, case: case.get("name") or case.get("case") or "line %d" % number
    named = lambda cases: {name(number, case): case for number, case in enumerate(cases, 1)}
    write = write or (lambda case: json.dumps(case, sort_keys=True, ensure_ascii=False))
    before, now = named(read_lines(path)), named(cases)
    assert len(now) == len(cases), "two cases of %s have the same name" % path
    recorded = dict(zip(before, texts(path)))
    different = 0
    for key in [*now, *(key for key in before if key not in now)]:
        if key not in now or key not in before:
            difference = "is no longer asked" if key not in now else "is new"
        elif comparable(before[key]) != comparable(now[key]):
            difference = first_difference(comparable(before[key]), comparable(now[key]))
        else:
            continue
        recorded.pop(key, None)
        different += 1
        print("%s: %s: %s" % (pathlib.Path(path).name, key, difference))
    if not check:
        with open(path, "w") as out:
            out.writelines(recorded.get(key, write(case)) + "\n" for key, case in now.items())
    print("%s: %d cases, %d differ" % (pathlib.Path(path).name, len(now), different), flush=True)
    return different


def first_difference(before, now, place=""):
    """Where two values part, and what stands there."""
    if isinstance(before, dict) and isinstance(now, dict):
        for key in [*before, *now]:
            if before.get(key, ...) != now.get(key, ...):
                return first_difference(before.get(key, ...), now.get(key, ...), "%s.%s" % (place, key))
    if isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        for index, (one, other) in enumerate(zip(before, now)):
            if one != other:
                return first_difference(one, other, "%s[%d]" % (place, index))
    show = lambda value: "nothing" if value is ... else json.dumps(value, ensure_ascii=False)
    return "%s\n  recorded %s\n  now      %s" % (place or "it", show(before), show(now))
