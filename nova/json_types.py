"""Types of JSON values whose shape is not known: what ``json.loads`` returns."""
from __future__ import annotations

from typing import TypeAlias

Json: TypeAlias = None | bool | int | float | str | list['Json'] | dict[str, 'Json']
JsonObject: TypeAlias = dict[str, Json]
