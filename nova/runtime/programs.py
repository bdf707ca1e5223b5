"""The commands that come with this one."""
from __future__ import annotations

import os
import shutil
import sys


def installed(name: str) -> str | None:
    """The path of a command of this installation: with this Python, else on the path. None: it is not there."""
    return shutil.which(name, path=os.path.dirname(sys.executable)) or shutil.which(name)
