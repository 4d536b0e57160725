"""What `benches/profile.py` reads and compares; needs neither a server nor valgrind.

    python3 -m unittest discover -s benches/tests
"""

import importlib.util
import io
import json
import sys
import tempfile
import unittest
from contextlib import redirect_stdout
from pathlib import Path

BENCHES = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(BENCHES))
# By its path: Python has a module of the same name.
spec = importlib.util.spec_from_file_location("budgets", BENCHES / "profile.py")
profile = importlib.util.module_from_spec(spec)
spec.loader.exec_module(profile)

HANDLER = profile.STAGES["handler"]
BODY = profile.STAGES["body"]
REQUEST = profile.STAGES["request"]
STORE = profile.STAGES["store"]

# A request of 10 + 100 + 5 instructions: its handler allocates twice and asks for the time once; another
# thread allocates once. Positions and the last columns are as callgrind writes them, zeros left out.
DUMP = f"""events: Ir sysCount sysTime
fn=(1) {REQUEST}
10 10
cfn=(2) {HANDLER}
calls=1 20
+1 105 3 7

fn=(2)
20 100 1
cfn=(3) mi_malloc_aligned'{HANDLER}'{REQUEST}
calls=2 1
* 4
cfn=(4) clock_gettime@@GLIBC_2.17'{HANDLER}'{REQUEST}
calls=2 1
* 1 2

fn=(3)
1 4

fn=(4)
1 1 2

fn=(5) {STORE}
30 50 2
cfn=(6) mi_malloc_aligned'{STORE}
calls=1 1
* 3

fn=(6)
1 3
"""


def written(text):
    file = tempfile.NamedTemporaryFile("w", suffix=".out")
    file.write(text)
    file.flush()
    return file


class Reading(unittest.TestCase):
    def test_stages_have_what_they_call(self):
        with written(DUMP) as file:
            figures = profile.of_callgrind(profile.Dump(file.name), 1)
        self.assertEqual(figures["instructions: all"], 168)
        self.assertEqual(figures["instructions: request"], 115)
        self.assertEqual(figures["instructions: handler"], 105)
        self.assertEqual(figures["instructions: store"], 53)
        self.assertNotIn("instructions: encoding", figures)

    def test_allocations_are_of_the_stages_that_called_them(self):
        with written(DUMP) as file:
            figures = profile.of_callgrind(profile.Dump(file.name), 2)
        self.assertEqual(figures["allocations: all"], 1.5)
        self.assertEqual(figures["allocations: handler"], 1)
        self.assertEqual(figures["allocations: request"], 1)
        self.assertEqual(figures["allocations: store"], 0.5)

    def test_asking_for_the_time_is_no_system_call(self):
        with written(DUMP) as file:
            figures = profile.of_callgrind(profile.Dump(file.name), 1)
        self.assertEqual(figures["system calls: all"], 3)
        self.assertEqual(figures["system calls: handler"], 1)
        self.assertEqual(figures["system calls: store"], 2)

    def test_bytes_copied_are_of_every_stage_around_them(self):
        copies = {
            "ftbl": ["[root]", "0x1: memcpy", f"0x2: {HANDLER} (in /program)", f"0x3: {REQUEST} (in /program)", "0x4: other",
                     "0x5: std::sync::once::Once::call_once", f"0x6: {BODY} (in /program)"],
            "pps": [{"tb": 600, "tbk": 3, "fs": [1, 2, 3]}, {"tb": 40, "tbk": 1, "fs": [1, 3]},
                    {"tb": 8, "tbk": 1, "fs": [1, 6, 2, 4]},  # apart from its request
                    {"tb": 9, "tbk": 1, "fs": [1, 6, 4]},  # of no request
                    {"tb": 7000, "tbk": 1, "fs": [1, 5, 2, 3]}],  # made once
        }
        with written(json.dumps(copies)) as file:
            figures = profile.of_dhat(Path(file.name), 2)
        self.assertEqual(figures, {"bytes copied: request": 320, "bytes copied: handler": 304, "bytes copied: body": 4})

    def test_system_calls_are_told_from_waiting(self):
        lines = """7  9.000000 writev(5<socket:[1]>, [...], 1) = 10
7  10.000000 recvfrom(5<socket:[1]>, ""..., 4096, 0, NULL, NULL) = 1272
7  10.100000 recvfrom(5<socket:[1]>, 0x1, 4096, 0, NULL, NULL) = -1 EAGAIN (Resource temporarily unavailable)
8  10.200000 fdatasync(12</data/log> <unfinished ...>
7  10.300000 write(4<anon_inode:[eventfd]>, ""..., 8) = 8
7  10.400000 futex(0x1, FUTEX_WAKE_PRIVATE, 1) = 1
8  10.500000 <... fdatasync resumed>) = 0
7  10.600000 madvise(0x1, 4096, MADV_DONTNEED) = 0
7  10.700000 writev(5<socket:[1]>, [...], 1) = 1557
7  12.000000 writev(5<socket:[1]>, [...], 1) = 10
"""
        with written(lines) as file:
            figures = profile.of_strace(Path(file.name), 1, 10, 11)
        self.assertEqual(figures, {
            "system calls: work": 3, "system calls: fdatasync": 1, "system calls: memory": 1, "system calls: recvfrom": 1,
            "system calls: waits and wake-ups": 2, "system calls: writev": 1,
        })


