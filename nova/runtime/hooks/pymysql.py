"""Private parts of PyMySQL 1.2.4."""
from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pymysql import connections


def descriptor_of(connection: connections.Connection) -> int:
    """Return the file descriptor of a connection. mysqlclient has the method fileno(), PyMySQL has none."""
    return int(connection.fileno() if hasattr(connection, 'fileno') else connection._sock.fileno())
