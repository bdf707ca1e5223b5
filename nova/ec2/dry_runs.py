"""DryRun: runs an operation up to its first write, and checks the compute API's policy rules for that write.

The reads before the write use the user's rights, so a dry run finds unknown IDs, images and flavors, and denied reads.
``calls.Caller`` also reads the target of the write, so a dry run fails if the target does not exist. Quotas, states
and rules of other services are not checked.
"""
from collections.abc import Callable
import functools
import re
from typing import Any

from nova import context
from nova import policies
from nova import policy
from nova.api.servers.schemas import CATEGORY
from nova.db.placement.categories import REGULAR
from nova.ec2 import calls
from nova.ec2 import errors
from nova.json_types import JsonDocument

# {rule: function that returns whether the rule applies to a body}. The other rules of a write apply to every body.
# Rules in EXTRAS and rules of a field (3 or more colons in the name) are not checked.
CREATE = 'os_compute_api:servers:create'
OF_BODY: dict[str, Callable[[Any], bool]] = {
    f'{CREATE}:attach_network': lambda body: isinstance(body['server'].get('networks'), list),
    f'{CREATE}:attach_volume': lambda body: bool(body['server'].get('block_device_mapping_v2')),
    'nova:servers:create:category': lambda body: body['server'].get(CATEGORY, REGULAR) != REGULAR,
    f'{CREATE}:forced_host': lambda body: ':' in (body['server'].get('availability_zone') or ''),     # ZONE:HOST
}
# rules for writes to servers with an instance category, which users cannot see; such a request has the category in its
# query
OF_PATH = {'nova:servers:delete:category', 'nova:servers:reboot:category'}
GUARDS = ('os_compute_api:servers:', 'os_compute_api:os-', 'os_compute_api:server-metadata:')
_ACTION = re.compile(r'(.+) \((.+)\)\Z')


def would_have_succeeded() -> errors.Ec2Error:
    return errors.Ec2Error('DryRunOperation', 'The request would have been allowed; the DryRun flag is set.', 412)


class DryRun:
    """Check of the first write of a dry run.

    :param rules: policy rules of the EC2 API and the compute API
    :param caller: context of the caller
    """

    def __init__(self, rules: policy.Policy, caller: context.RequestContext) -> None:
        self._rules, self._caller = rules, caller

    def stop(self, service: str | None = None, method: str = '', path: str = '',
             body: calls.Document | calls.Body | None = None) -> None:
        """End the dry run.

        :raises Ec2Error: always; the error tells whether the write is denied or would have succeeded
        """
        target: dict[str, str | None] = {'project_id': self._caller.project_id, 'user_id': self._caller.user_id}
        document: JsonDocument = body if isinstance(body, dict) else {}
        for rule in rules_of(method, path, document) if service == 'compute' else ():
            if not self._rules.allows(self._caller, rule, target):
                raise errors.Ec2Error('UnauthorizedOperation', f'Policy does not allow {rule} to be performed.', 403)
        raise would_have_succeeded()


def rules_of(method: str, path: str, body: JsonDocument) -> list[str]:
    """Return the compute API's rules that apply to a write."""
    place, _, query = path.partition('?')
    action = next(iter(body)) if place.endswith('/action') else None
    return [rule for rule, known, pattern, of in _guards() if known == method and of == action
            and pattern.fullmatch(place) and _is_asked(rule, query, body)]


def _is_asked(rule: str, query: str, body: JsonDocument) -> bool:
    if rule in OF_PATH:
        return bool(query)
    return OF_BODY[rule](body) if rule in OF_BODY else True


@functools.cache
def _guards() -> list[tuple[str, str, re.Pattern[str], str | None]]:
    """Return (rule, method, pattern of the path, action or None) for the writes of the compute API with a rule."""
    found = []
    for rule, _check, _what, places in policies.RULES:
        always = rule.startswith(GUARDS) and rule.count(':') <= 2 and rule not in policies.EXTRAS
        for method, path in places if always or rule in OF_BODY or rule in OF_PATH else ():
            match = _ACTION.fullmatch(path)
            plain, action = match.groups() if match else (path, None)
            found.append((rule, method, re.compile(re.sub(r'\{[^}]+\}', '[^/]+', plain)), action))
    return found
