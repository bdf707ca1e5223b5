"""EC2 query protocol: parsing of request parameters, and XML responses.

Field names, types and positions come from botocore's service model of EC2. Responses omit fields without a value.
"""
from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable, Mapping
import datetime
import functools
import re
from typing import Any, Final, NoReturn, TYPE_CHECKING, TypeAlias
from xml.etree import ElementTree as etree

from nova.ec2 import errors
from nova.ec2 import xml_cache
from nova.json_types import JsonDocument

if TYPE_CHECKING:
    from botocore.model import ListShape, ServiceModel, Shape, StructureShape

# Value: parsed value of a parameter. Parameters: {name in the model: value}
Value: TypeAlias = str | int | bytes | datetime.datetime | list['Value'] | dict[str, 'Value']
Parameters = dict[str, Value]
Tree: TypeAlias = str | dict[str, 'Tree']          # {part of a parameter name: value or subtree}

VERSION = '2016-11-15'
MAX_PARAMETERS = 2000
MAX_NAME_LEVELS = 8                  # levels of a parameter name such as BlockDeviceMapping.1.Ebs.VolumeSize
MAX_ITEMS = 1000                    # items of a list
# Members added to shapes of the model: {shape: {member: its description}}.
CATEGORY: Final = 'InstanceCategory'
ADDED = {
    **{f'{action}Request': {CATEGORY: {'shape': 'String', 'locationName': CATEGORY}} for action in (
        'RunInstances', 'TerminateInstances', 'RebootInstances')},
    'Instance': {CATEGORY: {'shape': 'String', 'locationName': 'instanceCategory'}},
    'InstanceAttribute': {CATEGORY: {'shape': 'AttributeValue', 'locationName': 'instanceCategory'}}}
_INDEX = re.compile(r'(0|[1-9][0-9]{0,4})\Z')            # libcloud numbers some lists from 0, which EC2 accepts
_INTEGER = re.compile(r'-?[0-9]{1,18}\Z')
_NOT_XML = re.compile('[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]')
_NOT_PLAIN = re.compile('[&<>]|' + _NOT_XML.pattern)
_DECLARATION = '<?xml version="1.0" encoding="UTF-8"?>\n'
_NAMES: dict[str, dict[str, tuple[str, Shape]]] = {}  # cache of _names_of by shape name, which is unique in the model
# Parameters that every operation accepts.
COMMON = frozenset({'Action', 'Version', 'AWSAccessKeyId', 'SignatureVersion', 'SignatureMethod', 'Signature',
                    'Timestamp', 'Expires', 'SecurityToken'})


@functools.cache
def service() -> ServiceModel:
    """Return the service model of EC2, a botocore.model.ServiceModel.

    The first request loads the model in about 0.1 s. Clouds without EC2 clients save the memory.
    """
    from botocore import loaders
    from botocore import model
    described = loaders.Loader().load_service_model('ec2', 'service-2', VERSION)
    for shape, members in ADDED.items():
        described['shapes'][shape]['members'].update(members)
    return model.ServiceModel(described, 'ec2')


def parse(operation: str, pairs: Iterable[tuple[str, str]]) -> Parameters:
    """Parse the parameters of a request; the keys of the result are names in the model.

    :param operation: name in the model
    :param pairs: names and values as received
    :raises Ec2Error: too many or unknown parameters, or a value of the wrong type
    """
    tree: dict[str, Tree] = {}
    for count, (name, value) in enumerate(pairs):
        if count >= MAX_PARAMETERS:
            raise errors.Ec2Error('InvalidParameterCombination', f'More than {MAX_PARAMETERS} parameters.')
        if name not in COMMON and not name.startswith('X-Amz-'):
            _put(tree, name, value)
    shape = service().operation_model(operation).input_shape
    if shape is None:
        if tree:
            raise _unknown(next(iter(tree)))
        return {}
    return _structure(shape, tree, '')


def _put(tree: dict[str, Any], name: str, value: str) -> None:
    *path, last = steps = name.split('.')
    if len(steps) > MAX_NAME_LEVELS or not all(steps):
        raise _unknown(name)
    for step in path:
        tree = tree.setdefault(step, {})
        if not isinstance(tree, dict):
            raise _unknown(name)
    if last in tree:
        raise errors.Ec2Error('InvalidParameterCombination', f'The parameter {name[:255]} is given twice.')
    tree[last] = value


def _unknown(name: str) -> errors.Ec2Error:
    return errors.Ec2Error('UnknownParameter', f'The parameter {name[:255]} is not recognized.')


