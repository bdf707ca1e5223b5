"""Tasks of the Image API: each import of an image is a task. Older clients create images with POST /v2/tasks."""
from __future__ import annotations

import contextlib
import typing

from nova import exception
from nova import utils
from nova.image import fields
from nova.image import resources
from nova.image.embedded import imports
from nova.image.embedded import search
from nova.image.embedded import service
from nova.image.rest import forms
from nova.image.rest import views
from nova.json_types import JsonObject
from nova.web.request import Response

if typing.TYPE_CHECKING:
    from nova.context import RequestContext
    from nova.db.tables.rows import ImageTasksRow
    from nova.image.rest.request import ImageRequest


def document(task: ImageTasksRow) -> JsonObject:
    """Return the document of a task."""
    return {'id': task['id'], 'type': task['type'], 'status': task['status'], 'message': task['message'],
            'image_id': task['image_id'], 'owner': task['owner'], 'user_id': task['user_id'],
            'request_id': task['request_id'], 'result': None, 'input': task['input'],
            'created_at': utils.isotime(task['created_at']), 'updated_at': utils.isotime(task['updated_at'])}


def _owner(ctx: RequestContext) -> str | None:
    """Return the project of the visible tasks; None for administrators, who see all tasks."""
    return None if service.is_admin(ctx) else ctx.project_id or ''


def list_tasks(req: ImageRequest) -> JsonObject:
    """Return a page of the tasks of the caller's project, or of all projects for an administrator; newest first."""
    wanted = search.parse([pair for pair in req.query if pair[0] in ('limit', 'marker')])
    match = {name: value for name, value in req.query if name in forms.TASK_FILTERS}
    found = req.store.imports.page(_owner(req.context), match, wanted.limit + 1, wanted.marker)
    kept = [pair for pair in req.query if pair[0] != 'marker']
    answer: JsonObject = {'tasks': [document(task) for task in found[:wanted.limit]],
                          'first': views.link('tasks', kept), 'schema': '/v2/schemas/tasks'}
    if len(found) > wanted.limit > 0:
        answer['next'] = views.link('tasks', [*kept, ('marker', found[wanted.limit - 1]['id'])])
    return answer


def show_task(req: ImageRequest, task_id: str) -> JsonObject:
    found = req.store.imports.page(_owner(req.context), {'id': task_id})
    if not found:
        raise exception.NotFound(f'Task {task_id[:36]} could not be found.')
    return document(found[0])


def create_task(req: ImageRequest, body: JsonObject) -> Response:
    """Create an image and import its data from a URL."""
    forms.check(forms.NEW_TASK, body)
    given = typing.cast(JsonObject, body['input'])
    values: JsonObject = {'disk_format': given.get('import_from_format'), 'container_format': 'bare',
                          **typing.cast(JsonObject, given['image_properties'])}
    for name, value in values.items():
        resources.check_settable(name, 'create')
        resources.check(name, value)
    tags = typing.cast(list[str], values.pop('tags', []))            # checked above
    columns, properties = fields.split(values)
    source = req.store.imports.source(imports.DOWNLOAD, str(given['import_from']))
    image = req.store.create(req.context, columns, properties, tags)
    try:
        task = req.store.imports.start(req.context, image['id'], source, given)
    except exception.NovaException:              # delete the image, because the client does not get the image's id
        with contextlib.suppress(exception.Forbidden):           # protected images are not deleted
            req.store.delete(req.context, image['id'])
        raise
    return Response(document(task), headers=[('Location', f'{req.root_url.rstrip("/")}/v2/tasks/{task["id"]}')])
