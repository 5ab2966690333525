"""Packages that only some calls need."""

from __future__ import annotations

import importlib
from typing import Any

from lockstep_client.errors import MissingPackage


def need(module: str, package: str, what: str) -> Any:
    """Imports a module. Raises MissingPackage, which names the package and `what` needs it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module.partition(".")[0]:
            raise
        raise MissingPackage(f"{what} needs the package {package}: pip install {package}") from None
