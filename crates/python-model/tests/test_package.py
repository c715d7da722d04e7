"""The small package needs nothing else, and says of itself what it does."""

import doctest
import importlib.metadata
import unittest

import tierloom_model


class PackageTest(unittest.TestCase):
    def test_nothing_else_is_needed(self):
        self.assertIsNone(importlib.metadata.requires("tierloom-model"))
        self.assertEqual(tierloom_model.__version__, importlib.metadata.version("tierloom-model"))
        with self.assertRaises(ImportError):
            importlib.import_module("tierloom")

    def test_the_example_of_its_documentation_runs(self):
        failed, tried = doctest.testmod(tierloom_model)
        self.assertEqual((failed, tried), (0, 3))
