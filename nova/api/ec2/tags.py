"""Tags: metadata of instances, volumes and snapshots; rows of the API database for other resources."""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
import contextlib
from typing import Any
import urllib.parse

from nova import exception
from nova.api.ec2 import errors
from nova.api.ec2 import filters
from nova.api.ec2 import ids
from nova.api.ec2 import key_names
from nova.api.ec2 import operations
from nova.api.ec2 import waits
from nova.api.metadata import tokens
from nova.db.ec2 import launch_templates
from nova.db.ec2 import tags as db
from nova.db.ec2 import vpcs

KEY_LENGTH, VALUE_LENGTH = 127, 255
MOST = 50                                  # tags of one request
HIDDEN = 'ec2:'                            # prefix of internal keys in metadata
# metadata keys that are not tags, because they require session tokens for the metadata service
KEPT = frozenset({tokens.PROPERTY, tokens.HOPS})
# prefix: (service, path of the metadata, key of its document)
METADATA = {
    'i': ('compute', '/servers/{}/metadata', 'metadata'),
    'vol': ('volume', '/volumes/{}/metadata', 'metadata'),
    'snap': ('volume', '/snapshots/{}/metadata', 'metadata'),
}
# prefix: (name of the resource type, service, path to check its visibility); no service: a resource of the EC2 API
TYPES = {
    'i': ('instance', 'compute', '/servers/{}'), 'ami': ('image', 'image', '/images/{}'),
    'vol': ('volume', 'volume', '/volumes/{}'), 'snap': ('snapshot', 'volume', '/snapshots/{}'),
    'sg': ('security-group', 'network', '/security-groups/{}'), 'eni': ('network-interface', 'network', '/ports/{}'),
    'pg': ('placement-group', 'compute', '/os-server-groups/{}'),
    'eipalloc': ('elastic-ip', 'network', '/floatingips/{}'), 'subnet': ('subnet', 'network', '/subnets/{}'),
    'sgr': ('security-group-rule', 'network', '/security-group-rules/{}'),
    'vpc': ('vpc', 'network', '/routers/{}'), 'igw': ('internet-gateway', '', ''), 'rtb': ('route-table', '', ''),
    'dopt': ('dhcp-options', '', ''), 'lt': ('launch-template', '', ''), 'key': ('key-pair', '', ''),
}


def shown(values: Mapping[str, Any] | None) -> list[dict[str, str]]:
    """Return the tags in a mapping in the form of a response."""
    return [{'Key': key, 'Value': str(value)} for key, value in sorted((values or {}).items())
            if not _hidden(key)]


def _hidden(key: str) -> bool:
    return key.startswith(HIDDEN) or key in KEPT


def given(specifications: Sequence[dict[str, Any]] | None, kind: str) -> dict[str, str]:
    """Return the tags in the TagSpecifications of a request.

    :param kind: resource type, such as ``instance``
    :raises Ec2Error: tags for another type, or too many tags
    """
    found: dict[str, str] = {}
    for specification in specifications or ():
        if specification.get('ResourceType') != kind:
            raise errors.Ec2Error('InvalidParameterValue', 'TagSpecifications must have the resource type '
                                  f'{kind}.')
        found |= checked(specification.get('Tags'))
    return found


def checked(tags: Sequence[dict[str, Any]] | None) -> dict[str, str]:
    """Return {key: value} of tags in a request.

    :raises Ec2Error: too many, too long, or a reserved key
    """
    if len(tags or ()) > MOST:
        raise errors.Ec2Error('TagLimitExceeded', f'A request can have at most {MOST} tags.')
    found = {}
    for tag in tags or ():
        key, value = tag.get('Key') or '', tag.get('Value') or ''
        if not key or len(key) > KEY_LENGTH or len(value) > VALUE_LENGTH or key.startswith('aws:') or _hidden(key):
            raise errors.Ec2Error('InvalidParameterValue', f'A tag key must have 1 to {KEY_LENGTH} characters, must '
                                  f'not begin with "aws:" or "{HIDDEN}" and must not be "{tokens.PROPERTY}"; a value '
                                  f'has at most {VALUE_LENGTH} characters.')
        found[key] = value
    return found


def put(req: operations.Request, prefix: str, uuid: str, tags: Mapping[str, str]) -> None:
    """Set tags of a resource that is visible to the caller."""
    if not tags:
        return
    if prefix in METADATA:
        service, path, key = METADATA[prefix]
        _when_built(req, prefix, uuid, lambda: req.call(service, 'POST', path.format(uuid), {key: dict(tags)}))
        return
    req.writes()
    try:
        db.put(req.api_db, req.project_id, req.ids.number(prefix, uuid), tags)
    except exception.BadRequest as error:
        raise errors.Ec2Error('TagLimitExceeded', error.message) from None


def _when_built(req: operations.Request, prefix: str, uuid: str, write: Callable[[], object]) -> None:
    """Write metadata of a server; wait for the end of its build, because clients tag new instances."""
    try:
        write()
    except errors.ServiceRefused as refused:
        if prefix != 'i' or refused.status != 409 or not waits.wait(
                req, uuid, lambda server: bool(server['status'] != 'BUILD')):
            raise
        write()


