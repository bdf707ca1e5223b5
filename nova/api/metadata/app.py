"""The metadata service in the formats of EC2 and OpenStack.

A guest is identified by its source address, which anti-spoofing rules guarantee. A proxy names the instance in headers
signed with the shared secret; unsigned headers are refused. Requests from an overlay network come through the relay of
a host (nova/network/relay.py); the relay adds the guest's network and address.
"""
from __future__ import annotations

import base64
import collections.abc
import hashlib
import hmac
import re
import time
import typing
from wsgiref.types import WSGIEnvironment

from oslo_config import cfg

from nova import context
from nova import exception
from nova import objects
from nova import utils
from nova.api.metadata import limits
from nova.api.metadata import tokens
from nova.api.metadata import vendordata
from nova.db import engine
from nova.db.cells import cells as db_cells
from nova.db.networks import ports
from nova.db.networks import security_groups
from nova.db.servers import block_devices
from nova.db.servers import instances
from nova.db.servers import request_specs
from nova.db.services import metadata_keys
from nova.network import relay
from nova.objects.instance import POSTED_PASSWORD
from nova.runtime.http import addresses
from nova.virt import metadata
from nova.web import application
from nova.web import bodies
from nova.web import faults
from nova.web.mapper import Methods
from nova.web.request import BaseRequest
from nova.web.request import Headers
from nova.web.request import Response
from nova.web.routes import Route

PASSWORD_MAX = 1020          # bytes of the encrypted password that a guest may store once
TOKEN_PATH = '/latest/api/token'
FORWARDED = 'X-Forwarded-For'
GROUPS = 'security-groups'                # a path of the EC2 format
EC2_DEPTH = 8                # segments of the longest path of the EC2 format
DOCUMENTS = ('meta_data.json', 'network_data.json', 'password', 'vendor_data.json', 'vendor_data2.json')


