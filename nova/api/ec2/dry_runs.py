"""DryRun: an operation is carried out up to its first write, and the compute API's rules for that write are checked.

What it reads, it reads as the user: ids, images, flavors and the rules for reading are proven. So is the thing that the
write itself names (``calls.Caller``). Not known before the write are quotas, the state of things, and what services
other than compute allow.
"""
from __future__ import annotations

from collections.abc import Callable
import functools
import re
from typing import Any

from nova import context
from nova import policies
from nova import policy
from nova.api.ec2 import errors
from nova.api.servers.schemas import CATEGORY
from nova.db.placement.categories import REGULAR

# Rules of a write that depend on what is in its body. Those of EXTRAS and all others with more than two colons are left
# to the service.
CREATE = 'os_compute_api:servers:create'
OF_BODY: dict[str, Callable[[Any], bool]] = {
    f'{CREATE}:attach_network': lambda body: isinstance(body['server'].get('networks'), list),
    f'{CREATE}:attach_volume': lambda body: bool(body['server'].get('block_device_mapping_v2')),
    'nova:servers:create:category': lambda body: body['server'].get(CATEGORY, REGULAR) != REGULAR,
    f'{CREATE}:forced_host': lambda body: ':' in (body['server'].get('availability_zone') or ''),     # ZONE:HOST
}
# of a write whose path names the category of a server that its caller does not see
OF_PATH = {'nova:servers:delete:category', 'nova:servers:reboot:category'}
GUARDS = ('os_compute_api:servers:', 'os_compute_api:os-', 'os_compute_api:server-metadata:')
_ACTION = re.compile(r'(.+) \((.+)\)\Z')


def would_have_succeeded() -> errors.Ec2Error:
    return errors.Ec2Error('DryRunOperation', 'The request would have been allowed; the DryRun flag is set.', 412)


class DryRun:
    """
    :param rules: those of the EC2 API and the compute API
    :param caller: who asks
    """

    def __init__(self, rules: policy.Policy, caller: context.RequestContext) -> None:
        self._rules, self._caller = rules, caller

    def stop(self, service: str | None = None, method: str = '', path: str = '', body: Any = None) -> None:
        """
        :raises Ec2Error: always: the write is not allowed, or would have been
        """
        target: dict[str, str | None] = {'project_id': self._caller.project_id, 'user_id': self._caller.user_id}
        for rule in rules_of(method, path, body) if service == 'compute' else ():
            if not self._rules.allows(self._caller, rule, target):
                raise errors.Ec2Error('UnauthorizedOperation', f'Policy does not allow {rule} to be performed.', 403)
        raise would_have_succeeded()


def rules_of(method: str, path: str, body: Any) -> list[str]:
    """The rules of the compute API that a write always asks, and those of OF_BODY and OF_PATH that this one asks."""
    place, _, query = path.partition('?')
    action = next(iter(body)) if place.endswith('/action') else None
    return [rule for rule, known, pattern, of in _guards() if known == method and of == action
            and pattern.fullmatch(place) and _is_asked(rule, query, body)]


def _is_asked(rule: str, query: str, body: Any) -> bool:
    if rule in OF_PATH:
        return bool(query)
    return OF_BODY[rule](body) if rule in OF_BODY else True


@functools.cache
def _guards() -> list[tuple[str, str, re.Pattern[str], str | None]]:
    """(rule, method, pattern of the path, action) of the writes of the compute API."""
    found = []
    for rule, _check, _what, places in policies.RULES:
        always = rule.startswith(GUARDS) and rule.count(':') <= 2 and rule not in policies.EXTRAS
        for method, path in places if always or rule in OF_BODY or rule in OF_PATH else ():
            match = _ACTION.fullmatch(path)
            plain, action = match.groups() if match else (path, None)
            found.append((rule, method, re.compile(re.sub(r'\{[^}]+\}', '[^/]+', plain)), action))
    return found
