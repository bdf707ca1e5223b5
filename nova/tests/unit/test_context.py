"""Whose rows are meant, and whether a caller may ask for them."""
import pytest

from nova import context
from nova import exception


@pytest.mark.parametrize('wrong', [None, '', 0, False, b'p', [], 'ALL'[:0], context.NO_PROJECT])
def test_absent_project_is_not_all_projects(wrong):
    """Who leaves out a project gets an error before a statement is made."""
    for ask in (context.one_project, context.the_project, lambda value: context.covers(value, 'p')):
        with pytest.raises(TypeError):
            ask(wrong)


def test_all_projects_value_equals_no_other_value():
    assert not context.one_project(context.ALL_PROJECTS) and context.covers(context.ALL_PROJECTS, None)
    for value in (None, '', 'all projects', 'ALL', True, context.NO_PROJECT):
        assert context.ALL_PROJECTS != value
    with pytest.raises(TypeError):
        context.the_project(context.ALL_PROJECTS)
    assert context.one_project('p') and context.the_project('p') == 'p'
    assert context.covers('p', 'p') and not context.covers('p', 'q') and not context.covers('p', None)


@pytest.mark.parametrize('scope,words', [
    ({}, 'nothing'), ({'domain_id': 'd'}, 'a domain'), ({'system_scope': 'all'}, 'the system'),
    ({'project_id': ''}, 'nothing')])
def test_caller_without_a_project_is_refused_with_its_scope(scope, words):
    caller = context.RequestContext(user_id='u', roles=['reader'], overwrite=False, **scope)
    with pytest.raises(exception.ProjectNeeded, match=f'Yours is scoped to {words}.'):
        caller.require_project()
    with pytest.raises(exception.ProjectNeeded):
        _ = caller.sees


def test_caller_sees_its_project_and_administrators_see_all():
    caller = context.RequestContext(user_id='u', project_id='p', roles=['reader'], overwrite=False)
    assert caller.sees == 'p'
    caller.is_admin = True
    assert caller.sees is context.ALL_PROJECTS and context.admin_context().sees is context.ALL_PROJECTS


def test_scope_of_a_caller_is_sent_with_messages():
    """Between services, as all facts of the caller do."""
    for scope in ({'domain_id': 'd'}, {'system_scope': 'all'}, {'project_id': 'p'}):
        caller = context.RequestContext(user_id='u', roles=['reader'], overwrite=False, **scope)
        found = context.RequestContext.from_dict(caller.to_dict(), overwrite=False)
        assert {name: getattr(found, name) for name in ('domain_id', 'system_scope', 'project_id')} == {
            **dict.fromkeys(('domain_id', 'system_scope', 'project_id')), **scope}
