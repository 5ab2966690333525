"""tools/lib/named_paths.py, the check of the paths that prose names."""

import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/lib"))

import named_paths

NAMED = named_paths.pattern(["base", "docs", "tests"])


@pytest.mark.parametrize("file, text", [
    ("a.cc", "// docs/no-such-page.md says why."),
    ("a.h", "  // As in base/no_such_header.h."),
    ("a.py", "# See tests/no/such/folder."),
    ("a.md", "The rules are in `base/no_such_file.cc`."),
])
def test_path_that_is_not_there_is_found(file, text):
    assert len(list(named_paths.check(file, text, NAMED))) == 1


@pytest.mark.parametrize("file, text", [
    ("a.cc", "// docs/README.md, base/folder.h and tests/tools hold them (base/folder)."),
    ("a.cc", 'const char* text = "docs/no-such-page.md";'),
    ("a.md", "```\ncat docs/no-such-page.md\n```"),
    ("a.md", "Make tests/fuzz/NAME_fuzz.cc and docs/<name>.md; tests/*/data; /srv/docs/x and https://h/docs/x."),
    ("a.md", "[text](docs/no-such-page.md)"),  # the site's build checks links
])
def test_path_that_is_there_or_is_no_claim_passes(file, text):
    assert list(named_paths.check(file, text, NAMED)) == []
