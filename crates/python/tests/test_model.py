"""Documents of the model are those of the program, in both packages.

Needs the standard library alone, so that an environment with nothing but the small package can run
it. `TIERLOOM_MODEL` names the module, `tierloom.model` or `tierloom_model`.
"""

import importlib
import json
import os
import subprocess
import unittest

MODULE = os.environ["TIERLOOM_MODEL"]
model = importlib.import_module(MODULE)
package = importlib.import_module(MODULE.partition(".")[0])

# A command line and the call that means the same.
DOCUMENTS = [
    (
        "predict --machine nus24 --work probe --placement 3:2",
        lambda: model.predict("nus24", "probe", "3:2"),
    ),
    (
        "predict --machine nus24 --work probe --versus cxl --workers 4",
        lambda: model.predict("nus24", "probe", versus="cxl", workers=4),
    ),
    (
        "tune probe scan --machine nus24",
        lambda: model.tune(["probe", "scan"], "nus24"),
    ),
    (
        "cost --demand 1TiB..2TiB --reuse",
        lambda: model.cost("1TiB..2TiB", reuse=True),
    ),
    (
        "cost --pool 4 --demand 512GiB..2TiB --set cpu.price=4500",
        lambda: model.cost("512GiB..2TiB", pool=4, set=["cpu.price=4500"]),
    ),
]

WRONG = [
    lambda: model.predict("nosuch", "probe"),
    lambda: model.predict("nus24", "nosuch"),
    lambda: model.predict("nus24", "probe", "hbm"),
    lambda: model.predict("nus24", "probe", nosuch=1),
    lambda: model.tune(["--apply"], "nus24"),
    lambda: model.tune("probe", "nus24", apply=True),
    lambda: model.cost("much"),
    lambda: model.machine("nosuch"),
]


def shell(*arguments):
    """What the program prints."""
    program = os.environ["TIERLOOM"]
    done = subprocess.run([program, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def without_times(value):
    if isinstance(value, dict):
        return {k: without_times(v) for k, v in value.items() if k != "made_at"}
    return [without_times(v) for v in value] if isinstance(value, list) else value


class ModelTest(unittest.TestCase):
    def test_documents_are_those_of_the_program(self):
        for command, call in DOCUMENTS:
            with self.subTest(command):
                printed = json.loads(shell(*command.split(), "--json"))
                self.assertEqual(without_times(call()), without_times(printed))

    def test_machines_are_those_of_the_program(self):
        listed = shell("machines")
        machines = model.machines()
        self.assertIn("nus24", machines)
        for name in machines:
            self.assertIn(name, listed)
        self.assertEqual(model.machine("nus24").strip(), shell("machines", "nus24").strip())

    def test_wrong_arguments_are_input_errors(self):
        for number, call in enumerate(WRONG):
            with self.subTest(number), self.assertRaises(package.InputError) as raised:
                call()
            self.assertIsNone(raised.exception.line)
            self.assertNotIn("\n", str(raised.exception))

    def test_errors_have_the_name_of_their_package(self):
        for error in (package.Error, package.InputError):
            self.assertEqual(error.__module__, package.__name__)
