"""The action createBackup."""
from nova import actions
from nova import exception
from nova.api import request as api_request
from nova.api.server_actions import actions as server_actions
from nova.api.servers import lookup as server_lookup
from nova.api.servers import schemas as server_schemas
from nova.api.servers import spec as server_spec
from nova.db.projects import quotas
from nova.web.params import METADATA
from nova.web.params import NAME
from nova.web.params import NON_NEGATIVE
from nova.web.params import Object
from nova.web.params import Param
from nova.web.params import STRING
from nova.web.request import Response
from nova.web.routes import Route

BACKUP = Object(Param('name', NAME, required=True), Param('backup_type', STRING, required=True),
                Param('rotation', NON_NEGATIVE, required=True), Param('metadata', METADATA))
TYPE_MAX = 255


def create_backup(req: api_request.Request, id: str) -> api_request.Document | Response:
    wanted, action = req.body['createBackup'], actions.ACTIONS['createBackup']
    if len(wanted['backup_type']) > TYPE_MAX:
        raise exception.BadRequest(f'The backup_type is longer than {TYPE_MAX} characters.')
    cell = server_lookup.cell_of(req, id)
    with cell.db.reader() as conn:
        row = server_actions.find_for(req, conn, id, action)
    if not row['image_id']:
        raise exception.BadRequest('Backup is not supported for volume-backed instances.')
    server_actions.check_state(row, action)
    metadata = wanted.get('metadata', {})
    if not req.has('no_image_metadata'):
        with req.services.api_db.reader() as conn:
            server_spec.check_metadata(metadata, quotas.limits_of(
                conn, req.services.conf, req.project_id, req.user_id))
    image = server_actions.snapshot_of(req, row, wanted['name'], metadata)
    image['properties'].update(image_type='backup', backup_type=wanted['backup_type'], instance_uuid=id)
    rotation = {'backup_type': wanted['backup_type'], 'rotation': wanted['rotation']}
    row, image_id = server_actions.begin_with_image(req, cell, id, action, image, rotation)
    server_actions.cast(req, cell, row, action, image_id=image_id, **rotation)
    if req.has('image_id_in_answer'):
        return {'image_id': image_id}
    # of rotation 0 no image is left
    return Response(headers=(('Location', req.image_url(image_id)),) if wanted['rotation'] else ())


ROUTES = (
    Route('POST', '/servers/{id}/action', create_backup, policy=actions.ACTIONS['createBackup'].policy,
          action='createBackup', status=202, errors=(400, 401, 403, 404, 409),
          body=server_schemas.action('createBackup', (BACKUP, 1, None))),
)
