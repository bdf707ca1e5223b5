"""Tags of resources.

Tags of instances, volumes and snapshots are items of their metadata. Tags of other resources, and tags with keys that
are invalid in metadata, are rows of the API database.
"""
from collections.abc import Callable, Mapping, Sequence
import contextlib
import re
import urllib.parse

from nova import exception
from nova.api.metadata import tokens
from nova.db.ec2 import launch_templates
from nova.db.ec2 import tags as db
from nova.db.ec2 import vpcs
from nova.ec2 import errors
from nova.ec2 import filters
from nova.ec2 import ids
from nova.ec2 import key_names
from nova.ec2 import operations
from nova.ec2 import waits
from nova.json_types import JsonDocument
from nova.web import params

KEY_LENGTH, VALUE_LENGTH = 127, 255
MAX_TAGS = 50                              # tags of one request
HIDDEN = db.HIDDEN                         # prefix of internal keys, in metadata and in rows
TEMPLATE = HIDDEN + 'launch-template'       # metadata item of a server: ID and version of its launch template
TEMPLATE_TAGS = ('aws:ec2launchtemplate:id', 'aws:ec2launchtemplate:version')      # tags that show the template
DELETED = HIDDEN + 'delete-with-snapshots'   # metadata item of a hidden volume, see volumes.deletion
# metadata keys that are never tags: they configure the access of the guest to the metadata service
PROTECTED = frozenset({tokens.PROPERTY, tokens.HOPS})
_PROTECTED_TEXT = ' or '.join(f'"{key}"' for key in sorted(PROTECTED))
_METADATA_KEY = re.compile(params.METADATA_KEY)       # keys that the compute API and Cinder accept
# {prefix: (service, path of the metadata, key of its document)}
METADATA = {
    'i': ('compute', '/servers/{}/metadata', 'metadata'),
    'vol': ('volume', '/volumes/{}/metadata', 'metadata'),
    'snap': ('volume', '/snapshots/{}/metadata', 'metadata'),
}
# {prefix: (name of the resource type, service or '' for a resource of the EC2 API, path to check its visibility)}
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


def shown(values: Mapping[str, str] | None) -> list[dict[str, str]]:
    """Convert {key: value} to the form of a response, [{'Key', 'Value'}]."""
    found = {key: str(value) for key, value in (values or {}).items() if not _hidden(key)}
    found |= zip(TEMPLATE_TAGS, str((values or {}).get(TEMPLATE, '')).split())
    return [{'Key': key, 'Value': value} for key, value in sorted(found.items())]


def _hidden(key: str) -> bool:
    return key.startswith(HIDDEN) or key in PROTECTED


def given(specifications: Sequence[operations.TagSpecification] | None, kind: str) -> dict[str, str]:
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
    if len(found) > MAX_TAGS:                # before the resource is created
        raise errors.Ec2Error('TagLimitExceeded', f'A request can have at most {MAX_TAGS} tags.')
    return found


def checked(tags: Sequence[operations.Tag] | None) -> dict[str, str]:
    """Return {key: value} of tags in a request.

    :raises Ec2Error: too many, too long, or a reserved key
    """
    if len(tags or ()) > MAX_TAGS:
        raise errors.Ec2Error('TagLimitExceeded', f'A request can have at most {MAX_TAGS} tags.')
    found = {}
    for tag in tags or ():
        key, value = tag.get('Key') or '', tag.get('Value') or ''
        if not key or len(key) > KEY_LENGTH or len(value) > VALUE_LENGTH or key.startswith('aws:') or _hidden(key):
            raise errors.Ec2Error('InvalidParameterValue', f'A tag key must have 1 to {KEY_LENGTH} characters, must '
                                  f'not begin with "aws:" or "{HIDDEN}" and must not be {_PROTECTED_TEXT}; a value '
                                  f'has at most {VALUE_LENGTH} characters.')
        found[key] = value
    return found


def is_metadata(prefix: str, key: str) -> bool:
    """Return whether a tag is an item of the resource's metadata."""
    return prefix in METADATA and bool(_METADATA_KEY.fullmatch(key))


