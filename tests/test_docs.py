"""What the documents say of the tests."""

import re

import pytest
from conftest import REPO

NAMED = sorted({
    (file.name, *found)
    for file in (REPO / "README.md", *(REPO / "docs").glob("*.md"))
    for found in re.findall(r"(test_\w+\.py)::(\w+)", file.read_text())
})


def test_tests_are_named():
    assert len(NAMED) > 50


@pytest.mark.parametrize(("document", "file", "name"), NAMED)
def test_a_test_that_a_document_names_is_there(document, file, name):
    text = (REPO / "tests" / file).read_text()
    assert re.search(rf"^def {name}\(", text, re.MULTILINE), f"{document} names {file}::{name}"
