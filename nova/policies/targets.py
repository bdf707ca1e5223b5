"""Policy targets for checks that have no stored resource, built from a project and a user."""
from __future__ import annotations

# names by which rules refer to a resource's project, user and domain
OF_PROJECT = ('project_id', 'owner', 'member_id', 'target.project.id', 'network:project_id', 'ext_parent:project_id',
              'security_group:project_id', 'target.secret.project_id', 'target.container.project_id',
              'target.order.project_id')
OF_USER = ('user_id', 'target.user.id', 'target.token.user_id', 'target.credential.user_id', 'target.secret.creator_id',
           'target.container.creator_id')
# attributes that show whether the owning project may read a secret or container
NOT_PRIVATE = ('target.secret.read_project_access', 'target.container.read_project_access')
OF_DOMAIN = ('target.domain_id', 'target.domain.id', 'target.user.domain_id', 'target.group.domain_id',
             'target.project.domain_id')
DOMAIN = 'default'


def owned_by(project_id: str | None, user_id: str | None) -> dict[str, str | None]:
    """Return the target for a resource that belongs to a project and user.

    The target has each attribute that rules use for the project, the user or the domain.
    """
    return {**dict.fromkeys(OF_PROJECT, project_id), **dict.fromkeys(OF_USER, user_id),
            **dict.fromkeys(OF_DOMAIN, DOMAIN), **dict.fromkeys(NOT_PRIVATE, 'True')}
