"""String formats of the JSON Schemas, and the user's message for each format."""
import base64
import binascii
import datetime
import email.utils
import ipaddress
import re
import unicodedata
import uuid
from collections.abc import Callable
from typing import TypeVar

import iso8601
import jsonschema

Check = TypeVar('Check', bound=Callable[[str], bool])

CHECKER = jsonschema.FormatChecker(formats=())

MAX_REGEX = 255           # characters of a regular expression in a list filter
_MAC = re.compile(r'[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}\Z')
_DIGITS = re.compile(r'[0-9]+\Z', re.ASCII)
_SIGNED = re.compile(r'-?[0-9]+\Z', re.ASCII)

SENTENCES = {
    'name': 'It must be printable characters, without a space at its beginning or end.',
    'name_with_leading_trailing_spaces': 'It must be printable characters, and not only spaces.',
    'az_name': 'It must be printable characters without a colon, and without a space at its beginning or end.',
    'az_name_with_leading_trailing_spaces': 'It must be printable characters without a colon.',
    'printable': 'It must be printable characters and line breaks.',
    'uuid': "It is not a 'uuid'.",
    'base64': "It is not 'base64'.",
    'digits': 'It is not a whole number.',
    'signed': 'It is not a whole number.',
    'regex': 'It is not a regular expression.',
}


def _format(name: str) -> Callable[[Check], Check]:
    """Register a check of strings; values of other types pass."""
    def register(check: Check) -> Check:
        CHECKER.checks(name)(lambda value: not isinstance(value, str) or check(value))
        return check
    return register


def _printable(text: str, also: str = '') -> bool:
    """Refuse control characters, unassigned code points and surrogates. Spaces of any kind pass."""
    return text.isascii() and text.isprintable() or all(
        char in also or unicodedata.category(char)[0] != 'C' and char not in '\u2028\u2029' for char in text)


@_format('name')
def name(value: str) -> bool:
    return value.strip() == value != '' and _printable(value)


@_format('name_with_leading_trailing_spaces')
def name_with_spaces(value: str) -> bool:
    return value.strip() != '' and _printable(value)


@_format('az_name')
def az_name(value: str) -> bool:
    return name(value) and ':' not in value


@_format('az_name_with_leading_trailing_spaces')
def az_name_with_spaces(value: str) -> bool:
    return name_with_spaces(value) and ':' not in value


@_format('printable')
def printable(value: str) -> bool:
    return _printable(value, also='\n\r\t')


@_format('uuid')
def is_uuid(value: str) -> bool:
    """Accept a UUID in any usual spelling; the compute API has always accepted them."""
    try:
        return str(uuid.UUID(value)).replace('-', '') == (
            value.lower().replace('urn:', '').replace('uuid:', '').strip('{}').replace('-', ''))
    except ValueError:
        return False


@_format('base64')
def is_base64(value: str) -> bool:
    try:
        base64.b64decode(re.sub(r'\s+', '', value), validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


@_format('ipv4')
def ipv4(value: str) -> bool:
    return _parses(ipaddress.IPv4Address, value)


@_format('ipv6')
def ipv6(value: str) -> bool:
    return '%' not in value and _parses(ipaddress.IPv6Address, value)


@_format('cidr')
def cidr(value: str) -> bool:
    return '/' in value and _parses(lambda text: ipaddress.ip_network(text, strict=False), value)


@_format('mac-address')
def mac_address(value: str) -> bool:
    return bool(_MAC.match(value))


@_format('uri')
def uri(value: str) -> bool:
    return bool(re.match(r'[a-zA-Z][a-zA-Z0-9+.-]*://\S+\Z', value))


@_format('date-time')
def date_time(value: str) -> bool:
    try:
        parse_time(value)
    except (ValueError, OverflowError):
        return False
    return True


@_format('regex')
def regex(value: str) -> bool:
    if len(value) > MAX_REGEX:
        return False
    try:
        re.compile(value)
    except (re.error, OverflowError, RecursionError):
        return False
    return True


@_format('digits')
def digits(value: str) -> bool:
    return bool(_DIGITS.match(value))


@_format('signed')
def signed(value: str) -> bool:
    return bool(_SIGNED.match(value))


def bounded(format_name: str, minimum: int | None, maximum: int | None) -> None:
    """Register a check that a string of digits lies between two numbers (None: no bound)."""
    def check(value: str) -> bool:
        if not _SIGNED.match(value):
            return True               # another format reports the error
        if len(value) > 20:
            return False
        return (minimum is None or int(value) >= minimum) and (maximum is None or int(value) <= maximum)
    SENTENCES[format_name] = f"It is not an {format_name.replace(' to None', ' upwards')}."
    _format(format_name)(check)


def parse_time(text: str) -> datetime.datetime:
    """Parse an ISO 8601 text into a naive UTC datetime; without a zone it is UTC.

    :raises ValueError: the text is not an ISO 8601 time
    """
    try:
        moment = iso8601.parse_date(text)
        return moment.astimezone(datetime.UTC).replace(tzinfo=None)
    except (iso8601.ParseError, OverflowError):          # before year 1 or after 9999 in UTC
        raise ValueError('not an ISO 8601 date and time') from None


def parse_http_date(text: str | None) -> datetime.datetime | None:
    """Parse a date of HTTP or mail into a naive UTC datetime; None if it is malformed."""
    try:
        found = email.utils.parsedate_to_datetime(text or '')
        return found.astimezone(datetime.UTC).replace(tzinfo=None) if found.tzinfo else found
    except (ValueError, TypeError, OverflowError):          # OverflowError: before year 1 in UTC
        return None


def _parses(parser: Callable[[str], object], value: str) -> bool:
    try:
        parser(value)
    except ValueError:
        return False
    return True