def _structure(shape: StructureShape, tree: Tree, where: str) -> Parameters:
    if not isinstance(tree, dict):
        raise errors.invalid(where, tree)
    names = _names_of(shape)
    values: Parameters = {}
    for key, below in tree.items():
        place = f'{where}.{key}' if where else key
        if key not in names:
            raise _unknown(place)
        name, member = names[key]
        values[name] = _value(member, below, place)
    for name in shape.required_members:
        if name not in values:
            raise errors.missing(f'{where}.{name}' if where else name)
    return values


def _names_of(shape: StructureShape) -> dict[str, tuple[str, Shape]]:
    """Return {name in requests: (name in the model, shape)} for the members of a structure."""
    found = _NAMES.get(shape.name)
    if found is None:
        found = _NAMES[shape.name] = {
            _input_name(member, name): (name, member) for name, member in shape.members.items()}
    return found


def _input_name(member: Shape, name: str) -> str:
    found = member.serialization.get('queryName')
    if found:
        return str(found)
    name = str(member.serialization.get('name', name))
    return name[:1].upper() + name[1:]


def _value(shape: Shape, below: Tree, where: str) -> Value:
    kind = shape.type_name
    if kind == 'structure':
        return _structure(shape, below, where)
    if kind == 'list':
        return _list(shape, below, where)
    if not isinstance(below, str):
        raise _unknown(where)
    return _SCALARS[kind](below, where)


def _list(shape: ListShape, below: Tree, where: str) -> list[Value]:
    if isinstance(below, str):                       # EC2 accepts a single item without an index, as libcloud sends it
        below = {'1': below}
    if not isinstance(below, dict):
        raise errors.invalid(where, below)
    if len(below) > MAX_ITEMS or not all(_INDEX.match(index) for index in below):
        raise errors.invalid(where, f'a list of at most {MAX_ITEMS} items with numbers')
    return [_value(shape.member, below[index], f'{where}.{index}') for index in sorted(below, key=int)]


def _string(text: str, where: str) -> str:
    if '\x00' in text:
        raise errors.invalid(where, 'text with a NUL')
    return text


def _integer(text: str, where: str) -> int:
    if not _INTEGER.match(text):
        raise errors.invalid(where, text)
    return int(text)


def _boolean(text: str, where: str) -> bool:
    if text.lower() not in ('true', 'false', '1', '0'):
        raise errors.invalid(where, text)
    return text.lower() in ('true', '1')