def divided(prefix: str, tags: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return (tags that are metadata, tags in the API database)."""
    items = {key: value for key, value in tags.items() if is_metadata(prefix, key)}
    return items, {key: value for key, value in tags.items() if key not in items}


def put(req: operations.Request, prefix: str, uuid: str, tags: Mapping[str, str]) -> None:
    """Set tags of a resource that is visible to the caller."""
    items, rows = divided(prefix, tags)
    if items:
        service, path, key = METADATA[prefix]
        _when_built(req, prefix, uuid, lambda: req.call(service, 'POST', path.format(uuid), {key: items}))
    if rows:
        put_rows(req, prefix, uuid, rows)


def put_rows(req: operations.Request, prefix: str, uuid: str, tags: Mapping[str, str]) -> None:
    """Set tags or internal attributes (prefix HIDDEN) in the API database."""
    req.writes()
    try:
        db.put(req.api_db, req.project_id, req.ids.number(prefix, uuid), tags)
    except exception.InvalidInput as error:
        raise errors.Ec2Error('InvalidParameterValue', error.message) from None
    except exception.BadRequest as error:
        raise errors.Ec2Error('TagLimitExceeded', error.message) from None


def _when_built(req: operations.Request, prefix: str, uuid: str, write: Callable[[], object]) -> None:
    """Write metadata. Clients tag new instances, so wait and write again if the server is still being built."""
    try:
        write()
    except errors.ServiceRefused as refused:
        if prefix != 'i' or refused.status != 409 or not waits.wait(
                req, uuid, lambda server: bool(server['status'] != 'BUILD')):
            raise
        write()


def forget(req: operations.Request, prefix: str, *uuids: str) -> None:
    """Remove all tags and internal attributes of deleted resources. DescribeTags shows them otherwise, and an ID may
    be reused.
    """
    req.writes()
    for number in req.ids.numbers(prefix, uuids).values():
        db.remove(req.api_db, req.project_id, number, {})


def of(req: operations.Request, prefix: str, uuids: Sequence[str]) -> dict[str, list[dict[str, str]]]:
    """Return {uuid: tags in the API database} of these resources."""
    numbers = req.ids.numbers(prefix, uuids)
    found = db.of(req.api_db, req.project_id, list(numbers.values()))
    return {uuid: shown(found.get(number)) for uuid, number in numbers.items()}


def attributes_of(req: operations.Request, prefix: str, uuids: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return {uuid: {name without HIDDEN: value}} of internal attributes."""
    numbers = req.ids.numbers(prefix, uuids)
    found = db.of(req.api_db, req.project_id, list(numbers.values()))
    return {uuid: {key.removeprefix(HIDDEN): value for key, value in found.get(number, {}).items()
                   if key.startswith(HIDDEN)} for uuid, number in numbers.items()}


def attribute(req: operations.Request, prefix: str, uuids: Sequence[str], name: str) -> dict[str, str]:
    """Return {uuid: value} of an internal attribute, for the resources that have it.

    :param name: name without HIDDEN
    """
    return {uuid: found[name] for uuid, found in attributes_of(req, prefix, uuids).items() if name in found}


def attributes(req: operations.Request, prefix: str, uuid: str) -> dict[str, str]:
    """Return {name without HIDDEN: value} of the internal attributes of a resource."""
    return attributes_of(req, prefix, [uuid])[uuid]


def remove_attribute(req: operations.Request, prefix: str, uuid: str, name: str) -> None:
    """Remove an internal attribute.

    :param name: name without HIDDEN
    """
    req.writes()
    db.remove(req.api_db, req.project_id, req.ids.number(prefix, uuid), {HIDDEN + name: None})


def merged(metadata: Mapping[str, str] | None, rows: Sequence[dict[str, str]]) -> list[dict[str, str]]:
    """Return the tags of a resource with metadata: its metadata items and its tags in the API database."""
    return sorted([*shown(metadata), *rows], key=lambda tag: tag['Key'])


def _visible(req: operations.Request, resource: str) -> tuple[str, str]:
    """Return (prefix, uuid) of a resource that is visible to the caller.

    :raises Ec2Error: the resource does not exist
    """
    prefix = ids.prefix_of(resource)
    if prefix not in TYPES:
        raise errors.Ec2Error('InvalidID', f'The resource {resource[:64]!r} does not support tags.')
    _kind, service, path = TYPES[prefix]
    found = req.find(prefix, resource, service, path) if service else {}
    if prefix == 'vol' and DELETED in found['volume']['metadata']:
        raise errors.not_found(prefix, resource)
    uuid = req.uuid(prefix, resource)
    if not service and not _OWN[prefix](req, uuid):
        raise errors.not_found(prefix, resource)
    return prefix, uuid


# {prefix of resources of the EC2 API: function(request, uuid) -> True if the project owns the resource}
_OWN: dict[str, Callable[[operations.Request, str], bool]] = {
    'igw': lambda req, uuid: vpcs.exists(req.api_db, 'igw', req.project_id, uuid),
    'rtb': lambda req, uuid: vpcs.exists(req.api_db, 'rtb', req.project_id, uuid),
    'dopt': lambda req, uuid: uuid in vpcs.known(req.api_db, req.project_id).options,
    'lt': lambda req, uuid: launch_templates.one(req.api_db, req.project_id, uuid=uuid) is not None,
    'key': lambda req, uuid: any(key_names.uuid_of(req, pair['name']) == uuid for pair in key_names.pairs_of(req)),
}


def create_tags(req: operations.Request, given: operations.Given) -> JsonDocument:
    tags = checked(given['Tags'])
    things = [_visible(req, resource) for resource in given['Resources']]
    for prefix, uuid in things:
        put(req, prefix, uuid, tags)
    return {}


def delete_tags(req: operations.Request, given: operations.Given) -> JsonDocument:
    wanted = {str(tag.get('Key')): tag.get('Value') for tag in given.get('Tags') or ()}
    for prefix, uuid in [_visible(req, resource) for resource in given['Resources']]:
        req.writes()
        number = req.ids.number(prefix, uuid)
        present = db.of(req.api_db, req.project_id, [number]).get(number, {})
        if rows := {name: wanted.get(name) for name in present if not _hidden(name) and (not wanted or name in wanted)}:
            db.remove(req.api_db, req.project_id, number, rows)
        if prefix not in METADATA:
            continue
        service, path, key = METADATA[prefix]
        present = req.call(service, 'GET', path.format(uuid))[key]
        for name, value in present.items():
            if not _hidden(name) and (not wanted or name in wanted and wanted[name] in (None, value)):
                req.call(service, 'DELETE', f'{path.format(uuid)}/{urllib.parse.quote(name, safe="")}')
    return {}


def describe_tags(req: operations.Request, given: operations.Given) -> JsonDocument:
    things = [('i', server['id'], server['metadata']) for server in req.pages('compute', '/servers/detail', 'servers')]
    with contextlib.suppress(errors.NoService):        # the cloud may have no block storage service
        for prefix, kind in (('vol', 'volumes'), ('snap', 'snapshots')):
            things += [(prefix, row['id'], row.get('metadata')) for row in req.pages('volume', f'/{kind}/detail', kind)
                       if DELETED not in (row.get('metadata') or ())]
    rows = [(prefix, uuid, tag) for prefix, uuid, metadata in things for tag in shown(metadata)]
    names = {prefix: req.ids.shown(prefix, {thing[1] for thing in things if thing[0] == prefix}) for prefix in METADATA}
    found = [{'ResourceId': names[prefix][uuid], 'ResourceType': TYPES[prefix][0], **tag}
             for prefix, uuid, tag in rows]
    kept = db.listed(req.api_db, req.project_id)
    others = {prefix: req.ids.shown(prefix, {row[0] for row in kept if row[1] == prefix})
              for prefix in {row[1] for row in kept}}
    there = {(prefix, uuid) for prefix, shown_ids in names.items() for uuid in shown_ids}
    for uuid, prefix, key, value in kept:
        if _hidden(key) or prefix in METADATA and (prefix, uuid) not in there:
            continue
        found.append({'ResourceId': others[prefix][uuid], 'ResourceType': TYPES[prefix][0], 'Key': key,
                      'Value': value})
    return filters.answer('Tags', found, given, lambda tag: f'{tag["ResourceId"]} {tag["Key"]}', {
        'key': 'Key', 'value': 'Value', 'resource-id': 'ResourceId', 'resource-type': 'ResourceType', 'tag': 'Key'})


OPERATIONS = [
    operations.row('CreateTags', create_tags, 'Resources Tags'),
    operations.row('DeleteTags', delete_tags, 'Resources Tags'),
    operations.row('DescribeTags', describe_tags, operations.PAGED),
]
