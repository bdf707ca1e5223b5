"""The keys that hosts sign with: a host sends its own, and an operator or a join token approves it."""
import base64
import logging

from nova import exception
from nova.conductor.cell_services import CellServices
from nova.conductor.cell_services import Connection
from nova.conductor.cell_services import Context
from nova.conductor.cell_services import Row
from nova.db.services import message_keys
from nova.rpc import join_tokens
from nova.rpc import signatures

LOG = logging.getLogger(__name__)


class Enrolment:
    """Enters keys of hosts."""

    def __init__(self, services: CellServices) -> None:
        self._api_db = services.api_db

    def enroll_host(self, ctx: Context, host: str, public: str, token_id: str | None, number: int,
                    proof: str | None) -> Row:
        """See interface.py. The message is signed with the key itself, or with the one that it replaces.

        :raises HostKeyRefused: it has no such form, was revoked, or belongs to another host
        """
        try:
            key = base64.b64decode(public, validate=True)
        except (TypeError, ValueError):
            key = b''
        if len(key) != 32:
            raise exception.HostKeyRefused(host=host, reason='it is no Ed25519 key')
        return self._api_db.run(self._enroll, ctx.signed_by, host, key, public, token_id, number, proof)

    def _enroll(self, conn: Connection, signed_by: str | None, host: str, key: bytes, public: str, token_id: str | None,
                number: int, proof: str | None) -> Row:
        ident = signatures.fingerprint(key)
        secret = message_keys.token(conn, token_id) if token_id else None
        if signed_by not in (None, ident):
            return self._renew_key(conn, signed_by, host, ident, key)
        known = message_keys.get(conn, ident)
        if known is not None and known['state'] == message_keys.RETIRED and message_keys.is_good(known):
            # the host was stopped before it had kept its new key: it makes another one
            return {'state': message_keys.RENEWING, 'proof': None,
                    'deployment': message_keys.deployment(conn, signatures.Key)['public']}
        if known is not None and known['state'] in (message_keys.REVOKED, message_keys.RETIRED):
            raise exception.HostKeyRefused(host=host, reason=f'it is {known["state"]}')
        proved = secret is not None and join_tokens.is_proved(proof, secret, 'host', host, public, str(number))
        # a token takes no name from a host that has a key: an operator decides that
        if proved and signed_by == ident and (known is not None or not message_keys.has_good(conn, host)):
            proved = message_keys.use_token(conn, token_id)
        else:
            proved = False
        row = message_keys.add(conn, host, ident, key, message_keys.APPROVED if proved else message_keys.PENDING)
        if known is None:
            LOG.warning('Host %s has the key %s: it is %s.', host, ident, row['state'])
        deployment = message_keys.deployment(conn, signatures.Key)['public']
        return {'state': row['state'], 'deployment': deployment, 'proof': join_tokens.proof(
            secret, 'deployment', deployment, public, str(number)) if proved else None}

    @staticmethod
    def _renew_key(conn: Connection, signed_by: str, host: str, ident: str, key: bytes) -> Row:
        before = message_keys.get(conn, signed_by)
        if before is None or before['host'] != host or not message_keys.is_good(before):
            raise exception.HostKeyRefused(host=host, reason='the one that signed for it is not good')
        row = message_keys.add(conn, host, ident, key, message_keys.APPROVED)
        if row['state'] != message_keys.APPROVED:
            raise exception.HostKeyRefused(host=host, reason=f'it is {row["state"]}')
        message_keys.replace_others(conn, host, ident)
        LOG.warning('Host %s has the new key %s in the place of %s.', host, ident, signed_by)
        return {'state': row['state'], 'deployment': message_keys.deployment(conn, signatures.Key)['public'],
                'proof': None}
