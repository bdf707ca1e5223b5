"""Embedded key manager: secrets that clients store, encrypted in the API database.

``nova.runtime.secret_encryption`` encrypts payloads and the keys of encrypted volumes with the deployment's key file.
The ciphertext of a payload can be decrypted only with the id of its secret.
"""
from __future__ import annotations

import base64
from collections.abc import Sequence
import datetime
from typing import Any, TYPE_CHECKING, TypedDict
import uuid

from oslo_config.cfg import ConfigOpts

from nova import exception
from nova import utils
from nova.db import encryption_keys
from nova.db.audit import log
from nova.db.key_manager import records
from nova.db.tables import key_manager as t
from nova.keymanager import generation
from nova.keymanager import payloads
from nova.keymanager.payloads import Payload
from nova.runtime import secret_encryption

if TYPE_CHECKING:
    from nova.context import RequestContext
    from nova.db.engine import Connection
    from nova.db.engine import Database
    from nova.db.tables.rows import KeyContainersRow
    from nova.db.tables.rows import KeySecretsRow
    from nova.json_types import JsonObject

MAX_SECRETS = 100                        # maximum secrets in a container
OPAQUE, SYMMETRIC, PRIVATE, PUBLIC, RSA = 'opaque', 'symmetric', 'private', 'public', 'rsa'
# {type of a container: (required names of secrets, optional names)}; None: any names
CONTAINERS: dict[str, tuple[frozenset[str], frozenset[str]] | None] = {
    'generic': None,
    RSA: (frozenset({'public_key', 'private_key'}), frozenset({'private_key_passphrase'})),
    'certificate': (frozenset({'certificate'}), frozenset({'private_key', 'private_key_passphrase', 'intermediates'})),
}


class SecretValues(TypedDict):
    """Columns of a new secret."""

    name: str | None
    secret_type: str
    algorithm: str | None
    bit_length: int | None
    mode: str | None
    expires_at: datetime.datetime | None


class OrderValues(TypedDict):
    """Columns of the secrets that an order generates."""

    name: str | None
    algorithm: str
    bit_length: int
    mode: str | None
    expires_at: datetime.datetime | None


