"""EC2 operations on launch templates: stored and versioned parameters of RunInstances."""
from collections.abc import Callable, Iterator
import contextlib
import datetime
import re
from typing import Any, cast, Concatenate, ParamSpec, TypeVar
import uuid as uuids

import orjson

from nova import exception
from nova import utils
from nova.db.ec2 import launch_templates as db
from nova.db.engine import Connection
from nova.ec2 import client_tokens
from nova.ec2 import errors
from nova.ec2 import filters
from nova.ec2 import neutral
from nova.ec2 import operations
from nova.ec2 import protocol
from nova.ec2 import tags
from nova.ec2.instances import run_parameters
from nova.json_types import JsonDocument

MAX_DATA, MAX_DESCRIPTION = 32 * 1024, 255          # bytes of JSON; characters
P = ParamSpec('P')
R = TypeVar('R')
PARAMETERS = frozenset(f'{run_parameters.TAKES} NetworkInterfaces'.split())
_NAME = re.compile(r'[A-Za-z0-9().\-/_]{3,128}\Z')
_NUMBER = re.compile(r'[1-9][0-9]{0,8}\Z')
GROUPS = ('SecurityGroups', 'SecurityGroupIds')   # if a request has one of these, those of the template are ignored
# {filter of versions: path in the template data}
VERSION_FILTERS = {
    'ebs-optimized': 'EbsOptimized', 'http-endpoint': 'MetadataOptions.HttpEndpoint', 'image-id': 'ImageId',
    'http-protocol-ipv4': 'MetadataOptions.HttpEndpoint', 'http-tokens': 'MetadataOptions.HttpTokens',
    'instance-type': 'InstanceType', 'network-card-index': 'NetworkInterfaces.NetworkCardIndex'}
Row = dict[str, Any]


def merged(req: operations.Request, given: operations.Given) -> tuple[operations.Given, dict[str, str]]:
    """Merge the parameters of a request with those of its launch template; the request takes precedence.

    :returns: (parameters, metadata items of the instance)
    :raises Ec2Error: unknown template or version, or unsupported parameters
    """
    specification = given.get('LaunchTemplate')
    if specification is None:
        return given, {}
    template = _template(req, specification.get('LaunchTemplateId'), specification.get('LaunchTemplateName'))
    version = _version(req, template, specification.get('Version') or '$Default')
    data = _data(version)
    if given.get('SecurityGroups') or given.get('SecurityGroupIds'):
        data = {name: value for name, value in data.items() if name not in GROUPS}
    both = cast(operations.Given, {**_check(data), **given})
    return both, {tags.TEMPLATE: f'{req.ids.one("lt", template["uuid"])} {version["number"]}'}


def _check(data: Row) -> Row:
    """Check the data of a template; return the data without neutral parameters (see neutral.py).

    :raises Ec2Error: unsupported parameters, or too much data
    """
    found = neutral.without(data, neutral.LAUNCH)
    neutral.refuse('LaunchTemplateData', found, PARAMETERS)
    run_parameters.check(run_parameters.of_request(found))
    if len(orjson.dumps(data)) > MAX_DATA:
        raise errors.Ec2Error('InvalidParameterValue', f'Launch template data can have at most {MAX_DATA} bytes.')
    return found


def _template(req: operations.Request, shown: str | None, name: str | None) -> Row:
    """Return the caller's template with the requested ID or name."""
    if (shown is None) == (name is None):
        raise errors.Ec2Error('InvalidParameterCombination' if shown else 'MissingParameter',
                              'The request must contain either LaunchTemplateId or LaunchTemplateName.')
    if shown is not None:
        row = db.one(req.api_db, req.project_id, uuid=req.uuid('lt', shown))
        if row is None:
            raise errors.not_found('lt', shown)
        return row
    row = db.one(req.api_db, req.project_id, name=name)
    if row is None:
        raise errors.Ec2Error('InvalidLaunchTemplateName.NotFoundException',
                              f'The launch template {str(name)[:128]!r} does not exist.')
    return row


def _requested(req: operations.Request, given: operations.Given) -> Row:
    return _template(req, given.get('LaunchTemplateId'), given.get('LaunchTemplateName'))


def _number(template: Row, wanted: str) -> int:
    known = {'$Default': template['default_version'], '$Latest': template['newest']}
    if wanted in known:
        return int(known[wanted])
    if not _NUMBER.match(wanted):
        raise errors.invalid('Version', wanted)
    return int(wanted)


def _version(req: operations.Request, template: Row, wanted: str) -> Row:
    found = db.versions(req.api_db, template['id'], [_number(template, wanted)])
    if not found:
        raise _no_version(wanted)
    return found[0]


def _no_version(wanted: str | int) -> errors.Ec2Error:
    return errors.Ec2Error('InvalidLaunchTemplateId.VersionNotFound',
                           f'The launch template has no version {str(wanted)[:32]}.')


def _data(version: Row) -> Row:
    return dict(orjson.loads(version['data']))


