"""Images that are made of instances, deregistered, and shared."""
from __future__ import annotations

from typing import Any
import urllib.parse

from nova.api.ec2 import errors
from nova.api.ec2 import operations
from nova.api.ec2 import tags


def create_image(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    uuid = req.ids.uuid('i', given['InstanceId'])
    metadata = {'description': given['Description']} if given.get('Description') else {}
    try:
        made = req.call('compute', 'POST', f'/servers/{uuid}/action', {'createImage': {
            'name': given['Name'], 'metadata': metadata}})
    except errors.ServiceRefused as refused:
        if refused.status == 404:
            raise errors.not_found('i', given['InstanceId']) from None
        raise
    tags.put(req, 'ami', made['image_id'], tags.given(given.get('TagSpecifications'), 'image'))
    return {'ImageId': req.ids.one('ami', made['image_id'])}


def _visible(req: operations.Request, shown: str) -> dict[str, Any]:
    return req.find('ami', shown, 'image', '/images/{}')


def deregister_image(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    req.call('image', 'DELETE', f'/images/{_visible(req, given["ImageId"])["id"]}')
    return {}


def _members(req: operations.Request, uuid: str) -> list[str]:
    return [member['member_id'] for member in req.call('image', 'GET', f'/images/{uuid}/members')['members']]


def describe_image_attribute(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    image, attribute = _visible(req, given['ImageId']), given['Attribute']
    answer: dict[str, Any] = {'ImageId': given['ImageId']}
    if attribute == 'description':
        answer['Description'] = {'Value': image.get('description')}
    elif attribute == 'launchPermission':
        members = _members(req, image['id']) if image['visibility'] == 'shared' else ()
        shared = [{'UserId': member} for member in members]
        answer['LaunchPermissions'] = [{'Group': 'all'}] if image['visibility'] == 'public' else shared
    elif attribute == 'productCodes':
        answer['ProductCodes'] = []                                    # nothing is sold here
    else:
        raise errors.unsupported(f'The attribute {attribute[:64]!r} is not known here.')
    return answer


def modify_image_attribute(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    """Launch permissions: members of the image; the group ``all`` makes it public, which takes an administrator."""
    uuid, change = _visible(req, given['ImageId'])['id'], given.get('LaunchPermission') or {}
    for kind, add in (('Add', True), ('Remove', False)):
        for permission in change.get(kind) or ():
            if permission.get('Group') == 'all':
                _patch(req, uuid, 'public' if add else 'shared')
            elif permission.get('UserId') and add:
                _patch(req, uuid, 'shared')
                req.call('image', 'POST', f'/images/{uuid}/members', {'member': permission['UserId']})
            elif permission.get('UserId'):
                req.call('image', 'DELETE', f'/images/{uuid}/members/{_quoted(permission["UserId"])}')
            else:
                raise errors.unsupported('A launch permission has a UserId, or the Group all.')
    return {}


def _quoted(name: str) -> str:
    return urllib.parse.quote(name, safe='')


def _patch(req: operations.Request, uuid: str, visibility: str) -> None:
    if req.call('image', 'GET', f'/images/{uuid}')['visibility'] != visibility:
        req.call('image', 'PATCH', f'/images/{uuid}', [{'op': 'replace', 'path': '/visibility', 'value': visibility}],
                 headers={'Content-Type': 'application/openstack-images-v2.1-json-patch'})


OPERATIONS = [
    operations.row('CreateImage', create_image, 'InstanceId Name Description TagSpecifications', 'NoReboot'),
    operations.row('DeregisterImage', deregister_image, 'ImageId'),
    operations.row('DescribeImageAttribute', describe_image_attribute, 'ImageId Attribute'),
    operations.row('ModifyImageAttribute', modify_image_attribute, 'ImageId Attribute LaunchPermission'),
]
