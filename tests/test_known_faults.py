"""docs/known-faults.md: the tests that it names are there."""
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def test_each_fault_has_tests_that_exist():
    files = [f for pattern in ("test_*.py", "test_*.c") for f in (ROOT / "tests").rglob(pattern)]
    tests = set(re.findall(r"^(?:def|static void) (\w+)\(", "\n".join(f.read_text() for f in files), re.M))
    rows = re.findall(r"^\| (?!fault|-)(.*) \| .* \| (.*) \|$", (ROOT / "docs/known-faults.md").read_text(), re.M)
    assert len(rows) >= 15
    for fault, named in rows:
        names = re.findall(r"`(\w+)`", named)
        assert names and set(names) <= tests, (fault, set(names) - tests)
