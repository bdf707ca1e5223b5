"""HTTP client of a Shared File Systems service (Manila v2).

https://docs.openstack.org/api-ref/shared-file-system/ describes each request.
"""
from __future__ import annotations

import hashlib
import time
from typing import Any, TYPE_CHECKING

from oslo_config.cfg import ConfigOpts

from nova import exception
from nova.runtime import rest_client
from nova.share import api
from nova.virt import share_exports

if TYPE_CHECKING:
    import requests

    from nova.context import RequestContext

# first version that can lock an access rule, so that the share's owner cannot delete it
VERSION = {'X-OpenStack-Manila-API-Version': '2.82'}
SERVICE_TYPE = 'shared-file-system'      # type in the service catalog; [manila] may set another one
ERRORS = {400: exception.Conflict, 409: exception.Conflict, 413: exception.Forbidden}
IP, CEPHX = 'ip', 'cephx'                # types of rules
REASON = 'the share is attached to a server'
DENYING = ('queued_to_deny', 'denying')  # states of a rule that Manila is removing
RULE_S, POLL_S = 30, 0.5       # time limits for a rule to be removed and for a rule to become active; polling interval
_NOT_FOUND = (403, 404)


class ManilaShares(api.Shares):
    """Thread-safe client.

    ``get`` uses the caller's token; access rules belong to the service account.

    :param conf: uses [manila] (see nova.runtime.rest_client)
    """

    def __init__(self, conf: ConfigOpts) -> None:
        self._service = rest_client.Service(conf, 'manila', SERVICE_TYPE, 'Shared File Systems', ERRORS)

    def get(self, ctx: RequestContext, share_id: str) -> api.Share:
        share = self._get(ctx, share_id, '')['share']
        locations = self._get(ctx, share_id, '/export_locations')['export_locations']
        return {'id': str(share['id']), 'project_id': str(share['project_id']), 'status': str(share['status']),
                'protocol': str(share['share_proto']).upper(), 'export_location': _chosen(locations)}

    def allow(self, ctx: RequestContext, share_id: str, address: str, protocol: str | None) -> dict[str, str] | None:
        kind, name = _who(share_id, address, protocol)
        deadline = time.monotonic() + RULE_S
        rule = self._rule(ctx, share_id, kind, name)
        while rule is not None and rule['state'] in DENYING and time.monotonic() < deadline:
            time.sleep(POLL_S)           # Manila refuses a second rule until the first is removed
            rule = self._rule(ctx, share_id, kind, name)
        if rule is None:
            body = {'allow_access': {'access_type': kind, 'access_to': name, 'access_level': 'rw',
                                     'lock_visibility': True, 'lock_deletion': True, 'lock_reason': REASON}}
            answer = self._request(ctx, 'POST', share_id, '/action', json=body)
            rule = self._rule(ctx, share_id, kind, name)     # also finds a rule that was created concurrently
            if rule is None:
                raise self._refusal(ctx, share_id, answer.status_code)
        deadline = time.monotonic() + RULE_S
        while rule is not None and rule['state'] != 'active':
            if rule['state'] == 'error' or time.monotonic() > deadline:
                raise exception.Conflict(f'The Shared File Systems service does not allow {address} to access share '
                                         f'{share_id}: the rule is in state {str(rule["state"])[:40]}.')
            time.sleep(POLL_S)
            rule = self._rule(ctx, share_id, kind, name)
        if rule is None:
            raise exception.Conflict(f'The rule that allows {address} to access share {share_id} was deleted.')
        if kind != CEPHX:
            return None
        if not rule.get('access_key'):
            raise exception.Conflict(f'The Shared File Systems service returned no Ceph key for share {share_id}.')
        return {'user': name, 'key': str(rule['access_key'])}

    def deny(self, ctx: RequestContext, share_id: str, address: str, protocol: str | None) -> None:
        try:
            rule = self._rule(ctx, share_id, *_who(share_id, address, protocol))
        except exception.ShareNotFound:
            return
        if rule is not None:
            body = {'deny_access': {'access_id': rule['id'], 'unrestrict': True}}
            code = self._request(ctx, 'POST', share_id, '/action', json=body).status_code
            if code >= 400 and code != 404:
                raise self._service.refusal(ctx, code)

    def _rule(self, ctx: RequestContext, share_id: str, kind: str, name: str) -> dict[str, Any] | None:
        """Return the access rule of an address or user, {'id', 'state', 'access_key'}, or None."""
        answer = self._service.request(ctx, 'GET', lambda: f'{self._service.endpoint()}/share-access-rules', VERSION,
                                       params={'share_id': _checked(share_id)})
        if answer.status_code >= 400:
            raise self._refusal(ctx, share_id, answer.status_code)
        return next((rule for rule in answer.json()['access_list']
                     if rule['access_type'] == kind and rule['access_to'] == name), None)

    def _get(self, ctx: RequestContext, share_id: str, tail: str) -> dict[str, Any]:
        answer = self._request(ctx, 'GET', share_id, tail)
        if answer.status_code >= 400:
            raise self._refusal(ctx, share_id, answer.status_code)
        return dict(answer.json())

    def _request(self, ctx: RequestContext, method: str, share_id: str, tail: str, **kwargs: object
                 ) -> requests.Response:
        return self._service.request(
            ctx, method, lambda: f'{self._service.endpoint()}/shares/{_checked(share_id)}{tail}', VERSION, **kwargs)

    def _refusal(self, ctx: RequestContext, share_id: str, code: int) -> Exception:
        if code in _NOT_FOUND:
            return exception.ShareNotFound(share_id=share_id[:64])
        return self._service.refusal(ctx, code)


def _who(share_id: str, address: str, protocol: str | None) -> tuple[str, str]:
    """Return (type, name) of a host's access rule: its address, or a Ceph user for this host and share.

    A separate Ceph user limits its key to one share and to the lifetime of the rule. The user's name has a hash of
    the address, because Ceph user names have no periods.
    """
    if protocol != share_exports.CEPHFS:
        return IP, address
    return CEPHX, f'nova-{_checked(share_id)}-{hashlib.sha256(address.encode()).hexdigest()[:16]}'


def _checked(share_id: str) -> str:
    return rest_client.checked(share_id, exception.ShareNotFound(share_id=share_id[:64]))


def _chosen(locations: list[dict[str, Any]]) -> str:
    """Return the path of the preferred export location that is not restricted to administrators."""
    offered = [each for each in locations if not each.get('is_admin_only')]
    offered.sort(key=lambda each: not each.get('preferred'))
    return str(offered[0]['path']) if offered else ''
