"""Projects that a request names."""
from nova import exception
from nova.api import request as api_request


def check(req: api_request.Request, project_id: str) -> None:
    """
    :raises BadRequest: the identity service says that there is no such project
    """
    if project_id != req.project_id and req.services.projects.exists(req.context, project_id) is False:
        raise exception.BadRequest(f'The Identity service has no project {project_id[:64]}.')
