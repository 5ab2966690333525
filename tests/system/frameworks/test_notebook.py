"""The Python client in a real kernel: cells are executed, also those of examples/notebook.ipynb, and
their outputs are read.
"""

import json
import os
import subprocess

from paths import EXAMPLES, MODULES, ROOT
from tls import binary


def cell(number, source):
    return {"cell_type": "code", "id": f"cell-{number}", "source": source, "execution_count": None,
            "outputs": [], "metadata": {"tags": ["raises-exception"]}}


def execute(python, folder, *cells):
    """The outputs of each cell."""
    file = folder / "notebook.ipynb"
    file.write_text(json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [
        cell(number, source) for number, source in enumerate(cells)]}))
    return [each["outputs"] for each in executed(python, file, folder)]


def executed(python, file, folder):
    """The cells of code of a notebook, with their outputs."""
    programs, out = os.path.dirname(binary("lockstep")), folder / "executed.ipynb"
    environment = {**os.environ, "PYTHONPATH": str(MODULES), "PYTHONDONTWRITEBYTECODE": "1",
                   "PATH": programs + os.pathsep + os.environ["PATH"]}
    done = subprocess.run([python, ROOT / "tools/lib/notebook.py", file, out], env=environment,
                          capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return code(out)


def code(file):
    return [each for each in json.loads(file.read_text())["cells"] if each["cell_type"] == "code"]


def text(outputs, stream="stdout"):
    return "".join("".join(each["text"]) for each in outputs if each.get("name") == stream)


def html(outputs):
    return ["".join(each["data"]["text/html"]) for each in outputs
            if "text/html" in each.get("data", {})]


def values(outputs):
    """The value of a cell's last expression, if it has one."""
    return ["".join(each["data"]["text/plain"]) for each in outputs
            if each["output_type"] == "execute_result"]


FIT = """\
import lockstep, os
FACTOR = 3
def fit(steps):
    import lockstep
    for step in range(1, steps + 1):
        lockstep.report(step=step, total_steps=steps)
    print("rank", os.environ["RANK"])
    return FACTOR * int(os.environ["WORLD_SIZE"])
"""
FAILS = 'def fails(): raise ValueError("<b>boom")\nlockstep.train(fails)'
STATUS = """\
job = lockstep.Job("shown", command=["true"])
run = lockstep.run(job, echo=False)
run.wait(timeout=60)
run
"""


def test_example_gives_the_values_that_it_shows(python_with, tmp_path):
    file = EXAMPLES / "notebook.ipynb"
    cells = executed(python_with("notebook"), file, tmp_path)
    assert [values(each["outputs"]) for each in cells] == [values(each["outputs"]) for each in code(file)]
    views = [view for each in cells for view in html(each["outputs"]) if "lockstep" in view]
    assert len(views) == 4 and "1 restart" in views[1] and "Failed" in views[2]


def test_a_function_of_a_cell_runs_on_ranks_and_the_cell_has_output_view_and_value(python_with, tmp_path):
    _, called, failed, shown = execute(
        python_with("notebook"), tmp_path, FIT, "lockstep.train(fit, machines=2, processes=2, args=[5])", FAILS,
        STATUS)
    assert values(called) == ["12"]
    assert all(f"[m{rank // 2} r{rank}] rank {rank}" in text(called) for rank in range(4))
    [view] = html([each for each in called if each["output_type"] == "display_data"])
    assert "Succeeded" in view and "<b>fit</b>" in view  # replaced in place: one, and the last

    [error] = [each for each in failed if each["output_type"] == "error"]
    assert error["ename"] == "JobFailed" and "ValueError: <b>boom" in error["evalue"]
    [view] = html(failed)
    assert "Failed" in view and "&lt;b&gt;boom" in view and "<b>boom" not in view

    assert len(html(shown)) == 2 and all("Succeeded" in each for each in html(shown))