class Comparing(unittest.TestCase):
    BUDGET = {"instructions: handler": 1000, "allocations: body": 22, "bytes copied: request": 5000, "system calls: fdatasync": 1}

    def risen(self, **changes):
        figures = self.BUDGET | {name.replace("__", ": ").replace("_", " "): value for name, value in changes.items()}
        return profile.compare("create", self.BUDGET, figures)

    def test_what_is_as_before_or_less_passes(self):
        self.assertEqual(self.risen(), [])
        self.assertEqual(self.risen(instructions__handler=10, bytes_copied__request=0), [])

    def test_a_rise_to_five_in_a_hundred_passes_and_one_beyond_fails_with_its_stage(self):
        self.assertEqual(self.risen(instructions__handler=1050), [])
        self.assertEqual(self.risen(instructions__handler=1052),
                         ["create: instructions: handler: 1,052, more than 5% above 1,000"])

    def test_every_kind_of_figure_is_compared(self):
        for name, value in (("allocations: body", 24), ("bytes copied: request", 5300), ("system calls: fdatasync", 2)):
            with self.subTest(name):
                risen = profile.compare("create", self.BUDGET, self.BUDGET | {name: value})
                self.assertEqual(len(risen), 1)
                self.assertIn(f"create: {name}: ", risen[0])

    def test_a_stage_that_is_not_found_fails(self):
        figures = {name: value for name, value in self.BUDGET.items() if name != "allocations: body"}
        risen = profile.compare("create", self.BUDGET, figures)
        self.assertEqual(len(risen), 1)
        self.assertIn("create: allocations: body: not measured", risen[0])

    def test_system_calls_are_left_out_where_nothing_can_be_traced(self):
        figures = {name: value for name, value in self.BUDGET.items() if not name.startswith("system calls")}
        self.assertEqual(profile.compare("create", self.BUDGET, figures, traced=False), [])

    def test_an_operation_without_budget_fails(self):
        self.assertEqual(len(profile.compare("create", {}, self.BUDGET)), 1)

    def test_the_check_ends_with_1_if_anything_rose(self):
        risen = {"create": self.BUDGET | {"allocations: body": 30}}
        told = io.StringIO()
        with redirect_stdout(told):
            self.assertEqual(profile.check({"create": self.BUDGET}, {"create": self.BUDGET}, self.fail), 0)
            self.assertEqual(profile.check({"create": self.BUDGET}, dict(risen), lambda _: dict(risen)), 1)
        self.assertIn("profile: FAILED create: allocations: body: 30.00", told.getvalue())

    def test_what_rose_is_counted_once_more_and_fails_if_it_rose_again(self):
        budgets = {"create": self.BUDGET, "get": self.BUDGET}
        for name, other, expected in (("allocations: body", "allocations: body", 1), ("allocations: body", "bytes copied: request", 0)):
            asked = []

            def again(operations):
                asked.append(operations)
                return {operation: self.BUDGET | {other: 10_000} for operation in operations}
            told = io.StringIO()
            with redirect_stdout(told):
                measured = {"create": self.BUDGET | {name: 10_000}, "get": self.BUDGET}
                self.assertEqual(profile.check(budgets, measured, again), expected)
            self.assertEqual(asked, [["create"]])
            self.assertIn("profile: counted again: create: allocations: body: 10,000", told.getvalue())


class Budgets(unittest.TestCase):
    def test_every_operation_has_figures_of_every_kind(self):
        known = profile.read_budgets()
        self.assertEqual(set(known), set(profile.OPERATIONS))
        for operation, figures in known.items():
            with self.subTest(operation):
                kinds = {"instructions", "system calls"} if operation == "watch" else set(profile.LEAST_RISE)
                self.assertEqual({name.split(":")[0] for name in figures}, kinds)

    def test_what_is_written_is_read_again(self):
        with tempfile.TemporaryDirectory() as folder:
            before, profile.BUDGETS = profile.BUDGETS, Path(folder) / "budgets.tsv"
            self.addCleanup(setattr, profile, "BUDGETS", before)
            profile.write_budgets({"get": {"instructions: handler": 6652.4, "allocations: handler": 2.125, "CPU: all": 35.0}})
            self.assertEqual(profile.read_budgets(), {"get": {"instructions: handler": 6652, "allocations: handler": 2.12}})


if __name__ == "__main__":
    unittest.main()
