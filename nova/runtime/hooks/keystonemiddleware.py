"""Private parts of keystonemiddleware 13.0.1."""
from __future__ import annotations

from typing import Any


def option(protocol: Any, name: str) -> Any:
    """The value of an option of auth_token, from the paste file or from [keystone_authtoken]."""
    return protocol._conf.get(name)
