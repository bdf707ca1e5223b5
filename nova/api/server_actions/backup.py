"""The action createBackup."""
from nova import actions
from nova import exception
from nova.api import request as api_request
from nova.api.server_actions import actions as server_actions
from nova.db.servers import tasks
from nova.json_types import JsonDocument
from nova.web import params
from nova.web.request import Response

BACKUP = params.Object(
    params.Param('name', params.NAME, required=True), params.Param('backup_type', params.STRING, required=True),
    params.Param('rotation', params.NON_NEGATIVE, required=True), params.Param('metadata', params.METADATA))
TYPE_MAX = 255


def create_backup(req: api_request.Request, id: str) -> JsonDocument | Response:
    wanted, action = req.body['createBackup'], actions.ACTIONS['createBackup']
    if len(wanted['backup_type']) > TYPE_MAX:
        raise exception.BadRequest(f'The backup_type is longer than {TYPE_MAX} characters.')
    cell, row = server_actions.find(req, id, action)
    if not row['image_id']:
        raise exception.BadRequest('Backup is not supported for volume-backed instances.')
    tasks.check_states(row, action)
    image = server_actions.requested_image(req, row, wanted)
    image['properties'].update(image_type='backup', backup_type=wanted['backup_type'], instance_uuid=id)
    rotation = {'backup_type': wanted['backup_type'], 'rotation': wanted['rotation']}
    row, image_id = server_actions.begin_with_image(req, cell, id, action, image, rotation)
    server_actions.cast(req, cell, row, action, image_id=image_id, **rotation)
    if req.has('image_id_in_answer'):
        return {'image_id': image_id}
    # no Location header if rotation is 0, because the image is then deleted
    return Response(headers=(('Location', req.image_url(image_id)),) if wanted['rotation'] else ())


ROUTES = (
    server_actions.route('createBackup', create_backup, (BACKUP, 1, None)),
)