class KeyStore:
    """Secrets, containers and orders.

    :param conf: uses [key_manager] secrets, [conductor] disk_keys_file and state_path
    :param database: the API database
    """

    def __init__(self, conf: ConfigOpts, database: Database) -> None:
        self.db, self.limit, self._path = database, conf.key_manager.secrets, secret_encryption.path_of(conf)

    # ---- secrets

    def create_secret(self, ctx: RequestContext, values: SecretValues, payload: Payload | None) -> str:
        """Store a secret and return its id.

        :raises QuotaExceeded, Unavailable:
        """
        with self.db.writer() as conn:
            records.use(conn, _project(ctx), self.limit, {'secrets': 1})
            return self._insert(conn, ctx, values, payload, utils.utcnow())

    def _insert(self, conn: Connection, ctx: RequestContext, values: SecretValues, payload: Payload | None,
                moment: datetime.datetime) -> str:
        ident = str(uuid.uuid4())
        log.about(ident)
        columns: dict[str, Any] = {**values}
        if payload is not None:
            columns |= self._encrypted(conn, ident, payload)
        records.insert(conn, t.key_secrets, {'id': ident, **_owner(ctx), 'project_access': True, 'metadata': {},
                                             **columns}, moment)
        return ident

    def _encrypted(self, conn: Connection, ident: str, payload: Payload) -> dict[str, str]:
        """Return the columns of a payload; raises Unavailable (the key file cannot be used)."""
        try:
            cipher = secret_encryption.usable(self._path, encryption_keys.used(conn))
        except secret_encryption.Unusable as error:
            raise exception.Unavailable(f'The secret cannot be encrypted: {error}.') from None
        text = base64.b64encode(payload.content).decode()
        return {'content_type': payload.content_type, 'encryption_key_id': cipher.first,
                'encrypted_payload': cipher.encrypt(text, _bound(ident))}

    def set_payload(self, ident: str, payload: Payload) -> None:
        """Store the payload of a secret that has none.

        :raises NotFound: there is no such secret
        :raises Conflict: the secret already has a payload
        :raises Unavailable: the payload cannot be encrypted
        """
        with self.db.writer() as conn:
            row = records.get(conn, t.key_secrets, ident, lock=True)
            if row is None:
                raise exception.NotFound(f'Secret {ident} could not be found.')
            if row['encrypted_payload'] is not None:
                raise exception.Conflict(f'Secret {ident} already has a payload, which cannot be changed. Create '
                                         'another secret.')
            records.update(conn, t.key_secrets, ident, self._encrypted(conn, ident, payload))

    def payload(self, row: KeySecretsRow) -> Payload:
        """Return the payload of a secret.

        :raises NotFound: the secret has no payload
        :raises Unavailable: the payload cannot be decrypted
        """
        if row['encrypted_payload'] is None:
            raise exception.NotFound(f'Secret {row["id"]} has no payload.')
        try:
            text = secret_encryption.read_cipher(self._path).decrypt(
                str(row['encryption_key_id']), row['encrypted_payload'], _bound(row['id']))
        except secret_encryption.Unusable as error:
            raise exception.Unavailable(f'The secret cannot be decrypted: {error}.') from None
        return Payload(base64.b64decode(text), str(row['content_type']))

    # ---- containers

    def create_container(self, ctx: RequestContext, kind: str, name: str | None,
                         refs: Sequence[tuple[str, str]]) -> str:
        """Store a container and return its id.

        :param refs: (name, id of a secret); '' means no name
        :raises BadRequest: the names do not fit the type, or are not unique
        :raises NotFound: a secret does not belong to the project
        :raises QuotaExceeded:
        """
        check_names(kind, refs)
        with self.db.writer() as conn:
            records.use(conn, _project(ctx), self.limit, {'containers': 1})
            return self._insert_container(conn, ctx, kind, name, refs, utils.utcnow())

    def _insert_container(self, conn: Connection, ctx: RequestContext, kind: str, name: str | None,
                          refs: Sequence[tuple[str, str]], moment: datetime.datetime) -> str:
        ident = str(uuid.uuid4())
        log.about(ident)
        _check_secrets(conn, _project(ctx), refs)
        records.insert(conn, t.key_containers, {'id': ident, **_owner(ctx), 'project_access': True, 'name': name,
                                                'type': kind}, moment)
        for each, secret_id in refs:
            records.add_secret(conn, ident, each, secret_id)
        return ident

    def add_secret(self, container: KeyContainersRow, name: str, secret_id: str) -> None:
        """Add a secret to a generic container.

        :raises BadRequest: the container is not generic, or is full
        :raises NotFound: the secret does not belong to the container's project, or the container does not exist
        :raises Conflict: the container already has this name or secret
        """
        _check_generic(container)
        with self.db.writer() as conn:
            if records.get(conn, t.key_containers, container['id'], lock=True) is None:
                raise exception.NotFound(f'Container {container["id"]} could not be found.')
            _check_secrets(conn, container['project_id'], [(name, secret_id)])
            present = records.secrets_of(conn, [container['id']])[container['id']]
            if any(each == name or ident == secret_id for each, ident in present):
                raise exception.Conflict(f'Container {container["id"]} already has this secret, or a secret of this '
                                         'name.')
            if len(present) >= MAX_SECRETS:
                raise exception.BadRequest(f'A container has at most {MAX_SECRETS} secrets.')
            records.add_secret(conn, container['id'], name, secret_id)

    def remove_secret(self, container: KeyContainersRow, name: str, secret_id: str) -> None:
        """Remove a secret from a generic container, and keep the secret.

        :raises BadRequest: the container is not generic
        :raises NotFound: the container does not have the secret
        """
        _check_generic(container)
        if not self.db.run(records.remove_secret, container['id'], name, secret_id):
            raise exception.NotFound(f'Container {container["id"]} does not have this secret under this name.')

    # ---- orders

    def create_order(self, ctx: RequestContext, kind: str, meta: JsonObject, values: OrderValues) -> str:
        """Generate a key or a key pair, store it, and return the id of the order.

        :param kind: generation.KEY or generation.ASYMMETRIC
        :param meta: ``meta`` of the request; responses with the order include it
        :raises BadRequest: the key cannot be generated
        :raises QuotaExceeded, Unavailable:
        """
        generation.check(kind, values['algorithm'], values['bit_length'])
        used = {'orders': 1, 'secrets': 1} if kind == generation.KEY else {'orders': 1, 'secrets': 2, 'containers': 1}
        with self.db.writer() as conn:               # check the quota before the CPU-intensive generation
            records.use(conn, _project(ctx), self.limit, used)
        if kind == generation.KEY:
            made = {SYMMETRIC: generation.random_key(values['bit_length'])}
        else:
            made = dict(zip((PRIVATE, PUBLIC), generation.rsa_pair(values['bit_length']), strict=True))
        moment, ident = utils.utcnow(), str(uuid.uuid4())
        with self.db.writer() as conn:
            records.use(conn, _project(ctx), self.limit, used)
            ids = {name: self._insert(conn, ctx, {**values, 'secret_type': name},
                                      Payload(content, payloads.OCTETS), moment) for name, content in made.items()}
            container = self._insert_container(conn, ctx, RSA, values['name'], [
                (f'{name}_key', secret_id) for name, secret_id in ids.items()], moment) if len(made) > 1 else None
            log.about(ident)
            records.insert(conn, t.key_orders, {
                'id': ident, **_owner(ctx), 'type': kind, 'meta': meta, 'secret_id': ids.get(SYMMETRIC),
                'container_id': container}, moment)
        return ident


