"""HTTP client of a Key Manager service (Barbican v1): keys of volumes and disks, certificates of images.

https://docs.openstack.org/api-guide/key-manager/secrets.html
"""
from __future__ import annotations

import re
from typing import TYPE_CHECKING

from oslo_config.cfg import ConfigOpts

from nova import exception
from nova.runtime import rest_client

if TYPE_CHECKING:
    import requests

    from nova.context import RequestContext

SERVICE_TYPE = 'key-manager'             # type in the service catalog, unless [barbican] sets another type
MAX_CERTIFICATE_BYTES = 64 * 1024
_CERTIFICATE_KINDS = ('application/octet-stream', 'application/pkix-cert', 'text/plain')
PAGE = 100                               # Barbican's maximum number of secrets in a page
MAX_KEY_BYTES = 512                         # maximum size of a key
_ID = re.compile(r'[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z')


class Barbican:
    """Thread-safe client.

    :param conf: uses [barbican] (see nova.runtime.rest_client)
    """

    def __init__(self, conf: ConfigOpts) -> None:
        self._service = rest_client.Service(conf, 'barbican', SERVICE_TYPE, 'Key Manager')

    def passphrase(self, ctx: RequestContext, key_id: str) -> str:
        """Return the LUKS passphrase of a Block Storage key: the stored passphrase, or a symmetric key in hexadecimal.

        :raises InvalidVolume: the caller has no such key, or the key is not a LUKS key
        :raises Unavailable:
        """
        if not _ID.match(key_id):
            raise exception.InvalidVolume(reason='its key has an invalid id.')
        kind = self._get(ctx, f'/{key_id}', 'application/json').json().get('secret_type')
        content = self._get(ctx, f'/{key_id}/payload', 'text/plain' if kind == 'passphrase'
                            else 'application/octet-stream').content
        if kind not in ('symmetric', 'passphrase') or not 0 < len(content) <= MAX_KEY_BYTES:
            raise exception.InvalidVolume(reason='its key is not a LUKS key.')
        try:
            return content.decode() if kind == 'passphrase' else content.hex()
        except UnicodeDecodeError:
            raise exception.InvalidVolume(reason='its passphrase is not UTF-8.') from None

    def certificate(self, ctx: RequestContext, ident: str) -> bytes:
        """Return a certificate as stored: PEM or DER.

        :param ctx: context of a user with access; without a token the service account is used
        :raises NotFound: no such certificate for the caller
        :raises Unavailable:
        """
        try:
            found = self._get(ctx, f'/{ident}', 'application/json').json() if _ID.match(ident) else {}
            kind = dict(found.get('content_types') or {}).get('default')
            content = self._get(ctx, f'/{ident}/payload', kind).content if kind in _CERTIFICATE_KINDS else b''
        except exception.InvalidVolume:
            found, content = {}, b''
        if found.get('secret_type') != 'certificate' or not 0 < len(content) <= MAX_CERTIFICATE_BYTES:
            raise exception.NotFound()
        return bytes(content)

    # ---- secrets of the service account

    @property
    def has_account(self) -> bool:
        return self._service.has_account

    def store(self, ctx: RequestContext, name: str, passphrase: str) -> str:
        """Store a passphrase and return its id.

        :param ctx: context without a token, so that the service account is used
        :raises Unavailable, Forbidden:
        """
        body = {'name': name, 'secret_type': 'passphrase', 'payload': passphrase, 'payload_content_type': 'text/plain'}
        answer = self._service.request(ctx, 'POST', lambda: self._root() + '/v1/secrets', {}, json=body)
        return _ident(self._service.fine(ctx, answer).json()['secret_ref'])

    def named(self, ctx: RequestContext, name: str) -> list[str]:
        """Return the ids of the service account's secrets that have this name.

        :raises Unavailable, Forbidden:
        """
        found: list[str] = []
        while True:
            answer = self._service.request(ctx, 'GET', lambda: self._root() + '/v1/secrets', {},
                                           params={'name': name, 'limit': PAGE, 'offset': len(found)})
            body = self._service.fine(ctx, answer).json()
            found += [_ident(each['secret_ref']) for each in body['secrets']]
            if not body['secrets'] or len(found) >= body.get('total', 0):
                return found

    def destroy(self, ctx: RequestContext, key_id: str) -> None:
        """Delete a key permanently; idempotent.

        :raises Unavailable, Forbidden:
        """
        answer = self._service.request(ctx, 'DELETE', lambda: f'{self._root()}/v1/secrets/{key_id}', {})
        if answer.status_code != 404:
            self._service.fine(ctx, answer)

    def _root(self) -> str:
        return str(self._service.endpoint()).removesuffix('/v1')

    def _get(self, ctx: RequestContext, path: str, kind: str) -> requests.Response:
        answer = self._service.request(ctx, 'GET', lambda: f'{self._root()}/v1/secrets{path}', {'Accept': kind})
        if answer.status_code in (403, 404):
            raise exception.InvalidVolume(reason='the Key Manager service refuses access to its key. Send the request '
                                                 "as the volume's owner.")
        return self._service.fine(ctx, answer)


def _ident(secret_ref: object) -> str:
    return str(secret_ref).rstrip('/').rpartition('/')[2]
