"""nova-policy: check and explain the access rules of the APIs.

    nova-policy check --roles member --project demo --api 'POST /servers'
    nova-policy check --token-file token.json --api os_compute_api:servers:show --target other/bob
    nova-policy check --service image --roles member --api 'DELETE /v2/images/{image_id}'
    nova-policy list --roles reader --format json
"""
from __future__ import annotations

import argparse
from collections.abc import Iterable
import dataclasses
import importlib
import json
import sys
from typing import Any, TYPE_CHECKING

from nova import exception
from nova import policies
from nova.cmd import command_line
from nova.cmd import common
from nova.cmd import tables
from nova.policies import targets
from nova.runtime import concurrency

if TYPE_CHECKING:
    from oslo_config import cfg

    from nova.context import RequestContext
    from nova.policies.files import Rule
    from nova.policies.service import Service
    from nova.policy import Policy
    from nova.web.routes import Route

MAY, MAY_NOT = 0, 1
# Routes with these prefixes and without a rule are open to all callers: their handlers check only rules for fields.
OPEN = ('/flavors', '/images')
# routes of the APIs other than compute
ROUTES = {'identity': 'nova.identity.rest.handlers:ROUTES', 'image': 'nova.image.rest.handlers:ROUTES',
          'block storage': 'nova.volume.rest.handlers:ROUTES', 'network': 'nova.network.rest.app:ROUTES',
          'key manager': 'nova.keymanager.rest.handlers:ROUTES'}
# version segments of request paths, which the paths in the routes omit
PREFIXES = {'compute': ('v2', 'v2.1'), 'block storage': ('v3',), 'network': ('v2.0',)}


@tables.escaping()
def main(arguments: list[str] | None = None) -> int:
    """Run one command; return 0 if the caller is allowed, 1 if not or after an error, 2 for a wrong command line."""
    concurrency.setup()
    from oslo_config import cfg

    from nova import conf as nova_conf

    given, rest = command_line.parse(new_parser(), arguments, {'check': _check, 'list': _list})
    try:
        with tables.formatted(given.output_format):
            return given.function(nova_conf.new(rest), given)
    except exception.NovaException as error:
        return common.failed('nova-policy', error, 2)
    except BrokenPipeError:              # the reader has closed the pipe
        sys.stdout = None
        return 2
    except (cfg.Error, OSError) as error:
        return common.failed('nova-policy', error, 2)


def new_parser() -> command_line.Parser:
    """Return the parser of the command line."""
    parser = command_line.Parser('nova-policy', allow_abbrev=False,
                                 description='Show what the policies of the APIs allow a caller to do, and why.',
                                 epilog='Options of nova.conf also apply: --config-file, …')
    command_line.show_version(parser)
    commands = parser.add_subparsers(metavar='COMMAND')
    check = commands.add_parser('check', help='Show whether a caller may perform an operation, and which rule '
                                              'decides it. The exit code is 0 if allowed and 1 if not.')
    check.add_argument('--api', required=True, metavar='RULE|OPERATION',
                       help="name of a rule, or an operation such as 'POST /servers' or 'POST /servers/{id}/action "
                            "os-start'")
    check.add_argument('--target', default='', metavar='PROJECT[/USER]',
                       help='owner of the resource (default: the caller)')
    check.set_defaults(function=_check)
    listing = commands.add_parser('list', help='Show for every rule whether a caller passes it for their own '
                                               'resources.')
    chosen = listing.add_mutually_exclusive_group()
    chosen.add_argument('--passes', action='store_true', help='show only rules that the caller passes')
    chosen.add_argument('--fails', action='store_true', help='show only rules that the caller fails')
    listing.set_defaults(function=_list)
    names = [service.name for service in policies.SERVICES]
    check.add_argument('--service', default='compute', metavar='API', choices=names,
                       help='API of the rule or operation: %(choices)s (default: %(default)s)')
    listing.add_argument('--service', metavar='API', choices=names, help='show only the rules of this API')
    for command in (check, listing):
        command_line.choose_format(command)
        who = command.add_argument_group('who asks')
        who.add_argument('--roles', default='', metavar='ROLE,…', help='roles in the project; the roles that these '
                         'imply are added (admin, manager, member, reader)')
        who.add_argument('--project', default='project', metavar='ID', help='id of the project (default: %(default)s)')
        who.add_argument('--user', default='user', metavar='ID', help='id of the user (default: %(default)s)')
        who.add_argument('--token-file', metavar='FILE',
                         help='JSON of a token in the form of the identity service ({"token": {…}}), with the user, '
                              'project and roles')
    return parser


# ---- caller ------------------------------------------------------------------

def _caller(rules: Policy, given: argparse.Namespace) -> RequestContext:
    from nova import context

    who = _of_token(given.token_file) if given.token_file else {
        'user_id': given.user, 'project_id': given.project,
        'roles': _implied([role.strip() for role in given.roles.split(',') if role.strip()])}
    caller = context.RequestContext(overwrite=False, **who)
    caller.is_admin = rules.is_admin(caller)
    return caller


