import os
import subprocess
from pathlib import Path

import pytest

import tierloom

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def con():
    with tierloom.connect(threads=2) as connection:
        yield connection


@pytest.fixture(scope="session")
def shell():
    """Runs the program with arguments and returns what it prints."""
    program = os.environ["TIERLOOM"]

    def run(*arguments):
        done = subprocess.run([program, *arguments], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture(scope="session")
def ssb():
    """A connection with the tables of the Star Schema Benchmark."""
    with tierloom.connect(threads=2) as connection:
        connection.generate("ssb:0.01")
        yield connection
