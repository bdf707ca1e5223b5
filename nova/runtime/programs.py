"""Paths of this installation's commands."""
import os
import shutil
import sys


def installed(name: str) -> str | None:
    """Return the path of a command, next to this Python or else on PATH; None: it does not exist."""
    return shutil.which(name, path=os.path.dirname(sys.executable)) or shutil.which(name)