def _blob(text: str, where: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise errors.invalid(where, 'text that is not base64') from None


def _timestamp(text: str, where: str) -> datetime.datetime:
    try:
        return datetime.datetime.fromisoformat(text)
    except ValueError:
        raise errors.invalid(where, text) from None


def _refused(text: str, where: str) -> NoReturn:
    raise errors.unsupported(f'The parameter {where} is not supported.')


_SCALARS: dict[str, Callable[[str, str], Value]] = {
    'string': _string, 'integer': _integer, 'long': _integer, 'boolean': _boolean, 'blob': _blob,
    'timestamp': _timestamp, 'float': _refused, 'double': _refused, 'map': _refused}


# ---- responses

def answer(operation: str, values: JsonDocument, request_id: str, version: str = VERSION) -> bytes:
    """Build the XML response of an operation.

    :param values: keys are names of the model; None and empty lists are omitted
    """
    out = [f'{_DECLARATION}<{operation}Response xmlns="http://ec2.amazonaws.com/doc/{version}/"><requestId>']
    _write_text(out, request_id)
    out.append('</requestId>')
    write = _writer_of(operation)
    if write is None:
        out.append('<return>true</return>')
    else:
        write(out, values)
    out.append(f'</{operation}Response>')
    return ''.join(out).encode()


def item(operation: str, name: str, value: JsonDocument) -> xml_cache.XmlFragment:
    """Return the XML of a list item. A handler may return this XML in place of the item's values.

    :param name: name of the list in the model
    """
    out: _Out = []
    _list_of(operation, name)(out, [value])
    return xml_cache.XmlFragment(''.join(out))


@functools.cache
def _list_of(operation: str, name: str) -> _Writer:
    return _List(service().operation_model(operation).output_shape.members[name])


def who(user_id: str, project_id: str, request_id: str) -> bytes:
    """Build the response of GetCallerIdentity (STS); the project is the account."""
    root = etree.Element('GetCallerIdentityResponse', xmlns='https://sts.amazonaws.com/doc/2011-06-15/')
    found = etree.SubElement(root, 'GetCallerIdentityResult')
    for name, value in (('Arn', f'arn:aws:iam::{project_id}:user/{user_id}'), ('UserId', user_id),
                        ('Account', project_id)):
        etree.SubElement(found, name).text = value
    etree.SubElement(etree.SubElement(root, 'ResponseMetadata'), 'RequestId').text = request_id
    return _text(root)


def fault(error: errors.Ec2Error, request_id: str) -> bytes:
    """Build the XML of an error."""
    root = etree.Element('Response')
    element = etree.SubElement(etree.SubElement(root, 'Errors'), 'Error')
    etree.SubElement(element, 'Code').text = error.code
    etree.SubElement(element, 'Message').text = _NOT_XML.sub('', error.message)
    etree.SubElement(root, 'RequestID').text = request_id
    return _text(root)


def fault_of_s3(error: errors.Ec2Error, request_id: str) -> bytes:
    """Build the XML of an error in the format of S3."""
    root = etree.Element('Error')
    for name, text in (('Code', error.code), ('Message', error.message), ('RequestId', request_id)):
        etree.SubElement(root, name).text = text
    return _text(root)


def _text(root: etree.Element) -> bytes:
    return _DECLARATION.encode() + bytes(etree.tostring(root, encoding='utf-8'))


# A response may have 100,000 elements, and building an element tree took half of the time of a large response.
# Therefore each shape has a writer, which prepares its tags once and appends text.
_Out = list[str]
_Writer = Callable[[_Out, Any], None]


@functools.cache
def _writer_of(operation: str) -> _Writer | None:
    """Return the writer of an operation's values, or None if the response has no values."""
    shape = service().operation_model(operation).output_shape
    return _Structure(shape) if shape is not None and shape.members else None


class _Structure:
    """Writes the members of a structure. Member writers are created at their first use, because shapes may be
    recursive.
    """

    def __init__(self, shape: StructureShape) -> None:
        self._shape = shape
        self._members: dict[str, tuple[str, str, _Writer]] = {}

    def __call__(self, out: _Out, values: Mapping[str, Any]) -> None:
        members = self._members
        for name, value in values.items():
            if value is not None:
                opened, closed, write = members.get(name) or self._member(name)
                out.append(opened)
                write(out, value)
                out.append(closed)

    def _member(self, name: str) -> tuple[str, str, _Writer]:
        member = self._shape.members[name]                   # KeyError: a handler used a name that the model lacks
        self._members[name] = found = _tagged(member, name)
        return found


class _List:
    """Writes the items of a list."""

    def __init__(self, shape: ListShape) -> None:
        self._item = _tagged(shape.member, 'item')

    def __call__(self, out: _Out, values: Iterable[Any]) -> None:
        opened, closed, write = self._item
        for value in values:
            if type(value) is xml_cache.XmlFragment:
                out.append(value)
                continue
            out.append(opened)
            write(out, value)
            out.append(closed)


def _tagged(shape: Shape, name: str) -> tuple[str, str, _Writer]:
    """Return (opening tag, closing tag, writer) of a member; the model may override the member's name."""
    tag = shape.serialization.get('name', name)
    write: _Writer = _WRITERS.get(shape.type_name, _write_text)
    if shape.type_name in ('structure', 'list'):
        write = _Structure(shape) if shape.type_name == 'structure' else _List(shape)
    return f'<{tag}>', f'</{tag}>', write


def _write_text(out: _Out, value: object) -> None:
    text = str(value)
    if _NOT_PLAIN.search(text):
        text = _NOT_XML.sub('', text).replace('&', '&amp;').replace('<', '&lt;').replace('>', '&gt;')
    out.append(text)


def time(value: datetime.datetime | str) -> str:
    """Format a time for EC2: ``2026-11-28T14:34:39.000Z``.

    :param value: UTC unless it has a zone; a string is ISO 8601, as OpenStack services send it
    """
    found = datetime.datetime.fromisoformat(value) if isinstance(value, str) else value
    if found.tzinfo is not None:
        found = found.astimezone(datetime.UTC)
    return found.strftime('%Y-%m-%dT%H:%M:%S.') + f'{found.microsecond // 1000:03d}Z'


_WRITERS: dict[str, _Writer] = {
    'boolean': lambda out, value: out.append('true' if value else 'false'),
    'timestamp': lambda out, value: _write_text(out, time(value)),
    'blob': lambda out, value: out.append(base64.b64encode(value).decode())}
