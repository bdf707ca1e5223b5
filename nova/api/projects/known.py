"""Validation of project IDs in requests."""
from nova import exception
from nova.api import request as api_request


def check(req: api_request.Request, project_id: str) -> None:
    """Check that a project exists.

    :raises BadRequest: the Identity service does not know the project
    """
    if project_id != req.project_id and req.services.projects.exists(req.context, project_id) is False:
        raise exception.BadRequest(f'The Identity service has no project {project_id[:64]}.')
