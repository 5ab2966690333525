"""tools/notebook: the page of the executed notebook."""

import importlib.machinery
import importlib.util
import json
import subprocess

import pytest
from paths import EXAMPLES, ROOT

LOADER = importlib.machinery.SourceFileLoader("tools_notebook", str(ROOT / "tools/notebook"))


@pytest.fixture(scope="module")
def tool():
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(LOADER.name, LOADER))
    LOADER.exec_module(module)
    return module


@pytest.fixture
def notebook():
    return json.loads((EXAMPLES / "notebook.ipynb").read_text())


def test_page_is_that_of_the_notebook_whose_code_was_executed():
    done = subprocess.run([ROOT / "tools/notebook", "--check"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_code_that_was_edited_after_its_execution_is_refused(tool, notebook):
    tool.page(notebook)
    cell = next(each for each in notebook["cells"] if each["cell_type"] == "code")
    cell["source"] = [*cell["source"], "\npass"]
    with pytest.raises(tool.Stale, match="run tools/notebook"):
        tool.page(notebook)


def test_notebook_whose_cells_were_not_executed_in_order_is_refused(tool, notebook):
    cells = [each for each in notebook["cells"] if each["cell_type"] == "code"]
    cells[1]["execution_count"] = 7
    with pytest.raises(tool.Stale, match="run tools/notebook"):
        tool.page(notebook)


def test_outputs_have_no_path_of_the_computer_that_made_them(notebook):
    assert "/home/" not in json.dumps(notebook) and "/root/" not in json.dumps(notebook)
