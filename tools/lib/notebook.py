"""Executes a notebook in a kernel of this Python: notebook.py FILE OUT.

OUT is FILE with the outputs of its cells, without times and paths of this computer. The first cell that
raises ends the program with the traceback, unless the cell has the tag `raises-exception`.
"""

import hashlib
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PATIENCE = 300  # seconds for a cell
SOURCES = "sources"  # the entry of a notebook's metadata that digest() compares


def digest(notebook):
    """Of the cells' code: another one than SOURCES means that a cell was edited after its execution."""
    sources = json.dumps(["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"])
    return hashlib.sha256(sources.encode()).hexdigest()


def execute(notebook, folder):
    """Fills in the outputs. Raises CellExecutionError and CellTimeoutError of nbclient."""
    from nbclient import NotebookClient

    NotebookClient(notebook, timeout=PATIENCE, kernel_name="python3", record_timing=False, coalesce_streams=True,
                   resources={"metadata": {"path": str(folder)}}).execute()
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"}, SOURCES: digest(notebook)}


def main():
    import nbformat
    from nbclient.exceptions import CellExecutionError, CellTimeoutError

    if len(sys.argv) != 3:
        sys.exit(__doc__)
    file, out = map(pathlib.Path, sys.argv[1:])
    notebook = nbformat.read(file, as_version=4)
    try:
        execute(notebook, file.resolve().parent)
    except (CellExecutionError, CellTimeoutError) as error:
        sys.exit(f"notebook: {file}: {error}")
    out.write_text(nbformat.writes(notebook).replace(f"{ROOT}/", "") + "\n")


if __name__ == "__main__":
    main()