class MetadataApi(application.Api['MetadataRequest']):
    """The metadata service as part of the HTTP application: handlers, and methods that nova.web.application calls.

    :param conf: configuration
    :param api_db: the API database
    :param cells: nova.db.cells.cells.Cells
    """

    content_type = 'text/plain'

    def __init__(self, conf: cfg.ConfigOpts, api_db: engine.Database, cells: db_cells.Cells) -> None:
        super().__init__(self._rows())
        self.api_db, self.cells = api_db, cells
        self.secret = conf.metadata.shared_secret.encode()
        self._groups_are_here = conf.network.backend == 'embedded'
        self.domain, self.region = conf.metadata.dhcp_domain, conf.ec2.region
        self.tokens = tokens.Tokens(lambda: api_db.run(metadata_keys.obtain))
        self._master = b''
        self.required = conf.metadata.tokens == tokens.REQUIRED
        self.vendor_data = vendordata.VendorData(conf)
        self.limits = limits.GuestLimits(conf.metadata.request_rate)

    def _rows(self) -> collections.abc.Iterator[Route]:
        yield Route('GET', '/', self._versions)
        yield Route('PUT', TOKEN_PATH, self._token)
        yield Route('GET', '/openstack', self._openstack_versions)
        yield Route('GET', '/openstack/content/{name}', self._content)
        yield Route('GET', '/openstack/{version}', self._documents)
        yield Route('GET', '/openstack/{version}/password', self._show_password)
        yield Route('POST', '/openstack/{version}/password', self._store_password, streams=True)
        yield Route('GET', '/openstack/{version}/{name}', self._document)
        for depth in range(EC2_DEPTH):
            yield Route('GET', '/{version}' + ''.join(f'/{{part{number}}}' for number in range(depth)), self._ec2)

    # ---- hooks of nova.web.application -----------------------------------------

    def request(self, environ: WSGIEnvironment) -> MetadataRequest:
        context.RequestContext(remote_address=environ.get('REMOTE_ADDR'), overwrite=True)
        return MetadataRequest(environ)

    def find(self, req: MetadataRequest) -> tuple[Methods | None, list[str]]:
        if req.path == TOKEN_PATH and req.method != 'PUT':
            raise exception.MethodNotAllowed()
        return self.mapper.find([segment for segment in req.path.split('/') if segment], req.method)

    def perform(self, req: MetadataRequest, raw: bytes, work: application.Work) -> Response:
        req.guest, req.relayed = self._signed(req), None
        if req.guest is None:
            req.guest = req.relayed = self._relayed(req)
        with self.limits.request(req.guest or req.environ.get('REMOTE_ADDR') or ''):
            return self.answer(req, work())

    def headers(self, req: MetadataRequest) -> Headers:
        return [('Content-Type', 'application/json' if req.path.endswith('.json') else 'text/plain')]

    def fault(self, req: MetadataRequest, error: Exception) -> Response:
        code, message, _english = faults.explain(error, req.environ.get('openstack.request_id'))
        if code >= 500:
            code, message = 500, 'Internal error'
        headers = [('Content-Type', 'text/plain; charset=utf-8')]
        if code == 429:
            headers.append(('Retry-After', str(getattr(error, 'kwargs', {})['retry_after'])))
        return Response(message.encode(), code, headers)

    # ---- documents ---------------------------------------------------------------

    def _versions(self, req: MetadataRequest) -> bytes:
        return '\n'.join((*metadata.EC2_VERSIONS, 'latest')).encode()

    def _ec2(self, req: MetadataRequest, version: str, **parts: str) -> bytes:
        if version not in metadata.EC2_VERSIONS and version != 'latest':
            raise exception.NotFound()
        instance, path = self._reader(req), list(parts.values())
        if GROUPS in path and self._groups_are_here:
            with self.api_db.reader() as conn:
                instance.security_groups = security_groups.names_of_devices(conn, [instance.uuid]).get(
                    instance.uuid, [])
        devices = self._devices(instance, self._spec(instance)) if metadata.DISKS in path else []
        return _walk(metadata.ec2_tree(instance, self.domain, self.region, devices), path)

    def _openstack_versions(self, req: MetadataRequest) -> bytes:
        # check the token: cloud-init probes this path first, and after 401 tries other formats
        self._reader(req)
        return '\n'.join((*metadata.OPENSTACK_VERSIONS, 'latest')).encode()

    def _openstack(self, req: MetadataRequest, version: str) -> objects.Instance:
        """Return the instance that sent a request for a path below /openstack/VERSION.

        :raises NotFound: unknown version
        """
        if version not in metadata.OPENSTACK_VERSIONS and version != 'latest':
            raise exception.NotFound()
        return self._reader(req)

    def _documents(self, req: MetadataRequest, version: str) -> bytes:
        names = DOCUMENTS + (('user_data',) if self._openstack(req, version).user_data else ())
        return '\n'.join(sorted(names)).encode()

    def _document(self, req: MetadataRequest, version: str, name: str) -> bytes:
        instance = self._openstack(req, version)
        if name == 'vendor_data2.json' and self.vendor_data:
            return self.vendor_data.document(instance)
        spec = self._spec(instance)
        found = metadata.openstack_files(instance, _injected_files(spec), domain=self.domain,
                                         devices=self._devices(instance, spec))
        if name not in found:
            raise exception.NotFound()
        return found[name]

    # ---- identification of the guest ------------------------------------------

    def _reader(self, req: MetadataRequest) -> objects.Instance:
        """Return the requesting instance. If the instance requires session tokens, check the token first.

        :raises Unauthorized: the token is missing or belongs to another guest
        """
        instance, token = self._instance(req), req.header(tokens.TOKEN, None)
        if token is not None:
            self.tokens.check(instance.uuid, token)
        elif self.required or tokens.required_of(instance):
            raise exception.Unauthorized(f'A session token is required. Obtain one with PUT {TOKEN_PATH}.')
        return instance

    def _token(self, req: MetadataRequest) -> Response:
        # refuse requests with X-Forwarded-For; exception: a proxy that signs the instance ID may add one address
        forwarded = req.header(FORWARDED, None)
        if len((forwarded or '').split(',')) > 1 or forwarded is not None and (req.guest is None or req.relayed):
            raise exception.Forbidden('Session tokens are not available through a proxy.')
        wanted = req.header(tokens.TTL)
        seconds, instance = tokens.ttl(wanted), self._instance(req)
        hops = tokens.hops_of(instance)
        headers = [(tokens.TTL, wanted), *(self._limit(req, hops) if hops is not None else ())]
        return Response(self.tokens.make(instance.uuid, seconds).encode(), headers=headers)

    @staticmethod
    def _limit(req: MetadataRequest, hops: int) -> Headers:
        """Limit the hops (IP TTL) of the response, and return its headers.

        :raises Forbidden: the proxy cannot enforce the limit
        """
        if req.relayed:
            return [(relay.HOPS, str(hops))]
        if req.guest is not None or 'nova.hops' not in req.environ:
            raise exception.Forbidden('Session tokens with a hop limit are not available through a proxy.')
        req.environ['nova.hops'](hops)
        return []

    def _instance(self, req: MetadataRequest) -> objects.Instance:
        if req.guest is not None:
            instance = self._load(req.guest)
            if not req.relayed and req.header('X-Tenant-ID') != instance.project_id:
                raise exception.NotFound()
            return instance
        # The source address identifies the guest; headers are ignored.
        with self.api_db.reader() as conn:
            uuid = ports.device_at(conn, addresses.plain(req.environ.get('REMOTE_ADDR') or ''))
        if uuid is None:
            raise exception.NotFound('No instance has this address.')
        return self._load(uuid)

    def _signed(self, req: MetadataRequest) -> str | None:
        """Return the instance ID that a proxy has signed, or None if no proxy sent the request.

        :raises Forbidden: the signature is invalid
        """
        uuid, given = req.header('X-Instance-ID', None), req.header('X-Instance-ID-Signature', None)
        if uuid is None and given is None:
            return None
        uuid = uuid or ''
        expected = hmac.new(self.secret, uuid.encode(), hashlib.sha256).hexdigest()
        if not self.secret or not hmac.compare_digest(expected.encode(), (given or '').encode()):
            raise exception.Forbidden('The signature of the instance ID is invalid.')
        return uuid

    def _relayed(self, req: MetadataRequest) -> str | None:
        """Return the instance ID of a request that a host's relay has signed, or None if no relay sent the request.

        :raises Forbidden: the signature is invalid or expired
        :raises NotFound: no server has the address
        """
        given = {name: req.header(name, None) for name in (
            relay.HOST, relay.GUEST, relay.SIGNATURE, relay.NETWORK, relay.ROUTER, relay.TIME, relay.BODY)}
        if all(value is None for value in given.values()):
            return None
        kind = 'router' if given[relay.NETWORK] is None else 'network'
        host, address = given[relay.HOST] or '', given[relay.GUEST] or ''
        ident = given[relay.SOURCE_HEADERS[kind]] or ''
        self._master = self._master or self.api_db.run(metadata_keys.obtain)
        sent, body = given[relay.TIME] or '', given[relay.BODY] or ''
        path = req.environ.get('SCRIPT_NAME', '') + req.environ.get('PATH_INFO', '')
        expected = relay.signature(relay.key_of(self._master, host), host, kind, ident, address,
                                   (sent, req.method, path, body))
        if not hmac.compare_digest(expected.encode(), (given[relay.SIGNATURE] or '').encode()):
            raise exception.Forbidden('The signature of the relay is invalid.')
        if not re.fullmatch('[0-9]{1,12}', sent) or abs(time.time() - int(sent)) > relay.VALID_S:
            raise exception.Forbidden('The request of the relay has expired, or its clock differs from that of this '
                                      'service.')
        find = ports.device_by_router if kind == 'router' else ports.device_by_network
        with self.api_db.reader() as conn:
            uuid = find(conn, ident, address, host)
        if uuid is None:
            raise exception.NotFound('No instance has this address, or a port of another project may use it in this '
                                     'network.')
        return uuid

    def _load(self, uuid: str) -> objects.Instance:
        with self.cells.of_server(uuid).db.reader() as conn:
            return objects.Instance.from_row(instances.get(conn, uuid))

    def _spec(self, instance: objects.Instance) -> objects.RequestSpec | None:
        """Return the request spec of the server, or None if no spec is stored."""
        with self.api_db.reader() as conn:
            try:
                return request_specs.get(conn, instance.uuid)
            except exception.NotFound:
                return None

    def _devices(self, instance: objects.Instance, spec: objects.RequestSpec | None) -> list[dict[str, typing.Any]]:
        """Return rows of the server's disks: requested local disks, and volumes."""
        local = [row for row in (spec and spec.block_devices) or () if row.get('destination_type') != 'volume']
        with self.cells.of_server(instance.uuid).db.reader() as conn:
            return [*local, *block_devices.of_metadata(conn, instance.uuid)]

    # ---- personality and password -----------------------------------------------

    def _content(self, req: MetadataRequest, name: str) -> bytes:
        for index, (_path, content) in enumerate(_injected_files(self._spec(self._reader(req)))):
            if metadata.content_path(index) == '/content/' + name:
                return content
        raise exception.NotFound()

    def _show_password(self, req: MetadataRequest, version: str) -> bytes:
        return str(self._openstack(req, version).system_metadata.get(POSTED_PASSWORD, '')).encode()

    def _store_password(self, req: MetadataRequest, version: str) -> bytes:
        """Store the guest's encrypted password, once."""
        instance = self._openstack(req, version)
        try:
            raw = bodies.read(req.environ, PASSWORD_MAX)
            password = raw.decode('ascii')
        except exception.TooLarge:
            raise exception.BadRequest(f'The password is longer than {PASSWORD_MAX} bytes.') from None
        except UnicodeDecodeError:
            raise exception.BadRequest('The password must be text.') from None
        if req.relayed and relay.digest(raw) != req.header(relay.BODY):
            raise exception.Forbidden('The password differs from the one that the relay has signed.')

        def store(conn: engine.Connection) -> None:
            instances.lock(conn, instance.uuid)
            row = instances.get(conn, instance.uuid)
            if row['system_metadata'].get(POSTED_PASSWORD):
                raise exception.Conflict('The password has been set already.')
            instances.update(conn, instance.uuid, {
                'system_metadata': {**row['system_metadata'], POSTED_PASSWORD: password}, 'updated_at': utils.utcnow()})
        self.cells.of_server(instance.uuid).db.run(store)
        return b''


class MetadataRequest(BaseRequest):
    """Argument of the handlers.

    guest   instance ID from a signed request of a proxy or relay; None: the source address identifies the instance
    relayed the same instance ID if the relay of a host has sent the request, else None
    """

    __slots__ = ('guest', 'relayed')
    guest: str | None
    relayed: str | None


def Application(conf: cfg.ConfigOpts, api_db: engine.Database, cells: db_cells.Cells) -> application.Application:
    """Build the WSGI application; the parameters are those of MetadataApi."""
    return application.Application(MetadataApi(conf, api_db, cells))


def _injected_files(spec: objects.RequestSpec | None) -> list[tuple[str, bytes]]:
    return [(file['path'], base64.b64decode(file['contents'])) for file in (spec and spec.injected_files) or ()]


def _walk(tree: metadata.Entry, parts: collections.abc.Iterable[str]) -> bytes:
    """Return the leaf or the listing at a path of the EC2 tree."""
    for part in parts:
        if not isinstance(tree, collections.abc.Mapping) or part not in tree:
            raise exception.NotFound()
        tree = tree[part]
    if isinstance(tree, collections.abc.Mapping):
        return metadata.listing(tree).encode()
    return tree if isinstance(tree, bytes) else tree.encode()
