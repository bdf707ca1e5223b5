"""The commands that come with this one."""
from __future__ import annotations

import os
import shutil
import sys


def installed(name: str) -> str | None:
    """The path of a command of this installation: beside this Python, else on the path; None where there is none."""
    return shutil.which(name, path=os.path.dirname(sys.executable)) or shutil.which(name)
