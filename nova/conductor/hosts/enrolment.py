"""Enrolment of host keys: a host sends its public key, and an operator or a join token approves it."""
import base64
import datetime
import logging

from nova import exception
from nova import utils
from nova.conductor.cell_services import CellServices
from nova.conductor.cell_services import Connection
from nova.conductor.cell_services import Context
from nova.db import engine
from nova.db.services import message_keys
from nova.rpc import join_tokens
from nova.rpc import signatures
from nova.rpc.enrolment import Answer

LOG = logging.getLogger(__name__)


class Enrolment:
    """Enrols keys of hosts."""

    def __init__(self, services: CellServices) -> None:
        self._api_db, self._key_days = services.api_db, services.conf.messages.host_key_days

    def enroll_host(self, ctx: Context, host: str, public: str, token_id: str | None, number: str,
                    proof: str | None) -> Answer:
        """See interface.py. The message is signed with the new key, or with the key that the new key replaces.

        :raises HostKeyRefused: the key is malformed, revoked, or belongs to another host; or the host has no name
        :raises TooManyHostKeys:
        """
        try:
            key = base64.b64decode(public, validate=True)
        except (TypeError, ValueError):
            key = b''
        if len(key) != 32:
            raise exception.HostKeyRefused(host=host, reason='it is not an Ed25519 key')
        return self._api_db.run(self._enroll, ctx.signed_by, host, key, public, token_id, number, proof)

    def _enroll(self, conn: Connection, signed_by: str | None, host: str, key: bytes, public: str, token_id: str | None,
                number: str, proof: str | None) -> Answer:
        ident = signatures.fingerprint(key)
        secret = message_keys.token(conn, token_id) if token_id else None
        if signed_by not in (None, ident):
            return self._renew_key(conn, signed_by, host, ident, key)
        known = message_keys.get(conn, ident)
        if known is not None and known['state'] == message_keys.RETIRED and message_keys.is_good(known):
            # the host stopped before it had stored its new key: the state RENEWING makes it generate another key
            return _answer(conn, message_keys.RENEWING)
        if known is not None and known['state'] == message_keys.REVOKED:
            raise exception.HostKeyRefused(host=host, reason=(
                'it was revoked, or the service of the host was deleted. To let the host join again: '
                f'nova-manage host approve {host} --fingerprint {ident}'))
        if known is not None and known['state'] == message_keys.RETIRED:
            raise exception.HostKeyRefused(host=host, reason=(
                f'it is retired. Remove the file message-key.{host} on the host: its next start makes another key, for '
                '"nova-manage host approve"'))
        proved = secret is not None and join_tokens.is_proved(proof, secret, 'host', host, public, number)
        # If the host already has an approved key, the token does not approve another: an operator must approve it.
        if proved and token_id is not None and signed_by == ident and (
                known is not None or not message_keys.has_good(conn, host)):
            proved = message_keys.use_token(conn, token_id)
        else:
            proved = False
        row = message_keys.add(conn, host, ident, key, message_keys.APPROVED if proved else message_keys.PENDING)
        if known is None:
            LOG.warning('Host %s has the key %s, which is %s.', host, ident, row['state'])
        elif row['state'] == message_keys.APPROVED and self._is_old(row):
            message_keys.set_state(conn, ident, message_keys.RENEWING)
            row['state'] = message_keys.RENEWING
        answer = _answer(conn, row['state'])
        if proved and secret is not None:
            answer['proof'] = join_tokens.proof(secret, 'deployment', answer['deployment'], public, number)
        return answer

    def _is_old(self, row: message_keys.PublicKey) -> bool:
        days = self._key_days
        return bool(days) and row['created_at'] < utils.utcnow() - datetime.timedelta(days=days)

    @staticmethod
    def _renew_key(conn: Connection, signed_by: str, host: str, ident: str, key: bytes) -> Answer:
        before = message_keys.get(conn, signed_by)
        if before is None or before['host'] != host or not message_keys.is_good(before):
            raise exception.HostKeyRefused(
                host=host, reason='the key that signed the request is not an accepted key of this host')
        row = message_keys.add(conn, host, ident, key, message_keys.APPROVED)
        if row['state'] != message_keys.APPROVED:
            raise exception.HostKeyRefused(host=host, reason=f'it is {row["state"]}')
        message_keys.replace_others(conn, host, ident)
        LOG.warning('Host %s has the new key %s, which replaces %s.', host, ident, signed_by)
        return _answer(conn, row['state'])


def _answer(conn: engine.Connection, state: str) -> Answer:
    """Return the answer to a host, with the keys of the deployment: see Enrolment._follow_deployment in nova.rpc."""
    rows = message_keys.of_deployment(conn)
    if not rows:                                     # no conductor has signed a message yet: create the key
        message_keys.signing_key(conn, signatures.Key)
        rows = message_keys.of_deployment(conn)
    return {'state': state, 'proof': None,
            'deployment': next(row['public'] for row in rows if row['state'] == message_keys.APPROVED),
            'deployments': [{'public': row['public'], 'signed_by': row['signed_by'],
                             'key_signature': row['key_signature'],
                             'good': message_keys.is_trusted(row)} for row in rows]}
