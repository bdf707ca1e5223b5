"""Neutron security groups for the deprecated compute API calls; see nova.network.groups."""
from collections.abc import Iterator
import contextlib
from typing import cast

from nova import context as nova_context
from nova import exception
from nova.context import RequestContext
from nova.json_types import JsonObject
from nova.network.group_rules import NewRule
from nova.network.neutron import client
from nova.network.neutron import documents

KIND, RULES = documents.GROUPS, documents.RULES


class Groups:
    """Operations of one caller on visible groups.

    The methods have the parameter ``project_id``: a project, or ALL_PROJECTS for all groups that the caller can see.
    """

    def __init__(self, neutron: client.Neutron, context: RequestContext) -> None:
        self._neutron, self._context = neutron, context

    def list(self, project_id: nova_context.Projects | str) -> list[documents.Group]:
        one = project_id if nova_context.one_project(project_id) else None
        rows = self._neutron.list(self._context, KIND, project_id=one)
        return sorted(map(_row, rows), key=lambda row: (row['name'], row['id']))

    def show(self, project_id: nova_context.Projects | str, ident: str) -> documents.Group:
        row = self._neutron.show(self._context, KIND, ident, _missing(ident))
        if not nova_context.covers(project_id, row['project_id']):
            raise _missing(ident)
        return _row(row)

    def create(self, project_id: str, name: str, description: str) -> documents.Group:
        values = {'project_id': project_id, 'name': name, 'description': description}
        with _refused():
            return _row(self._neutron.create(self._context, KIND, values))

    def update(self, project_id: nova_context.Projects | str, ident: str, name: str,
               description: str) -> documents.Group:
        self.show(project_id, ident)
        with _refused():
            return _row(self._neutron.update(self._context, KIND, ident, {'name': name, 'description': description},
                                             _missing(ident)))

    def delete(self, project_id: nova_context.Projects | str, ident: str) -> None:
        self.show(project_id, ident)
        with _refused():
            self._neutron.delete(self._context, KIND, ident, _missing(ident))

    def add_rule(self, project_id: nova_context.Projects | str, rule: NewRule) -> documents.Rule:
        """Create a rule and return it; Neutron's agents apply it."""
        self.show(project_id, rule['security_group_id'])
        values = {name: value for name, value in cast(JsonObject, rule).items() if value is not None}
        with _refused():
            return self._neutron.create(self._context, RULES, {**values, 'direction': 'ingress'},
                                        _missing(str(rule['remote_group_id'])))

    def remove_rule(self, project_id: nova_context.Projects | str, ident: str) -> None:
        missing = exception.SecurityGroupRuleNotFound(rule_id=ident)
        row = self._neutron.show(self._context, RULES, ident, missing)
        if row['direction'] != 'ingress' or not nova_context.covers(project_id, row['project_id']):
            raise missing
        self._neutron.delete(self._context, RULES, ident, missing)


@contextlib.contextmanager
def _refused() -> Iterator[None]:
    """Context manager that turns a conflict in Neutron into BadRequest."""
    try:
        yield
    except exception.NetworkConflict as error:
        raise exception.BadRequest(error.message) from None


def _missing(ident: str) -> exception.NovaException:
    return exception.SecurityGroupNotFound(security_group_id=ident[:80])


def _row(group: documents.Group) -> documents.Group:
    return {**group, 'description': group.get('description') or ''}
