"""Tasks: the imports of the present process. Clients of the older API create images by tasks."""
from __future__ import annotations

import typing

from nova import exception
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
    from nova.image.rest.request import ImageRequest


def _seen(ctx: RequestContext, task: imports.Task) -> bool:
    return service.is_admin(ctx) or bool(ctx.project_id) and task.owner == ctx.project_id


def list_tasks(req: ImageRequest) -> JsonObject:
    """Return a page of the tasks of the caller's project, or of all projects for an administrator; newest first."""
    wanted = search.parse([pair for pair in req.query if pair[0] in ('limit', 'marker')])
    found = [task.document() for task in req.store.imports.every() if _seen(req.context, task)]
    for name in forms.TASK_FILTERS:
        found = [task for task in found if dict(req.query).get(name) in (None, task[name])]
    if wanted.marker is not None:
        idents = [task['id'] for task in found]
        if wanted.marker not in idents:
            raise exception.BadRequest('The marker is not a task of this list.')
        found = found[idents.index(wanted.marker) + 1:]
    kept = [pair for pair in req.query if pair[0] != 'marker']
    document: JsonObject = {'tasks': [*found[:wanted.limit]], 'first': views.link('tasks', kept),
                            'schema': '/v2/schemas/tasks'}
    if len(found) > wanted.limit > 0:
        document['next'] = views.link('tasks', [*kept, ('marker', str(found[wanted.limit - 1]['id']))])
    return document


def show_task(req: ImageRequest, task_id: str) -> JsonObject:
    for task in req.store.imports.every():
        if task.id == task_id and _seen(req.context, task):
            return task.document()
    raise exception.NotFound(f'Task {task_id[:36]} could not be found.')


def create_task(req: ImageRequest, body: JsonObject) -> Response:
    """Create an image and import its data from a URL."""
    forms.check_task(body)
    given = typing.cast(JsonObject, body['input'])
    values: JsonObject = {'disk_format': given.get('import_from_format'), 'container_format': 'bare',
                          **typing.cast(JsonObject, given['image_properties'])}
    for name, value in values.items():
        resources.check_settable(name, 'create')
        resources.check(name, value)
    tags = typing.cast(list[str], values.pop('tags', []))            # checked above
    columns, properties = fields.split(values)
    url = str(given['import_from'])
    req.store.imports.verify(url)
    image = req.store.create(req.context, columns, properties, tags)
    task = req.store.imports.start(req.context, image['id'], imports.DOWNLOAD, url)
    task.type, task.given = 'import', given
    return Response(task.document(), headers=[('Location', f'{req.root_url.rstrip("/")}/v2/tasks/{task.id}')])