def _shown(req: operations.Request, row: Row, kept: dict[str, Any] | None = None) -> Row:
    """Return the view of a template.

    :param kept: {UUID: tags}, if already read
    """
    return {'LaunchTemplateId': req.ids.one('lt', row['uuid']), 'LaunchTemplateName': row['name'],
            'CreateTime': row['created_at'], 'CreatedBy': row['created_by'],
            'DefaultVersionNumber': row['default_version'], 'LatestVersionNumber': row['newest'],
            'Tags': (kept or tags.of(req, 'lt', [row['uuid']]))[row['uuid']]}


def _shown_version(template: Row, shown: str, row: Row) -> Row:
    return {'LaunchTemplateId': shown, 'LaunchTemplateName': template['name'], 'VersionNumber': row['number'],
            'VersionDescription': row['description'], 'CreateTime': row['created_at'], 'CreatedBy': row['created_by'],
            'DefaultVersion': row['number'] == template['default_version'], 'LaunchTemplateData': _data(row)}


def _description(given: operations.Given) -> str | None:
    text = given.get('VersionDescription')
    if text is not None and len(text) > MAX_DESCRIPTION:
        raise errors.invalid('VersionDescription', f'text of more than {MAX_DESCRIPTION} characters')
    return text


def _written(req: operations.Request, work: Callable[Concatenate[Connection, P], R], *arguments: P.args,
             **named: P.kwargs) -> R:
    """Run a function in a transaction; an exceeded limit becomes an Ec2Error."""
    req.writes()
    with _limits():
        return req.api_db.run(work, *arguments, **named)


@contextlib.contextmanager
def _limits() -> Iterator[None]:
    try:
        yield
    except exception.BadRequest as error:
        raise errors.Ec2Error('ResourceLimitExceeded', error.message) from None


# ---- templates

def create_launch_template(req: operations.Request, given: operations.Given) -> JsonDocument:
    name, data, user = given['LaunchTemplateName'], given['LaunchTemplateData'], req.caller.user
    if not _NAME.match(name):
        raise errors.Ec2Error('InvalidLaunchTemplateName.MalformedException', 'A launch template name must have 3 to '
                              '128 letters, digits, or characters of "().-/_".')
    _check(data)
    found = tags.given(given.get('TagSpecifications'), 'launch-template')
    version = {'description': _description(given), 'data': orjson.dumps(data).decode()}

    def make() -> str:
        uuid = str(uuids.uuid4())
        if not _written(req, db.create, {
                'uuid': uuid, 'project_id': user.project_id, 'name': name, 'created_by': user.user_id,
                'created_at': utils.utcnow()}, version):
            raise errors.Ec2Error('InvalidLaunchTemplateName.AlreadyExistsException',
                                  f'The launch template {name!r} already exists.')
        return uuid

    def find(since: datetime.datetime | None) -> str | None:
        row = db.one(req.api_db, req.project_id, name=name) if since else None
        return str(row['uuid']) if row and since and row['created_at'] >= since and (
            row['created_by'] == user.user_id) else None
    uuid = client_tokens.once(req, 'CreateLaunchTemplate', given, find, make, lambda made: tags.put(
        req, 'lt', made, found))
    row = db.one(req.api_db, req.project_id, uuid=uuid)
    if row is None:
        raise errors.not_found('lt', req.ids.one('lt', uuid))
    return {'LaunchTemplate': _shown(req, row)}


def describe_launch_templates(req: operations.Request, given: operations.Given) -> JsonDocument:
    rows = db.listed(req.api_db, req.project_id)
    kept = tags.of(req, 'lt', [row['uuid'] for row in rows])
    shown = [_shown(req, row, kept) for row in rows]
    shown = filters.choose(shown, 'LaunchTemplateId', given.get('LaunchTemplateIds'), 'lt')
    if names := given.get('LaunchTemplateNames'):
        known = {_template(req, None, name)['name'] for name in names}
        shown = [row for row in shown if row['LaunchTemplateName'] in known]
    return filters.answer('LaunchTemplates', shown, given, 'LaunchTemplateId', {
        'launch-template-name': 'LaunchTemplateName',
        'create-time': lambda row: protocol.time(row['CreateTime'])}, 1, 200)


def modify_launch_template(req: operations.Request, given: operations.Given) -> JsonDocument:
    template = _requested(req, given)
    if not given.get('DefaultVersion'):
        raise errors.missing('DefaultVersion')

    def change(conn: Connection) -> str:
        number = _number(template, given['DefaultVersion'])
        if not db.set_default(conn, template['id'], number):
            raise _no_version(number)
        return str(number)
    # a repeated request returns the first result and does not undo later changes
    number = client_tokens.once_written(req, 'ModifyLaunchTemplate', given, change)
    return {'LaunchTemplate': _shown(req, {**_requested(req, given), 'default_version': int(number)})}


