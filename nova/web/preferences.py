"""The Prefer header of RFC 7240. Commas separate preferences; parameters follow a preference after a semicolon."""
import re

HEADER, APPLIED = 'HTTP_PREFER', 'Preference-Applied'


def preference(name: str, value: str) -> re.Pattern[str]:
    """Compile the expression that finds a preference and its value in the header.

    :param value: regular expression of the value
    """
    return re.compile(rf'(?:^|,)\s*{name}\s*=\s*"?{value}"?\s*(?=$|[,;])', re.I)
