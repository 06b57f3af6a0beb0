"""The tests of test_schema_masks.py with more random schemas and patterns."""
from test_schema_masks import check_regular_expressions, check_schemas


def test_ten_thousand_random_schemas():
    check_schemas(10000)


def test_three_thousand_random_regular_expressions():
    check_regular_expressions(3000)