def delete_launch_template(req: operations.Request, given: operations.Given) -> JsonDocument:
    template = _requested(req, given)
    shown = _shown(req, template)
    _written(req, db.delete, template['id'])
    tags.forget(req, 'lt', template['uuid'])
    return {'LaunchTemplate': shown}


# ---- versions

def create_launch_template_version(req: operations.Request, given: operations.Given) -> JsonDocument:
    template, data = _requested(req, given), given['LaunchTemplateData']
    if given.get('SourceVersion'):
        data = {**_data(_version(req, template, given['SourceVersion'])), **data}
    _check(data)
    values = {'description': _description(given), 'data': orjson.dumps(data).decode(),
              'created_by': req.caller.user.user_id, 'created_at': utils.utcnow()}

    def add(conn: Connection) -> str:
        with _limits():
            number = db.add_version(conn, template['id'], values)
        if number is None:
            raise errors.not_found('lt', req.ids.one('lt', template['uuid']))
        return str(number)
    number = client_tokens.once_written(req, 'CreateLaunchTemplateVersion', given, add)
    return {'LaunchTemplateVersion': _shown_version(template, req.ids.one('lt', template['uuid']),
                                                    _version(req, template, number))}


def describe_launch_template_versions(req: operations.Request, given: operations.Given) -> JsonDocument:
    """Describe the versions of one template, or the default or latest versions of all templates."""
    wanted = given.get('Versions') or None
    if given.get('LaunchTemplateId') is None and given.get('LaunchTemplateName') is None:
        if not wanted or set(wanted) - {'$Default', '$Latest'}:
            raise errors.missing('LaunchTemplateId')
        templates = db.listed(req.api_db, req.project_id)
    else:
        templates = [_requested(req, given)]
    names, shown = req.ids.shown('lt', [row['uuid'] for row in templates]), []
    for template in templates:
        numbers = None if wanted is None else {_number(template, version) for version in wanted}
        shown += [_shown_version(template, str(names[template['uuid']]), row)
                  for row in db.versions(req.api_db, template['id'], numbers) if _between(template, row, given)]
    return filters.answer('LaunchTemplateVersions', shown, {'MaxResults': 200, **given}, _place, {
        'create-time': lambda row: protocol.time(row['CreateTime']), 'is-default-version': 'DefaultVersion',
        **{name: f'LaunchTemplateData.{path}' for name, path in VERSION_FILTERS.items()},
        **filters.unset('host-resource-group-arn iam-instance-profile kernel-id license-configuration-arn '
                        'ram-disk-id')}, 1, 200)


def _place(row: Row) -> str:
    return f'{row["LaunchTemplateId"]} {row["VersionNumber"]:09}'


def _between(template: Row, row: Row, given: operations.Given) -> bool:
    least, most = given.get('MinVersion'), given.get('MaxVersion')
    return ((not least or row['number'] >= _number(template, least))
            and (not most or row['number'] <= _number(template, most)))


REFUSALS = {'default': ('unexpectedError', 'The default version can only be deleted with its template.'),
            'absent': ('launchTemplateVersionDoesNotExist', 'The launch template does not have this version.')}


def delete_launch_template_versions(req: operations.Request, given: operations.Given) -> JsonDocument:
    template, gone, kept = _requested(req, given), [], []
    named = {'LaunchTemplateId': req.ids.one('lt', template['uuid']), 'LaunchTemplateName': template['name']}
    for number in dict.fromkeys([_number(template, wanted) for wanted in given['Versions']]):
        refusal = _written(req, db.delete_version, template['id'], number)
        if refusal is None:
            gone.append({**named, 'VersionNumber': number})
        else:
            code, message = REFUSALS[refusal]
            kept.append({**named, 'VersionNumber': number, 'ResponseError': {'Code': code, 'Message': message}})
    return {'SuccessfullyDeletedLaunchTemplateVersions': gone, 'UnsuccessfullyDeletedLaunchTemplateVersions': kept}


ONE = 'LaunchTemplateId LaunchTemplateName '
OPERATIONS = [
    operations.row('CreateLaunchTemplate', create_launch_template,
                   'LaunchTemplateName LaunchTemplateData VersionDescription ClientToken TagSpecifications'),
    operations.row('DescribeLaunchTemplates', describe_launch_templates,
                   'LaunchTemplateIds LaunchTemplateNames' + operations.PAGED),
    operations.row('ModifyLaunchTemplate', modify_launch_template, ONE + 'DefaultVersion ClientToken'),
    operations.row('DeleteLaunchTemplate', delete_launch_template, ONE),
    operations.row('CreateLaunchTemplateVersion', create_launch_template_version,
                   ONE + 'LaunchTemplateData SourceVersion VersionDescription ClientToken'),
    operations.row('DescribeLaunchTemplateVersions', describe_launch_template_versions,
                   ONE + 'Versions MinVersion MaxVersion' + operations.PAGED),
    operations.row('DeleteLaunchTemplateVersions', delete_launch_template_versions, ONE + 'Versions'),
]
