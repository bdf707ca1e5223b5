"""EC2 operations that create images from instances, and deregister or share images."""
from typing import Any
import urllib.parse

from nova.ec2 import errors
from nova.ec2 import operations
from nova.ec2 import tags
from nova.json_types import JsonDocument


def create_image(req: operations.Request, given: operations.Given) -> JsonDocument:
    uuid, found = req.uuid('i', given['InstanceId']), tags.given(given.get('TagSpecifications'), 'image')
    metadata = {'description': given['Description']} if given.get('Description') else {}
    with errors.OnStatus(404, lambda _refused: errors.not_found('i', given['InstanceId'])):
        made = req.call('compute', 'POST', f'/servers/{uuid}/action', {'createImage': {
            'name': given['Name'], 'metadata': metadata}})
    tags.put(req, 'ami', made['image_id'], found)
    return {'ImageId': req.ids.one('ami', made['image_id'])}


def _visible(req: operations.Request, shown: str) -> dict[str, Any]:
    return req.find('ami', shown, 'image', '/images/{}')


def deregister_image(req: operations.Request, given: operations.Given) -> JsonDocument:
    uuid = _visible(req, given['ImageId'])['id']
    req.call('image', 'DELETE', f'/images/{uuid}')
    tags.forget(req, 'ami', uuid)
    return {}


def _members(req: operations.Request, uuid: str) -> list[str]:
    return [member['member_id'] for member in req.call('image', 'GET', f'/images/{uuid}/members')['members']]


def describe_image_attribute(req: operations.Request, given: operations.Given) -> JsonDocument:
    image, attribute = _visible(req, given['ImageId']), given['Attribute']
    answer: dict[str, Any] = {'ImageId': given['ImageId']}
    if attribute == 'description':
        answer['Description'] = {'Value': image.get('description')}
    elif attribute == 'launchPermission':
        members = _members(req, image['id']) if image['visibility'] == 'shared' else ()
        shared = [{'UserId': member} for member in members]
        answer['LaunchPermissions'] = [{'Group': 'all'}] if image['visibility'] == 'public' else shared
    elif attribute == 'productCodes':
        answer['ProductCodes'] = []                                    # not supported
    else:
        raise errors.unsupported(f'The attribute {attribute[:64]!r} is not supported.')
    return answer


def modify_image_attribute(req: operations.Request, given: operations.Given) -> JsonDocument:
    """Modify launch permissions (members of the image) or the description. The group ``all`` means public, which
    requires an administrator.

    :raises Ec2Error: a user is added to a public image, which has no members
    """
    image, change = _visible(req, given['ImageId']), _permissions(given)
    uuid = image['id']
    added, public = change.get('Add') or (), image['visibility'] in ('public', 'community')
    if any(row.get('UserId') for row in added) and (public or any(row.get('Group') == 'all' for row in added)):
        raise errors.unsupported('A public image cannot also be shared with users, because everybody may launch it. '
                                 'Remove the group all first.')
    if 'Description' in given or given.get('Attribute') == 'description':
        if change:
            raise errors.Ec2Error('InvalidParameterCombination', 'A request can modify only one attribute.')
        text = given['Description'].get('Value') if 'Description' in given else given.get('Value')
        _put(req, uuid, 'description', text or '')
    elif not change or 'Value' in given:
        raise errors.Ec2Error('InvalidParameterCombination', 'The request must specify an attribute: '
                                                             'Description or launch permissions.')
    for kind, add in (('Add', True), ('Remove', False)):
        for permission in change.get(kind) or ():
            if permission.get('Group') == 'all':
                _put(req, uuid, 'visibility', 'public' if add else 'shared')
            elif permission.get('UserId') and add:
                _put(req, uuid, 'visibility', 'shared')
                with errors.ignored(409):        # a request that failed halfway has added the member
                    req.call('image', 'POST', f'/images/{uuid}/members', {'member': permission['UserId']})
            elif permission.get('UserId'):
                with errors.ignored(404):        # likewise
                    req.call('image', 'DELETE', f'/images/{uuid}/members/{_quoted(permission["UserId"])}')
            else:
                raise errors.unsupported('A launch permission must have a UserId or the Group all.')
    return {}


def _permissions(given: operations.Given) -> dict[str, Any]:
    """Return {'Add': permissions, 'Remove': permissions} from LaunchPermission, or from UserIds and UserGroups.

    :raises Ec2Error: unsupported attribute
    """
    kind, operation = given.get('Attribute'), given.get('OperationType')
    if kind not in (None, 'launchPermission', 'description'):
        raise errors.unsupported(f'The attribute {kind[:64]!r} of images cannot be modified.')
    listed = [{'UserId': user} for user in given.get('UserIds') or ()]
    listed += [{'Group': group} for group in given.get('UserGroups') or ()]
    if not listed:
        return dict(given.get('LaunchPermission') or {})
    if operation not in ('add', 'remove'):
        raise errors.invalid('OperationType', operation)
    return {operation.capitalize(): listed}


def reset_image_attribute(req: operations.Request, given: operations.Given) -> JsonDocument:
    """Remove all launch permissions: the image becomes private."""
    if given['Attribute'] != 'launchPermission':
        raise errors.unsupported(f'The attribute {given["Attribute"][:64]!r} of images cannot be reset.')
    image = _visible(req, given['ImageId'])
    for member in _members(req, image['id']) if image['visibility'] == 'shared' else ():
        req.call('image', 'DELETE', f'/images/{image["id"]}/members/{_quoted(member)}')
    _put(req, image['id'], 'visibility', 'private')
    return {}


def _quoted(name: str) -> str:
    return urllib.parse.quote(name, safe='')


def _put(req: operations.Request, uuid: str, name: str, value: str) -> None:
    """Set a property of an image."""
    image = req.call('image', 'GET', f'/images/{uuid}')
    if image.get(name) != value:
        req.call('image', 'PATCH', f'/images/{uuid}', [
            {'op': 'replace' if name in image else 'add', 'path': f'/{name}', 'value': value}],
            headers={'Content-Type': 'application/openstack-images-v2.1-json-patch'})


OPERATIONS = [
    operations.row('CreateImage', create_image, 'InstanceId Name Description TagSpecifications', 'NoReboot'),
    operations.row('DeregisterImage', deregister_image, 'ImageId'),
    operations.row('DescribeImageAttribute', describe_image_attribute, 'ImageId Attribute'),
    operations.row('ModifyImageAttribute', modify_image_attribute,
                   'ImageId Attribute LaunchPermission Description Value UserIds UserGroups OperationType'),
    operations.row('ResetImageAttribute', reset_image_attribute, 'ImageId Attribute'),
]
