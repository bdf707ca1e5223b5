"""Types of JSON values of unknown structure: results of ``json.loads`` and arguments of ``json.dumps``."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

Json: TypeAlias = None | bool | int | float | str | list['Json'] | dict[str, 'Json']
JsonObject: TypeAlias = dict[str, Json]
# Read-only argument of ``json.dumps``: type checkers accept dict[str, str] as Encodable, but not as JsonObject.
Encodable: TypeAlias = None | bool | int | float | str | Sequence['Encodable'] | Mapping[str, 'Encodable']
JsonDocument: TypeAlias = Mapping[str, Encodable]
