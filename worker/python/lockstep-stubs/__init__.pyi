# The types of lockstep.py, which as a single file can't hold a py.typed.
import os
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
    "skips",
]

PathLike = Union[str, "os.PathLike[str]"]

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
def commit(directory: PathLike, timeout: float = 60.0) -> str: ...
def loaded(seconds: float) -> None: ...
def memory_dir() -> Optional[str]: ...
def checkpoint_dir() -> Optional[str]: ...
def generation() -> Optional[str]: ...
def restarts() -> int: ...
def skips(step: int) -> bool: ...