def _implied(names: list[str]) -> list[str]:
    """Return roles and the default roles that they imply, as in tokens of the identity service."""
    from nova.identity.embedded.effective_roles import LADDER

    highest = min((LADDER.index(name) for name in names if name in LADDER), default=len(LADDER))
    return list(dict.fromkeys([*names, *LADDER[highest:]]))


def _of_token(path: str) -> dict[str, Any]:
    """Return the caller that the JSON document of a token describes.

    :raises InvalidInput: the document is malformed
    """

    try:
        with open(path, encoding='utf-8') as file:
            token = json.load(file)['token']
        return {'user_id': token['user']['id'], 'project_id': token.get('project', {}).get('id'),
                'user_domain_id': token['user'].get('domain', {}).get('id'),
                'project_domain_id': token.get('project', {}).get('domain', {}).get('id'),
                'domain_id': token.get('domain', {}).get('id'), 'system_scope': 'all' if token.get('system') else None,
                'roles': [role['name'] for role in token.get('roles', [])]}
    except (ValueError, KeyError, TypeError, AttributeError):
        raise exception.InvalidInput(f'{path} is not a token: it must be JSON with token, user and roles, as '
                                     'in the response to GET /v3/auth/tokens.') from None


# ---- operation ---------------------------------------------------------------

def _rules_of(rules: Policy, api: str) -> tuple[str, list[str], list[str]]:
    """Return (sentence about the operation or '', [deciding rule], [rules that the handler checks in addition]).

    :raises InvalidInput: ``api`` is neither a rule nor an operation
    """

    if rules.knows(api):
        return '', [api], []
    name = rules.service.name
    method, _, rest = api.strip().partition(' ')
    path, _, action = rest.strip().partition(' ')
    if not path.startswith('/'):
        raise exception.InvalidInput(f"There is no rule {api}. Write an operation as 'POST /servers'.")
    rows = _rows(name, method.upper(), path, action.strip())
    if all(row.public for row in rows):
        return 'No token is needed: every caller may do it.', [], []
    main = list(dict.fromkeys(row.policy for row in rows if row.policy))
    checked = [rule for rule in dict.fromkeys(rule for row in rows for rule in row.checks) if rule not in main]
    if not main and (name != 'compute' or not rows[0].path.startswith(OPEN)):
        main = checked[:1]         # the handler checks this rule after it has found the resource
    if not main:
        return 'No rule protects it: every caller with a token may do it.', [], checked
    return '', main, [rule for rule in checked if rule not in main]


def _needs_project(rules: Policy, api: str) -> bool:
    """Return whether the operation, or all operations of the rule, refuse tokens without a project."""
    name = rules.service.name
    if name == 'identity':
        return False                   # the rules of this API also check the scope of a token
    if rules.knows(api):
        return not any(row.any_scope and api in (row.policy, *row.checks) for row in _routes(name))
    method, _, rest = api.strip().partition(' ')
    path, _, action = rest.strip().partition(' ')
    return not any(row.public or row.any_scope for row in _rows(name, method.upper(), path, action.strip()))


def _routes(service: str) -> Iterable[Route]:
    """Return the routes of an API."""
    if service == 'compute':
        from nova.api import app
        return app.all_routes()
    module, _, name = ROUTES[service].partition(':')
    found: Iterable[Route] = getattr(importlib.import_module(module), name)
    return found


def documented(service: Service) -> Service:
    """Return an API with the operations of each rule: the declared operations, or the routes that check the rule."""
    if all(rule.operations for rule in service.rules):
        return service
    checked: dict[str, dict[tuple[str, str], None]] = {}
    for row in _routes(service.name):
        for rule in filter(None, (row.policy, *row.checks)):
            checked.setdefault(rule, {})[row.method, row.path] = None
    return dataclasses.replace(service, rules=tuple(
        rule if rule.operations else rule._replace(operations=tuple(checked[rule.name])) for rule in service.rules))


def _rows(service: str, method: str, path: str, action: str) -> list[Route]:
    """Return the routes of an operation.

    :raises InvalidInput: there is no such operation; the message lists similar operations
    """
    segments = [segment for segment in path.split('/') if segment]
    if segments and segments[0] in PREFIXES.get(service, ()):
        segments.pop(0)
    at_path = [row for row in _routes(service) if row.api and _matches(row, segments)]
    # paths with more fixed segments take precedence over paths with parameters
    best = max((_fixed(row) for row in at_path), default=0)
    at_path = [row for row in at_path if _fixed(row) == best]
    rows = [row for row in at_path if row.method == method]
    if not at_path:
        raise exception.InvalidInput(f'There is no operation at {path}.')
    if not rows:
        raise exception.InvalidInput(f'There is no {method} {path}, but '
                                     f'{", ".join(sorted({row.method for row in at_path}))}.')
    actions = sorted({row.action for row in rows if row.action})
    if not actions:
        return rows
    found = [row for row in rows if row.action == action]
    if not found:
        raise exception.InvalidInput(f"{method} {path} has many operations: '{method} {path} ACTION' with one of "
                                     f"{', '.join(actions)}.")
    return found


