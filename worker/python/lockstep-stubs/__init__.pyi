# The types of lockstep.py, which as a single file can't hold a py.typed.
from os import PathLike
from typing import Any, Optional, Union

from lockstep_client import *

__all__ = [
    "AgentUnavailable",
    "CommitRefused",
    "LockstepError",
    "checkpoint_dir",
    "commit",
    "generation",
    "latest",
    "loaded",
    "memory_dir",
    "report",
    "restarts",
]

class LockstepError(Exception): ...
class AgentUnavailable(LockstepError): ...
class CommitRefused(LockstepError): ...

def report(
    step: Optional[int] = None,
    loss: Optional[float] = None,
    tokens: Optional[int] = None,
    total_steps: Optional[int] = None,
    **metrics: Any,
) -> None: ...
def latest(timeout: float = 60.0) -> Optional[str]: ...
def commit(directory: Union[str, PathLike[str]], timeout: float = 60.0) -> str: ...
def loaded(seconds: float) -> None: ...
def memory_dir() -> Optional[str]: ...
def checkpoint_dir() -> Optional[str]: ...
def generation() -> Optional[str]: ...
def restarts() -> int: ...
