"""Private parts of PyMySQL 1.2.4."""
from __future__ import annotations

from typing import Any


def descriptor_of(connection: Any) -> int:
    """Return the file descriptor of a driver's connection; mysqlclient has a method for it, PyMySQL has none."""
    return int(connection.fileno() if hasattr(connection, 'fileno') else connection._sock.fileno())
