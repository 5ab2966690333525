"""A rank of lockstep.train(): python -m lockstep_client.rank FOLDER."""

from __future__ import annotations

import os
import pickle
import sys
import traceback

from lockstep_client.calls import CALL, traceback_file, value_file
from lockstep_client.packages import need


def main(folder: str) -> None:
    """Calls the folder's function; leaves rank 0's value, or this rank's traceback, there."""
    rank, generation = os.environ["RANK"], os.environ["LOCKSTEP_GENERATION"]
    try:
        with open(os.path.join(folder, CALL), "rb") as file:
            fn, args, kwargs = pickle.load(file)
        value = fn(*args, **kwargs)
        if rank == "0":
            cloudpickle = need("cloudpickle", "cloudpickle", "lockstep.train")
            _write(value_file(folder, generation), cloudpickle.dumps(value))
    except Exception as error:
        own = error.__traceback__  # whose first frame is this function's
        text = "".join(traceback.format_exception(type(error), error, own and own.tb_next))
        _write(traceback_file(folder, generation, rank), text.encode("utf-8", "replace"))
        raise


def _write(file: str, data: bytes) -> None:
    """In one step, so that no half of it is ever read."""
    with open(f"{file}.new", "wb") as out:
        out.write(data)
    os.replace(f"{file}.new", file)


if __name__ == "__main__":
    main(sys.argv[1])
