"""Paths of this installation's commands."""
import os
import shutil
import sys


def installed(name: str) -> str | None:
    """Return the path of a command in the directory of this Python, otherwise on PATH; None if it does not exist."""
    return shutil.which(name, path=os.path.dirname(sys.executable)) or shutil.which(name)
