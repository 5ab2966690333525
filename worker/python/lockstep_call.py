"""A rank of lockstep.train(): python -m lockstep_call FOLDER.

It is no part of the client's package, whose import would take each rank longer than this does.
"""

import importlib
import os
import pickle
import sys
import traceback
from typing import Optional, Union

import lockstep  # noqa: F401  arms this process, so that `lockstep debug` shows where it is

CALL = "call"  # the function and its arguments, in the call's folder


def value_file(folder: str, generation: Optional[str]) -> str:
    """Rank 0's value. An earlier generation's is none of this one's."""
    return os.path.join(folder, f"value-{generation}")


def traceback_file(folder: str, generation: Optional[str], rank: Union[int, str, None]) -> str:
    """What a rank's function raised."""
    return os.path.join(folder, f"traceback-{generation}-{rank}")


def main(folder: str) -> None:
    """Calls the folder's function; leaves rank 0's value, or this rank's traceback, there."""
    rank, generation = os.environ["RANK"], os.environ["LOCKSTEP_GENERATION"]
    try:
        with open(os.path.join(folder, CALL), "rb") as file:
            fn, args, kwargs = pickle.load(file)
        value = fn(*args, **kwargs)
        if rank == "0":
            cloudpickle = importlib.import_module("cloudpickle")
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