def forget(req: operations.Request, prefix: str, uuid: str) -> None:
    """Remove all tags of a deleted resource, because its ID may be reused."""
    req.writes()
    db.remove(req.api_db, req.project_id, req.ids.number(prefix, uuid), {})


def of(req: operations.Request, prefix: str, uuids: Sequence[str]) -> dict[str, list[dict[str, str]]]:
    """Return {uuid: tags} of resources with tags in the API database."""
    numbers = req.ids.numbers(prefix, uuids)
    found = db.of(req.api_db, req.project_id, list(numbers.values()))
    return {uuid: shown(found.get(number)) for uuid, number in numbers.items()}


def _visible(req: operations.Request, resource: str) -> tuple[str, str]:
    """Return (prefix, uuid) of a resource that is visible to the caller.

    :raises Ec2Error: the resource does not exist
    """
    prefix = ids.prefix_of(resource)
    if prefix not in TYPES:
        raise errors.Ec2Error('InvalidID', f'The resource {resource[:64]!r} does not support tags.')
    _kind, service, path = TYPES[prefix]
    if service:
        req.find(prefix, resource, service, path)
    uuid = req.uuid(prefix, resource)
    if not service and not _OWN[prefix](req, uuid):
        raise errors.not_found(prefix, resource)
    return prefix, uuid


# prefix of resources without a service: function(request, uuid) -> True if the project owns it
_OWN: dict[str, Callable[[operations.Request, str], bool]] = {
    'igw': lambda req, uuid: vpcs.exists(req.api_db, 'igw', req.project_id, uuid),
    'rtb': lambda req, uuid: vpcs.exists(req.api_db, 'rtb', req.project_id, uuid),
    'dopt': lambda req, uuid: uuid in vpcs.known(req.api_db, req.project_id).options,
    'lt': lambda req, uuid: launch_templates.one(req.api_db, req.project_id, uuid=uuid) is not None,
    'key': lambda req, uuid: any(key_names.uuid_of(req, pair['name']) == uuid for pair in key_names.pairs_of(req)),
}


def create_tags(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    tags = checked(given['Tags'])
    things = [_visible(req, resource) for resource in given['Resources']]
    for prefix, uuid in things:
        put(req, prefix, uuid, tags)
    return {}


def delete_tags(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    wanted = {str(tag.get('Key')): tag.get('Value') for tag in given.get('Tags') or ()}
    for prefix, uuid in [_visible(req, resource) for resource in given['Resources']]:
        if prefix not in METADATA:
            req.writes()
            db.remove(req.api_db, req.project_id, req.ids.number(prefix, uuid), wanted)
            continue
        service, path, key = METADATA[prefix]
        present = req.call(service, 'GET', path.format(uuid))[key]
        for name, value in present.items():
            if not _hidden(name) and (not wanted or name in wanted and wanted[name] in (None, value)):
                req.call(service, 'DELETE', f'{path.format(uuid)}/{urllib.parse.quote(name, safe="")}')
    return {}


def describe_tags(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    rows = [('i', server['id'], tag) for server in req.pages('compute', '/servers/detail', 'servers')
            for tag in shown(server['metadata'])]
    with contextlib.suppress(errors.NoService):        # the cloud may have no block storage service
        for prefix, kind in (('vol', 'volumes'), ('snap', 'snapshots')):
            rows += [(prefix, row['id'], tag) for row in req.pages('volume', f'/{kind}/detail', kind)
                     for tag in shown(row.get('metadata'))]
    names = {prefix: req.ids.shown(prefix, {row[1] for row in rows if row[0] == prefix}) for prefix in METADATA}
    found = [{'ResourceId': names[prefix][uuid], 'ResourceType': TYPES[prefix][0], **tag}
             for prefix, uuid, tag in rows]
    kept = db.listed(req.api_db, req.project_id)
    others = {prefix: req.ids.shown(prefix, {row[0] for row in kept if row[1] == prefix})
              for prefix in {row[1] for row in kept}}
    for uuid, prefix, key, value in kept:
        found.append({'ResourceId': others[prefix][uuid], 'ResourceType': TYPES[prefix][0], 'Key': key,
                      'Value': value})
    found = filters.apply(found, given.get('Filters'), {
        'key': lambda tag: tag['Key'], 'value': lambda tag: tag['Value'],
        'resource-id': lambda tag: tag['ResourceId'], 'resource-type': lambda tag: tag['ResourceType'],
        'tag': lambda tag: tag['Key']})
    for tag in found:
        tag['place'] = f'{tag["ResourceId"]} {tag["Key"]}'
    page, following = filters.page(found, given, 'place')
    return {'Tags': [{key: value for key, value in tag.items() if key != 'place'} for tag in page],
            'NextToken': following}


OPERATIONS = [
    operations.row('CreateTags', create_tags, 'Resources Tags'),
    operations.row('DeleteTags', delete_tags, 'Resources Tags'),
    operations.row('DescribeTags', describe_tags, operations.PAGED),
]