def _matches(row: Route, segments: list[str]) -> bool:
    wanted = row.path.strip('/').split('/')
    return len(wanted) == len(segments) and all(
        part == segment or part.startswith('{') for part, segment in zip(wanted, segments))


def _fixed(row: Route) -> int:
    return sum(not part.startswith('{') for part in row.path.strip('/').split('/'))


# ---- commands ----------------------------------------------------------------

def _check(conf: cfg.ConfigOpts, given: argparse.Namespace) -> int:
    from nova import policy

    rules = policy.Policy(conf, policies.named(given.service))
    caller = _caller(rules, given)
    own = targets.owned_by(caller.project_id, caller.user_id)
    project, _, user = given.target.partition('/')
    target = targets.owned_by(project or caller.project_id, user or caller.user_id)
    sentence, deciding, others = _rules_of(rules, given.api)
    hidden = (target['project_id'] != own['project_id'] and not caller.is_admin and given.api not in rules.rules
              and given.service != 'identity')
    outside = not caller.project_id and _needs_project(rules, given.api)
    if outside:
        sentence = ('The token has no project: access to resources of projects is refused (403), regardless of the '
                    'rules.')
    elif hidden:
        sentence = 'For callers who are not administrators, resources of other projects do not exist (404).'
    decisions = [_decision(rules, caller, rule, target) for rule in deciding]
    may = not hidden and not outside and all(decision['passes'] for decision in decisions)
    found = {'operation': given.api, 'allowed': may, 'reason': sentence or None,
             'caller': {'user_id': caller.user_id, 'project_id': caller.project_id, 'roles': caller.roles,
                        'is_admin': caller.is_admin},
             'rules': decisions, 'additional_rules': [_decision(rules, caller, rule, target) for rule in others]}
    tables.print_document(found, lambda: _print_check(found), ['allowed' if may else 'refused'])
    return MAY if may else MAY_NOT


def _decision(rules: Policy, caller: RequestContext, name: str, target: dict[str, Any]) -> dict[str, Any]:
    """Return the result of one rule, with the steps that lead to it as lines of text."""
    from nova.policies import explain

    rule, step = rules.explain(caller, name, target)
    return {'rule': name, 'passes': step.passes, 'source': _origin(rule), 'expression': rule.text,
            'steps': list(explain.lines(step))}


def _print_check(found: dict[str, Any]) -> None:
    caller = found['caller']
    print(f'{caller["user_id"]} in {caller["project_id"] or "no project"}, {_roles(caller["roles"])}, '
          f'{"an" if caller["is_admin"] else "no"} administrator here.')
    for decision in found['rules']:
        _print_decision(decision)
    if found['additional_rules']:
        print('\nAdditional rules for some fields or values:')
        for decision in found['additional_rules']:
            _print_decision(decision)
    if found['reason']:
        print('\n' + found['reason'])
    print(f'\n{"They may" if found["allowed"] else "They may not"}: {found["operation"]}')


def _print_decision(decision: dict[str, Any]) -> None:
    print(f'\n{decision["rule"]}: {"passes" if decision["passes"] else "fails"}')
    print(f'  {decision["source"]}: {decision["expression"] or "(empty: everybody)"}')
    for line in decision['steps']:
        print('    ' + line)


def _origin(rule: Rule) -> str:
    from nova.policies import files

    if rule.source == files.DEFAULT:
        return 'by default'
    return f'by {rule.source}' + (f', which has a rule for all of {rule.by}' if rule.by else '')


def _roles(names: list[str]) -> str:
    return f'with the roles {", ".join(names)}' if names else 'without roles'


def _list(conf: cfg.ConfigOpts, given: argparse.Namespace) -> int:
    from nova import policy

    found: list[dict[str, Any]] = []
    for service in policies.SERVICES:
        if given.service not in (None, service.name):
            continue
        rules = policy.Policy(conf, service)
        caller = _caller(rules, given)
        own = targets.owned_by(caller.project_id, caller.user_id)
        for rule in documented(service).rules:
            passes = rules.allows(caller, rule.name, own)
            if passes and given.fails or not passes and given.passes:
                continue
            found.append({'passes': passes, 'rule': rule.name, 'api': service.name,
                          'source': _origin(rules.rules[rule.name]), 'description': rule.description,
                          'operations': [f'{method} {path}' for method, path in rule.operations]})
    tables.print_document(found, lambda: _print_rules(found))
    return MAY


def _print_rules(found: list[dict[str, Any]]) -> None:
    for row in found:
        where = ', '.join(row['operations'][:2]) + (', …' if row['operations'][2:] else '')
        print(f'{"yes" if row["passes"] else "no ":3} {row["rule"]}\n      {row["description"]} {where} '
              f'({row["api"]} API, {row["source"]})')
