"""A rank of lockstep.train(): python -m lockstep_call FOLDER; on a cluster it calls far().

It is no part of the client's package, whose import would take each rank longer than this does.
"""

import base64
import importlib
import os
import pickle
import sys
import traceback
import zlib
from typing import Optional, Union

import lockstep  # noqa: F401  arms this process, so that `lockstep debug` shows where it is

CALL = "call"  # the function and its arguments, in the call's folder
VALUE = "lockstep-train-value"  # begins the lines of rank 0's value on a cluster
_PIECE = 8000  # characters of a line; agents cut lines of over 16 KiB
_MOST_VALUE = 1 << 20  # characters of a value, of a log that a kubelet cuts at 10 MiB


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


def far(call: bytes) -> None:
    """Calls the function of lockstep.train() on a cluster; rank 0 prints its value, in pieces."""
    fn, args, kwargs = pickle.loads(call)
    value = fn(*args, **kwargs)
    if os.environ["RANK"] != "0":
        return
    data = importlib.import_module("cloudpickle").dumps(value)
    text = base64.b64encode(zlib.compress(data)).decode("ascii")
    if len(text) > _MOST_VALUE:
        raise ValueError(f"the value has {len(text) >> 10} KiB, and lockstep.train() on a cluster "
                         f"returns at most {_MOST_VALUE >> 10} KiB: write it to a volume or an "
                         "object store, and return its place")
    pieces = [text[each:each + _PIECE] for each in range(0, len(text), _PIECE)]
    sys.stdout.flush()
    for number, piece in enumerate(pieces):
        print(VALUE, os.environ["LOCKSTEP_GENERATION"], number, len(pieces), piece, flush=True)


def _write(file: str, data: bytes) -> None:
    """In one step, so that no half of it is ever read."""
    with open(f"{file}.new", "wb") as out:
        out.write(data)
    os.replace(f"{file}.new", file)


if __name__ == "__main__":
    main(sys.argv[1])
