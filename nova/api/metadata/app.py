"""The metadata service: tells a guest who it is, in the formats of EC2 and OpenStack.

A guest is known by its source address, which the network's anti-spoofing guarantees. A request through a proxy names
the instance in headers and proves it by a signature with the shared secret; without one it is refused.
"""
import base64
import hashlib
import hmac
import logging

import sqlalchemy as sa
import webob

from nova import exception
from nova import objects
from nova import utils
from nova.api.metadata import limits
from nova.api.metadata import tokens
from nova.api.metadata import vendordata
from nova.db.servers import instances
from nova.db.servers import request_specs
from nova.db.services import metadata_keys
from nova.db.tables import network as tables_network
from nova.runtime.http import addresses
from nova.virt import metadata

LOG = logging.getLogger(__name__)

PASSWORD_MAX = 1020          # bytes of an encrypted password that a guest may leave here, once
TOKEN_PATH = '/latest/api/token'
REQUIRED = 'required'
PROPERTY = 'metadata_tokens'  # of an image, or in the metadata of a server
DOCUMENTS = ('meta_data.json', 'network_data.json', 'password', 'vendor_data.json', 'vendor_data2.json')


class Application:
    """WSGI application.

    :param conf: configuration
    :param api_db: the API database
    :param cells: nova.db.cells.cells.Cells
    """

    def __init__(self, conf, api_db, cells):
        self.api_db, self.cells = api_db, cells
        self.secret = conf.metadata.shared_secret.encode()
        self.domain = conf.metadata.dhcp_domain
        self.tokens = tokens.Tokens(lambda: api_db.run(metadata_keys.obtain))
        self.required = conf.metadata.tokens == REQUIRED
        self.vendor_data = vendordata.VendorData(conf)
        self.limits = limits.GuestLimits(conf.metadata.request_rate)

    def __call__(self, environ, start_response):
        request = webob.Request(environ)
        try:
            guest = self._signed(request.headers)
            with self.limits.request(guest or request.remote_addr or ''):
                content = self.answer(request, guest)
            response = webob.Response(body=content, content_type=_content_type(request.path), charset=None)
            if request.path == TOKEN_PATH:
                response.headers[tokens.TTL] = request.headers[tokens.TTL]
        except exception.NovaException as error:
            code = error.code if error.code < 500 else 500
            response = webob.Response(status=code, content_type='text/plain', charset='utf-8',
                                      body=(error.message if code < 500 else 'Internal error').encode())
            if code == 429:
                response.headers['Retry-After'] = str(error.kwargs['retry_after'])
            if code == 500:
                LOG.exception('metadata request failed')
        except Exception:
            LOG.exception('metadata request failed')
            response = webob.Response(status=500, content_type='text/plain', body=b'Internal error')
        return response(environ, start_response)

    def answer(self, request, guest=None):
        """The bytes of the requested document; raises NotFound, Forbidden, Conflict, Unauthorized.

        :param guest: id of the instance that a proxy has signed; None: the address of the request tells it
        """
        try:
            parts = [part for part in request.path.split('/') if part]
        except UnicodeDecodeError:
            raise exception.NotFound() from None
        if not parts:
            return '\n'.join((*metadata.EC2_VERSIONS, 'latest')).encode()
        if request.path == TOKEN_PATH:
            return self._token(request, guest)
        if parts[0] == 'openstack':
            return self._openstack(request, guest, parts[1:])
        if parts[0] in metadata.EC2_VERSIONS or parts[0] == 'latest':
            _only_reads(request)
            return _walk(metadata.ec2_tree(self._reader(request, guest), self.domain), parts[1:])
        raise exception.NotFound()

    def _openstack(self, request, guest, parts):
        if parts[:1] == ['content'] and len(parts) == 2:
            _only_reads(request)
            return self._content(self._reader(request, guest), parts[1])
        if parts and parts[0] not in metadata.OPENSTACK_VERSIONS and parts[0] != 'latest' or len(parts) > 2:
            raise exception.NotFound()
        instance = self._reader(request, guest)
        if not parts:                        # cloud-init looks here first, and without a token elsewhere then
            return '\n'.join((*metadata.OPENSTACK_VERSIONS, 'latest')).encode()
        if parts[1:] == ['password']:
            return self._password(request, instance)
        _only_reads(request)
        if len(parts) == 1:
            names = DOCUMENTS + (('user_data',) if instance.user_data else ())
            return '\n'.join(sorted(names)).encode()
        if parts[1] == 'vendor_data2.json' and self.vendor_data:
            return self.vendor_data.document(instance)
        found = metadata.openstack_files(instance, self._injected_files(instance), domain=self.domain)
        if parts[1] not in found:
            raise exception.NotFound()
        return found[parts[1]]

    # ---- who asks -------------------------------------------------------------

    def _reader(self, request, guest):
        """The instance that asks, when it has the token that it needs.

        :raises Unauthorized: it has none, or not its own
        """
        instance, token = self._instance(request, guest), request.headers.get(tokens.TOKEN)
        if token is not None:
            self.tokens.check(instance.uuid, token)
        elif self.required or REQUIRED in (instance.metadata.get(PROPERTY), instance.image_properties.get(PROPERTY)):
            raise exception.Unauthorized(f'A session token is needed: PUT {TOKEN_PATH} gives one.')
        return instance

    def _token(self, request, guest):
        if request.method != 'PUT':
            raise exception.MethodNotAllowed()
        # a proxy within the guest names for whom it asks; one that has signed names the guest, once
        if len(request.headers.get('X-Forwarded-For', '').split(',')) > 1 or (
                guest is None and 'X-Forwarded-For' in request.headers):
            raise exception.Forbidden('A session token is not given through a proxy.')
        seconds = tokens.ttl(request.headers)
        return self.tokens.make(self._instance(request, guest).uuid, seconds).encode()

    def _instance(self, request, guest):
        if guest is not None:
            instance = self._load(guest)
            if request.headers.get('X-Tenant-ID') != instance.project_id:
                raise exception.NotFound()
            return instance
        ports, given = tables_network.ports.c, tables_network.addresses.c
        # It proves who asks, so no header is asked for it.
        address = addresses.plain(request.remote_addr or '')
        with self.api_db.reader() as conn:
            found = conn.execute(
                sa.select(ports.device_id).join(tables_network.addresses, given.port_id == ports.id)
                .where(given.address == address, ports.device_id != '')).scalars().all()
        if len(found) != 1:
            raise exception.NotFound('No instance has this address.')
        return self._load(found[0])

    def _signed(self, headers):
        """The id of the instance that a proxy names; None without one.

        :raises Forbidden: its signature is wrong
        """
        if 'X-Instance-ID' not in headers and 'X-Instance-ID-Signature' not in headers:
            return None
        uuid = headers.get('X-Instance-ID', '')
        expected = hmac.new(self.secret, uuid.encode(), hashlib.sha256).hexdigest()
        given = headers.get('X-Instance-ID-Signature', '')
        if not self.secret or not hmac.compare_digest(expected.encode(), given.encode()):
            raise exception.Forbidden('The signature of the instance id is not valid.')
        return uuid

    def _load(self, uuid):
        with self.cells.of_server(uuid).db.reader() as conn:
            return objects.Instance.from_row(instances.get(conn, uuid))

    # ---- personality and the password -------------------------------------------

    def _injected_files(self, instance):
        with self.api_db.reader() as conn:
            try:
                spec = request_specs.get(conn, instance.uuid)
            except exception.NotFound:
                return []
        return [(file['path'], base64.b64decode(file['contents'])) for file in spec.injected_files or ()]

    def _content(self, instance, name):
        for index, (_path, content) in enumerate(self._injected_files(instance)):
            if metadata.content_path(index) == '/content/' + name:
                return content
        raise exception.NotFound()

    def _password(self, request, instance):
        """The guest leaves its encrypted password here once; whoever holds the key may read it."""
        if request.method != 'POST':
            _only_reads(request)
            return instance.system_metadata.get('password', '').encode()
        raw = request.body_file.read(PASSWORD_MAX + 1)        # a body in chunks says no length
        if len(raw) > PASSWORD_MAX:
            raise exception.BadRequest(f'The password is longer than {PASSWORD_MAX} bytes.')
        try:
            password = raw.decode('ascii')
        except UnicodeDecodeError:
            raise exception.BadRequest('The password must be text.') from None

        def store(conn):
            instances.lock(conn, instance.uuid)
            row = instances.get(conn, instance.uuid)
            if row['system_metadata'].get('password'):
                raise exception.Conflict('The password has been set already.')
            instances.update(conn, instance.uuid, {
                'system_metadata': {**row['system_metadata'], 'password': password}, 'updated_at': utils.utcnow()})
        self.cells.of_server(instance.uuid).db.run(store)
        return b''


def _only_reads(request):
    if request.method not in ('GET', 'HEAD'):
        raise exception.MethodNotAllowed()


def _content_type(path):
    return 'application/json' if path.endswith('.json') else 'text/plain'


def _walk(tree, parts):
    """The leaf or the listing at a path of the EC2 tree."""
    for part in parts:
        if not isinstance(tree, dict) or part not in tree:
            raise exception.NotFound()
        tree = tree[part]
    if isinstance(tree, dict):
        return metadata.listing(tree).encode()
    return tree if isinstance(tree, bytes) else tree.encode()
