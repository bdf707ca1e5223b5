"""Tables of the embedded key manager, in the API database."""
import sqlalchemy as sa

from nova.db import types
from nova.db.tables.api import table
from nova.db.tables.rows import KeyConsumersRow, KeyContainersRow, KeyOrdersRow, KeySecretsRow


def _acl_columns() -> tuple[sa.Column[object], ...]:
    """Return the columns of an access control list; the users of the list are in key_acl_users."""
    return (sa.Column('project_access', sa.Boolean, nullable=False, default=True),
            sa.Column('acl_created_at', types.DateTime),         # NULL: there is no access control list
            sa.Column('acl_updated_at', types.DateTime))


key_secrets: types.Table[KeySecretsRow] = table(
    'key_secrets',
    sa.Column('id', sa.String(36), primary_key=True),
    sa.Column('project_id', sa.String(255), nullable=False),
    sa.Column('creator_id', sa.String(255), nullable=False),
    sa.Column('name', sa.String(255)),
    sa.Column('secret_type', sa.String(32), nullable=False),     # symmetric, passphrase, private, public, …
    sa.Column('algorithm', sa.String(255)),
    sa.Column('bit_length', sa.Integer),
    sa.Column('mode', sa.String(255)),
    sa.Column('expires_at', types.DateTime),
    sa.Column('metadata', types.Json, nullable=False),           # {key: value} that users set
    sa.Column('content_type', sa.String(64)),                    # NULL: no payload yet
    # payload in base64, encrypted by runtime/secret_encryption.py
    sa.Column('encrypted_payload', types.LongText),
    sa.Column('encryption_key_id', sa.String(16)),               # name of the deployment key that encrypts the payload
    *_acl_columns(),
    sa.Column('created_at', types.DateTime, nullable=False),
    sa.Column('updated_at', types.DateTime, nullable=False),
    sa.Index('ix_key_secrets_project_created', 'project_id', 'created_at', 'id'),
    sa.Index('ix_key_secrets_created', 'created_at'),
)

key_containers: types.Table[KeyContainersRow] = table(
    'key_containers',
    sa.Column('id', sa.String(36), primary_key=True),
    sa.Column('project_id', sa.String(255), nullable=False),
    sa.Column('creator_id', sa.String(255), nullable=False),
    sa.Column('name', sa.String(255)),
    sa.Column('type', sa.String(32), nullable=False),            # generic, rsa, certificate
    *_acl_columns(),
    sa.Column('created_at', types.DateTime, nullable=False),
    sa.Column('updated_at', types.DateTime, nullable=False),
    sa.Index('ix_key_containers_project_created', 'project_id', 'created_at', 'id'),
)

key_container_secrets = table(
    'key_container_secrets',
    sa.Column('container_id', sa.String(36), primary_key=True),
    sa.Column('secret_id', sa.String(36), primary_key=True),
    # '': no name. Code ensures that names are unique within a container, because an index of MariaDB ignores case.
    sa.Column('name', sa.String(255), nullable=False),
    sa.Index('ix_key_container_secrets_secret', 'secret_id'),
)

# access control lists: users that may read a secret or container that is private or belongs to another project
key_acl_users = table(
    'key_acl_users',
    sa.Column('target_id', sa.String(36), primary_key=True),     # secret or container
    sa.Column('user_id', sa.String(255), primary_key=True),
    sa.Index('ix_key_acl_users_user', 'user_id'),
)

# consumers: resources that use a secret or container, registered by the services of the resources
key_consumers: types.Table[KeyConsumersRow] = table(
    'key_consumers',
    sa.Column('target_id', sa.String(36), primary_key=True),     # secret or container
    sa.Column('digest', sa.String(64), primary_key=True),        # SHA-256 of the document
    sa.Column('project_id', sa.String(255), nullable=False),     # project of the secret or container
    sa.Column('document', types.Json, nullable=False),           # {'name', 'URL'}, or 'service', 'resource_type', …
    sa.Column('created_at', types.DateTime, nullable=False),
    sa.Index('ix_key_consumers_project', 'project_id'),
)

# orders: requests to generate keys; the row is inserted after the key is generated
key_orders: types.Table[KeyOrdersRow] = table(
    'key_orders',
    sa.Column('id', sa.String(36), primary_key=True),
    sa.Column('project_id', sa.String(255), nullable=False),
    sa.Column('creator_id', sa.String(255), nullable=False),
    sa.Column('type', sa.String(32), nullable=False),            # key, asymmetric
    sa.Column('meta', types.Json, nullable=False),               # value of meta in the request
    sa.Column('secret_id', sa.String(36)),                       # the generated key
    sa.Column('container_id', sa.String(36)),                    # container of the generated key pair
    sa.Column('created_at', types.DateTime, nullable=False),
    sa.Column('updated_at', types.DateTime, nullable=False),
    sa.Index('ix_key_orders_project_created', 'project_id', 'created_at', 'id'),
)
