"""EC2's query protocol: parameters of a request into values, values into the XML of an answer.

The shapes come from botocore's model of EC2, which its vendor maintains: each field has its name, type and place there.
What an answer does not have is left out.
"""
from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
import datetime
import functools
import re
from typing import Any
from xml.etree import ElementTree as etree

from nova.api.ec2 import errors

VERSION = '2016-11-15'
MOST_PARAMETERS = 2000
MOST_STEPS = 8                       # of a name, as in BlockDeviceMapping.1.Ebs.VolumeSize
MOST_ITEMS = 1000                    # of a list
_INDEX = re.compile(r'(0|[1-9][0-9]{0,4})\Z')            # libcloud counts some lists from 0, and EC2 takes it
_INTEGER = re.compile(r'-?[0-9]{1,18}\Z')
_NOT_XML = re.compile('[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]')
# Of each request, and no part of an operation.
COMMON = frozenset({'Action', 'Version', 'AWSAccessKeyId', 'SignatureVersion', 'SignatureMethod', 'Signature',
                    'Timestamp', 'Expires', 'SecurityToken'})


@functools.cache
def service() -> Any:
    """The model of EC2, a botocore.model.ServiceModel.

    The first request loads it, in a tenth of a second: a cloud without clients of EC2 does without the memory.
    """
    from botocore import loaders
    from botocore import model
    return model.ServiceModel(loaders.Loader().load_service_model('ec2', 'service-2', VERSION), 'ec2')


def parse(operation: str, pairs: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """The values of a request, named as in the model.

    :param operation: a name that the model has
    :param pairs: names and values as the client sent them
    :raises Ec2Error: too many parameters, an unknown one, or a value of the wrong type
    """
    tree: dict[str, Any] = {}
    for count, (name, value) in enumerate(pairs):
        if count >= MOST_PARAMETERS:
            raise errors.Ec2Error('InvalidParameterCombination', f'More than {MOST_PARAMETERS} parameters.')
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
    if len(steps) > MOST_STEPS or not all(steps):
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


def _structure(shape: Any, tree: Any, where: str) -> dict[str, Any]:
    if not isinstance(tree, dict):
        raise errors.invalid(where, tree)
    names = {_input_name(member, name): (name, member) for name, member in shape.members.items()}
    values = {}
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


def _input_name(member: Any, name: str) -> str:
    found = member.serialization.get('queryName')
    if found:
        return str(found)
    name = str(member.serialization.get('name', name))
    return name[:1].upper() + name[1:]


def _value(shape: Any, below: Any, where: str) -> Any:
    kind = shape.type_name
    if kind == 'structure':
        return _structure(shape, below, where)
    if kind == 'list':
        return _list(shape, below, where)
    if not isinstance(below, str):
        raise _unknown(where)
    return _SCALARS[kind](below, where)


def _list(shape: Any, below: Any, where: str) -> list[Any]:
    if isinstance(below, str):                       # libcloud names one key pair so, and EC2 takes it
        below = {'1': below}
    if not isinstance(below, dict):
        raise errors.invalid(where, below)
    if len(below) > MOST_ITEMS or not all(_INDEX.match(index) for index in below):
        raise errors.invalid(where, f'a list of at most {MOST_ITEMS} items with numbers')
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
        raise errors.invalid(where, 'text that is no base64') from None


def _timestamp(text: str, where: str) -> datetime.datetime:
    try:
        return datetime.datetime.fromisoformat(text)
    except ValueError:
        raise errors.invalid(where, text) from None


def _refused(text: str, where: str) -> Any:
    raise errors.unsupported(f'The parameter {where} is not supported.')


_SCALARS = {'string': _string, 'integer': _integer, 'long': _integer, 'boolean': _boolean, 'blob': _blob,
            'timestamp': _timestamp, 'float': _refused, 'double': _refused, 'map': _refused}


# ---- answers

def answer(operation: str, values: dict[str, Any], request_id: str, version: str = VERSION) -> bytes:
    """The XML of an operation that was carried out.

    :param values: named as in the model; None and empty lists stand for nothing
    """
    root = etree.Element(f'{operation}Response', xmlns=f'http://ec2.amazonaws.com/doc/{version}/')
    etree.SubElement(root, 'requestId').text = request_id
    shape = service().operation_model(operation).output_shape
    if shape is None or not shape.members:
        etree.SubElement(root, 'return').text = 'true'
    else:
        _add_members(root, shape, values)
    return _text(root)


def who(user_id: str, project_id: str, request_id: str) -> bytes:
    """The answer of STS to who it is that has signed: the project is the account."""
    root = etree.Element('GetCallerIdentityResponse', xmlns='https://sts.amazonaws.com/doc/2011-06-15/')
    found = etree.SubElement(root, 'GetCallerIdentityResult')
    for name, value in (('Arn', f'arn:aws:iam::{project_id}:user/{user_id}'), ('UserId', user_id),
                        ('Account', project_id)):
        etree.SubElement(found, name).text = value
    etree.SubElement(etree.SubElement(root, 'ResponseMetadata'), 'RequestId').text = request_id
    return _text(root)


def fault(error: errors.Ec2Error, request_id: str) -> bytes:
    """The XML of a refusal."""
    root = etree.Element('Response')
    element = etree.SubElement(etree.SubElement(root, 'Errors'), 'Error')
    etree.SubElement(element, 'Code').text = error.code
    etree.SubElement(element, 'Message').text = _NOT_XML.sub('', error.message)
    etree.SubElement(root, 'RequestID').text = request_id
    return _text(root)


def _text(root: etree.Element) -> bytes:
    return b'<?xml version="1.0" encoding="UTF-8"?>\n' + etree.tostring(root, encoding='utf-8')


def _add_members(parent: etree.Element, shape: Any, values: dict[str, Any]) -> None:
    for name, value in values.items():
        if value is not None:
            member = shape.members[name]                     # a KeyError is a name that the model does not have
            _add(parent, member, str(member.serialization.get('name', name)), value)


def _add(parent: etree.Element, shape: Any, tag: str, value: Any) -> None:
    kind = shape.type_name
    element = etree.SubElement(parent, tag)
    if kind == 'structure':
        _add_members(element, shape, value)
    elif kind == 'list':
        for item in value:
            _add(element, shape.member, str(shape.member.serialization.get('name', 'item')), item)
    elif kind == 'boolean':
        element.text = 'true' if value else 'false'
    elif kind == 'timestamp':
        element.text = value if isinstance(value, str) else value.strftime('%Y-%m-%dT%H:%M:%S.000Z')
    elif kind == 'blob':
        element.text = base64.b64encode(value).decode()
    else:
        element.text = _NOT_XML.sub('', str(value))
