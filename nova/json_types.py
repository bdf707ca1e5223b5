"""Types of JSON values whose shape is not known: what ``json.loads`` returns, and what it takes."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

Json: TypeAlias = None | bool | int | float | str | list['Json'] | dict[str, 'Json']
JsonObject: TypeAlias = dict[str, Json]
# what ``json.dumps`` takes: a dict or list of known values is not a JsonObject, because a reader could change it
Encodable: TypeAlias = None | bool | int | float | str | Sequence['Encodable'] | Mapping[str, 'Encodable']
JsonDocument: TypeAlias = Mapping[str, Encodable]
