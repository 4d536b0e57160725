#!/usr/bin/env python3
"""Records what Go's libraries answer, or compares it with what is recorded.

    record.py [--check] [NAME...]

NAMEs are those of FILES. Needs Go; the modules that go.mod names are downloaded.
"""
import json
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
CRATES = HERE.parents[1] / "crates"
sys.path.append(str(HERE.parent))
import recording

# Enough for an answer that comes every second time.
ROUNDS = 30


def apply(answers, check, name):
    """Requests with their answers. What is told of several errors, and in which order, is chance."""
    path = CRATES / "apply/tests/recorded" / (name + ".jsonl")
    before = recording.read_lines(path)
    requests = [case["request"] for case in before]
    cases = []
    for recorded, *told in zip(before, *(answers(name, requests) for _ in range(ROUNDS))):
        again = (answer for answer in told if in_order(answer) == in_order(recorded["answer"]))
        cases.append({"request": recorded["request"], "answer": next(again, told[0])})
    return recording.settle(path, cases, check, in_order, compact)


def in_order(value):
    if isinstance(value, dict):
        return {key: words(each) if key.endswith("error") else in_order(each) for key, each in value.items()}
    return [in_order(each) for each in value] if isinstance(value, list) else value


def words(text):
    return sorted(text.split("\n"))


def compact(case):
    return json.dumps(case, separators=(",", ":"), ensure_ascii=False)


def read(answers, check, name):
    """Tables of `TEXT => VALUE`; in the one of differences a third column is ours."""
    path = CRATES / "yaml/tests/data" / (name + ".txt")
    lines = path.read_text().removesuffix("\n").split("\n")
    questions = [json.loads(line.split(" => ")[0]) for line in lines if not line.startswith("#")]
    told = iter(answers("read", questions))
    different = 0
    for index, line in enumerate(lines):
        if line.startswith("#"):
            continue
        text, recorded, *ours = line.split(" => ")
        answer = next(told)
        if name == "differences":
            # That a key is set twice is what we say; the table has what upstream then reads.
            answer = answer.removesuffix(" (key set twice)")
        # Two keys become the same one, in no order.
        if answer not in recorded.split(" or "):
            different += 1
            print("%s: %s\n  recorded %s\n  now      %s" % (path.name, text, recorded, answer))
            lines[index] = " => ".join([text, answer, *ours])
    if not check:
        path.write_text("\n".join(lines) + "\n")
    print("%s: %d cases, %d differ" % (path.name, len(questions), different))
    return different


def written(answers, check, name):
    path = CRATES / "yaml/tests/data/written.jsonl"
    values = [case["value"] for case in recording.read_lines(path)]
    cases = [{"value": value, "yaml": text} for value, text in zip(values, answers(name, values))]
    return recording.settle(path, cases, check)


def merged(path, questions):
    """Lines that have the question and the answer in one object."""

    def record(answers, check, name):
        before = recording.read_lines(path)
        asked = [{key: case[key] for key in questions if key in case} for case in before]
        cases = [{**question, **answer} for question, answer in zip(asked, answers(name, asked))]
        for case, recorded in zip(cases, before):
            if "upstream_milli" in recorded:
                case["upstream_milli"], case["milli"] = case["milli"], recorded["milli"]
        return recording.settle(path, cases, check, write=compact)

    return record


def selectors(answers, check, name):
    """A line of sets is what the selectors after it are tried on."""
    path = CRATES / "meta/tests/selectors.jsonl"
    cases, sets = recording.read_lines(path), []
    asked = []
    for case in cases:
        sets = case.get("sets", sets)
        asked.append({"sets": sets, **question_of(case)})
    now = [
        case if "sets" in case else {**question_of(case), **answer}
        for case, answer in zip(cases, answers(name, asked))
    ]
    return recording.settle(path, now, check)


def question_of(case):
    return {key: case[key] for key in ("sets", "label", "field", "object") if key in case}


def gnostic(answers, check, name):
    """A list with a document a line, and its bytes."""
    path = CRATES / "wire/tests/data" / (name + ".json")
    cases = json.loads(path.read_text())
    found = answers(name, [case["document"] for case in cases])
    different = [case["rule"] for case, bytes in zip(cases, found) if case["hex"] != bytes]
    for rule in different:
        print("%s: %s" % (path.name, rule))
    if different and not check:
        lines = [json.dumps({**case, "hex": bytes}, ensure_ascii=False) for case, bytes in zip(cases, found)]
        path.write_text("[\n" + ",\n".join(lines) + "\n]\n")
    print("%s: %d cases, %d differ" % (path.name, len(cases), len(different)))
    return len(different)


def encrypted(answers, check, name):
    """What is stored of a value is recorded once, and opened from then on: it is never the same twice."""
    path = CRATES / "encryption/tests/recorded.jsonl"
    before = recording.read_lines(path)
    given = lambda case: ("stored",) if "stored" in case else ("value",)
    asked = [{key: case[key] for key in ("config", "plugins", "resource", "context", *given(case)) if key in case} for case in before]
    cases = [{**question, **answer} for question, answer in zip(asked, answers(name, asked))]
    return recording.settle(path, cases, check, write=compact)


FILES = {
    "wire": {"gnostic_v2": gnostic, "gnostic_v3": gnostic},
    "apply": {"fields": apply, "typed": apply, "sequences": apply},
    "yaml": {**dict.fromkeys(["scalars", "tags", "keys", "aliases", "structure", "differences"], read), "written": written},
    "meta": {"quantity": merged(CRATES / "meta/tests/quantity.jsonl", ["text", "left", "right"]), "selectors": selectors},
    "encryption": {"encryption": encrypted},
    "golang": {"times": merged(CRATES / "golang/tests/times.jsonl", ["form", "text"])},
}


def main():
    check, names = "--check" in sys.argv, [name for name in sys.argv[1:] if name != "--check"]
    different = 0
    with recording.libraries() as answers:
        for suite, files in FILES.items():
            for name, record in files.items():
                if not names or suite in names or name in names:
                    different += record(answers, check, name)
    sys.exit(1 if check and different else 0)


main()
