"""The Python client in a real kernel: cells are executed, and their outputs are read."""

import json
import os
import subprocess

from paths import MODULES
from tls import binary

# Executes a notebook whose cells are the arguments, and prints each cell's outputs as JSON.
EXECUTE = """\
import json, sys
import nbformat.v4
from nbclient import NotebookClient
notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(each) for each in sys.argv[1:]])
NotebookClient(notebook, timeout=120, kernel_name="python3", allow_errors=True).execute()
print(json.dumps([cell.outputs for cell in notebook.cells]))
"""


def execute(python, *cells):
    """The outputs of each cell."""
    folder = os.path.dirname(binary("lockstep"))
    environment = {**os.environ, "PYTHONPATH": str(MODULES), "PYTHONDONTWRITEBYTECODE": "1",
                   "PATH": folder + os.pathsep + os.environ["PATH"]}
    done = subprocess.run([python, "-c", EXECUTE, *cells], env=environment, capture_output=True,
                          text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def text(outputs, stream="stdout"):
    return "".join(each["text"] for each in outputs if each.get("name") == stream)


def html(outputs):
    return [each["data"]["text/html"] for each in outputs
            if each["output_type"] in ("display_data", "execute_result")]


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


def test_a_function_of_a_cell_runs_on_ranks_and_the_cell_has_output_view_and_value(python_with):
    _, called, failed, shown = execute(
        python_with("notebook"), FIT, "lockstep.train(fit, machines=2, processes=2, args=[5])", FAILS,
        STATUS)
    assert [each["data"]["text/plain"] for each in called
            if each["output_type"] == "execute_result"] == ["12"]
    assert all(f"[m{rank // 2} r{rank}] rank {rank}" in text(called) for rank in range(4))
    [view] = html([each for each in called if each["output_type"] == "display_data"])
    assert "Succeeded" in view and "<b>fit</b>" in view  # replaced in place: one, and the last

    [error] = [each for each in failed if each["output_type"] == "error"]
    assert error["ename"] == "JobFailed" and "ValueError: <b>boom" in error["evalue"]
    [view] = html(failed)
    assert "Failed" in view and "&lt;b&gt;boom" in view and "<b>boom" not in view

    assert len(html(shown)) == 2 and all("Succeeded" in each for each in html(shown))
