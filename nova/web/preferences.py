"""What a client prefers (RFC 7240): the header Prefer. Commas separate preferences; what follows a semicolon is a
parameter of the one before it.
"""
from __future__ import annotations

import re

HEADER, APPLIED = 'HTTP_PREFER', 'Preference-Applied'


def preference(name: str, value: str) -> re.Pattern[str]:
    """Finds a preference with its value in the header.

    :param value: a regular expression
    """
    return re.compile(rf'(?:^|,)\s*{name}\s*=\s*"?{value}"?\s*(?=$|[,;])', re.I)
