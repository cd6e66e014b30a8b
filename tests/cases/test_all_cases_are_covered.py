"""Every public case has a test that exists, or a reason; and every test of a case here is in the list."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

from tests.cases.coverage import COVERAGE, LATER

TESTS = Path(__file__).resolve().parents[1]
COVERED = {case: tests for case, tests in COVERAGE.items() if not isinstance(tests, str)}


@cache
def defined(file: str) -> frozenset[str]:
    """The tests of a file, read without importing it."""
    tree = ast.parse((TESTS / file).read_text())
    found = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    for group in tree.body:
        if isinstance(group, ast.ClassDef):
            found |= {
                f"{group.name}::{node.name}" for node in group.body if isinstance(node, ast.FunctionDef)
            }
    return frozenset(name for name in found if name.rpartition("::")[2].startswith("test_"))


@pytest.mark.parametrize("case", COVERED)
def test_every_test_that_is_named_for_a_case_exists(case: str) -> None:
    assert COVERED[case]
    for name in COVERED[case]:
        file, _, test = name.partition("::")
        assert test in defined(file), name


def test_there_are_sixty_cases_and_what_has_no_test_says_why() -> None:
    assert len(COVERAGE) == 60
    assert all(reason.strip() for reason in COVERAGE.values() if isinstance(reason, str))
    assert set(LATER) <= set(COVERED)


def test_every_test_of_a_case_is_in_the_list() -> None:
    listed = {name for tests in COVERED.values() for name in tests}
    for path in sorted((TESTS / "cases").glob("test_*.py")):
        if path.name == Path(__file__).name:
            continue
        file = f"cases/{path.name}"
        unlisted = {f"{file}::{test}" for test in defined(file)} - listed
        assert not unlisted
