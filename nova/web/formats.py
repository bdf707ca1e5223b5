"""String formats of the JSON Schemas, with a message for users about each format."""
import base64
import datetime
import email.utils
import ipaddress
import re
import unicodedata
import uuid
from collections.abc import Callable

import iso8601
import jsonschema

CHECKER = jsonschema.FormatChecker(formats=())

MAX_FLOAT = 3.40282e+38   # of a column of single precision
MAX_REGEX = 255           # maximum length of a regular expression in a list filter
_MAC = re.compile(r'[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}\Z')
_DIGITS = re.compile(r'[0-9]+\Z', re.ASCII)
_SIGNED = re.compile(r'-?[0-9]+\Z', re.ASCII)
_URI = re.compile(r'[a-zA-Z][a-zA-Z0-9+.-]*://\S+\Z')

SENTENCES = {
    'name': 'It must be printable characters, without a space at its beginning or end.',
    'name_with_leading_trailing_spaces': 'It must be printable characters, and not only spaces.',
    'az_name': 'It must be printable characters without a colon, and without a space at its beginning or end.',
    'az_name_with_leading_trailing_spaces': 'It must be printable characters without a colon.',
    'printable': 'It may contain only printable characters and line breaks.',
    'uuid': "It is not a 'uuid'.",
    'base64': "It is not 'base64'.",
    'digits': 'It is not a whole number.',
    'signed': 'It is not a whole number.',
    'factor': f'It is not a positive number up to {MAX_FLOAT}.',
    'regex': 'It is not a regular expression.',
}


def _printable(text: str, also: str = '') -> bool:
    """Return False for control characters, unassigned code points and surrogates; any spaces are allowed."""
    return text.isascii() and text.isprintable() or all(
        char in also or unicodedata.category(char)[0] != 'C' and char not in '\u2028\u2029' for char in text)


def _name(value: str) -> bool:
    return value.strip() == value != '' and _printable(value)


def _name_with_spaces(value: str) -> bool:
    return value.strip() != '' and _printable(value)


def az_name(value: str) -> bool:
    return _name(value) and ':' not in value


def is_uuid(value: str) -> bool:
    """Return whether this is a UUID in any usual spelling; the compute API has always accepted all of them."""
    try:
        return str(uuid.UUID(value)).replace('-', '') == (
            value.lower().replace('urn:', '').replace('uuid:', '').strip('{}').replace('-', ''))
    except ValueError:
        return False


def signed(value: str) -> bool:
    return bool(_SIGNED.match(value))


def _factor(value: str) -> bool:
    """Return False for a text that is a number out of bounds: JSON Schema applies its bounds to numbers only."""
    try:
        return 0 < float(value) <= MAX_FLOAT
    except ValueError:
        return True               # a pattern reports the error


def _parses(parser: Callable[[str], object], value: str) -> bool:
    try:
        parser(value)
    except (ValueError, OverflowError, RecursionError, re.error):
        return False
    return True


def _decode(text: str) -> bytes:
    return base64.b64decode(re.sub(r'\s+', '', text), validate=True)


# {format: function that checks a string and returns a true or false value}
_CHECKS: dict[str, Callable[[str], object]] = {
    'name': _name,
    'name_with_leading_trailing_spaces': _name_with_spaces,
    'az_name': az_name,
    'az_name_with_leading_trailing_spaces': lambda value: _name_with_spaces(value) and ':' not in value,
    'printable': lambda value: _printable(value, also='\n\r\t'),
    'uuid': is_uuid,
    'base64': lambda value: _parses(_decode, value),
    'ipv4': lambda value: _parses(ipaddress.IPv4Address, value),
    'ipv6': lambda value: '%' not in value and _parses(ipaddress.IPv6Address, value),
    'cidr': lambda value: '/' in value and _parses(lambda text: ipaddress.ip_network(text, strict=False), value),
    'mac-address': _MAC.match,
    'uri': _URI.match,
    'date-time': lambda value: _parses(parse_time, value),
    'regex': lambda value: len(value) <= MAX_REGEX and _parses(re.compile, value),
    'digits': _DIGITS.match,
    'signed': signed,
    'factor': _factor,
}


def _register(name: str, check: Callable[[str], object]) -> None:
    """Register a check of strings; it ignores values of other types."""
    CHECKER.checks(name)(lambda value: not isinstance(value, str) or bool(check(value)))


for _format, _check in _CHECKS.items():
    _register(_format, _check)


def bounded(format_name: str, minimum: int | None, maximum: int | None) -> None:
    """Register a check that a string is an integer between two numbers; None: no bound."""
    def check(value: str) -> bool:
        if not _SIGNED.match(value):
            return True               # another format reports the error
        if len(value) > 20:
            return False
        return (minimum is None or int(value) >= minimum) and (maximum is None or int(value) <= maximum)
    SENTENCES[format_name] = f"It is not an {format_name.replace(' to None', ' upwards')}."
    _register(format_name, check)


def parse_time(text: str) -> datetime.datetime:
    """Parse an ISO 8601 time into a naive UTC datetime. A time without a zone is UTC.

    :raises ValueError: the text is not an ISO 8601 time
    """
    try:
        moment = iso8601.parse_date(text)
        return moment.astimezone(datetime.UTC).replace(tzinfo=None)
    except (iso8601.ParseError, OverflowError):          # also raised if the year in UTC is not from 1 to 9999
        raise ValueError('not an ISO 8601 date and time') from None


def parse_http_date(text: str | None) -> datetime.datetime | None:
    """Parse a date of an HTTP or mail header into a naive UTC datetime; return None if it is malformed."""
    try:
        found = email.utils.parsedate_to_datetime(text or '')
        return found.astimezone(datetime.UTC).replace(tzinfo=None) if found.tzinfo else found
    except (ValueError, TypeError, OverflowError):          # OverflowError: the year in UTC is before 1
        return None