def check_names(kind: str, refs: Sequence[tuple[str, str]]) -> None:
    """Check the names of a new container's secrets against its type. A container of any type may be empty.

    :raises BadRequest: names or secrets are repeated, or the names do not fit the type
    """
    names = {name for name, _secret_id in refs}
    if len(names) < len(refs) or len({secret_id for _name, secret_id in refs}) < len(refs):
        raise exception.BadRequest('The names and the secrets of a container must be unique.')
    rule = CONTAINERS[kind]
    if not refs or rule is None:
        return
    required, optional = rule
    if not required <= names:
        raise exception.BadRequest(f'A container of type {kind} needs secrets of the names '
                                   f'{", ".join(sorted(required))}.')
    if names - required - optional:
        raise exception.BadRequest(f'A container of type {kind} may have secrets of the names '
                                   f'{", ".join(sorted(required | optional))} only.')


def _check_generic(container: KeyContainersRow) -> None:
    if CONTAINERS[container['type']] is not None:
        raise exception.BadRequest(f'Container {container["id"]} has the type {container["type"]}. Only the secrets of '
                                   'generic containers can be changed.')


def _check_secrets(conn: Connection, project_id: str, refs: Sequence[tuple[str, str]]) -> None:
    missing = {ident for _name, ident in refs} - records.existing(conn, project_id, [ident for _name, ident in refs])
    if missing:
        raise exception.NotFound(f'Secret {min(missing)} could not be found in this project.')


def _project(ctx: RequestContext) -> str:
    return str(ctx.project_id)


def _owner(ctx: RequestContext) -> dict[str, str]:
    return {'project_id': _project(ctx), 'creator_id': str(ctx.user_id)}


def _bound(ident: str) -> str:
    """Return the associated data that binds a ciphertext to its secret: decryption fails with other data."""
    return f'secret {ident}'
