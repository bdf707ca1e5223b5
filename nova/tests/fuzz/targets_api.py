"""Requests as handlers see them: bodies, queries of lists, what guests ask the metadata service."""
import json
import random
import types

import sqlalchemy as sa
import webob

from nova import conf as nova_conf
from nova import context as nova_context
from nova import exception
from nova import policy
from nova.api import app
from nova.api import request as api_request
from nova.api.servers import listing as server_list
from nova.api.servers import schemas as server_schemas
from nova.db.servers import listing as instances_list
from nova.db.tables import api as tables_api
from nova.db.tables import cell as tables_cell
from nova.network.rest import networks
from nova.network.rest import ports
from nova.tests import server_rows
from nova.tests.fuzz import mutations
from nova.tests.fuzz.engine import Target
from nova.tests.support import metadata as test_metadata
from nova.volume.rest import handlers as volume_handlers
from nova.web import json_text
from nova.web import params

VERSIONS = (1, 26, 75, 104)


def _empty(directory, name, metadata):
    engine = sa.create_engine(f'sqlite:///{directory}/{name}.sqlite')
    metadata.create_all(engine)
    return engine


# ---- bodies -----------------------------------------------------------------------

def make_bodies(_directory):
    rows = [row for row in app.all_routes() if row.body]
    first = {}
    for row in rows:
        for name in (param.name for param in row.body.params):
            first.setdefault(name, []).append(row.body)

    def run(data: bytes) -> None:
        try:
            value = json_text.parse(data)
        except ValueError:
            raise exception.BadRequest('It is no JSON.') from None
        known = first.get(next(iter(value)), ()) if isinstance(value, dict) and value else ()
        rng = random.Random(len(data))
        for body in list(known)[:4] or [rng.choice(rows).body]:
            version = rng.choice(VERSIONS)
            try:
                body.validate(json.loads(data), version, relaxed=version == 1)
            except exception.BadRequest as error:
                assert len(error.message) < 20000
    return run


# ---- queries ----------------------------------------------------------------------

def make_server_queries(directory):
    conf = nova_conf.new(files=[])
    services = types.SimpleNamespace(conf=conf, policy=policy.Policy(conf))
    engine = _empty(directory, 'cell', tables_cell.metadata)
    with engine.begin() as conn:
        server_rows.insert(conn, [server_rows.row(number, project_id='p' if number % 2 else 'q')
                                  for number in range(8)])

    def run(data: bytes) -> None:
        text = data[1:].decode('latin-1')
        version, privileged = VERSIONS[data[0] % 4] if data else 1, bool(data and data[0] & 4)
        req = api_request.Request({'QUERY_STRING': text, 'REQUEST_METHOD': 'GET'}, services)
        req.version = version
        req.context = nova_context.RequestContext(user_id='u', project_id='p', overwrite=False,
                                                  roles=['admin'] if privileged else ['member'])
        req.context.is_admin = privileged
        req.query = server_schemas.LIST.validate(text, version)
        query = server_list.to_query(req, server_list._RULE + 'index:get_all_tenants')
        if query is None:
            return
        assert privileged or query.project_id == 'p', 'a member lists another project'
        with engine.connect() as conn:
            try:
                rows = instances_list.page(conn, query, {'uuid', 'project_id'})
            except (instances_list.BadPattern, instances_list.MarkerNotFound, instances_list.TooSlow):
                return
        assert len(rows) <= query.limit and (privileged or {row['project_id'] for row in rows} <= {'p'})
    return run


def make_network_queries(directory):
    engine = _empty(directory, 'api', tables_api.metadata)
    listings = [resource.listing for module in (networks, ports) for resource in vars(module).values()
                if hasattr(getattr(resource, 'listing', None), 'page')]     # and no module of that name
    assert listings

    def run(data: bytes) -> None:
        pairs = params.parse_query(data[1:].decode('latin-1'))
        listing = listings[sum(data[:1]) % len(listings)]
        with engine.connect() as conn:
            page = listing.page(conn, pairs, sa.true())
        assert page.rows == [] and 0 < page.limit <= 1000
    return run


def make_volume_queries(directory):
    engine = _empty(directory, 'volume', tables_api.metadata)
    row = next(row for row in volume_handlers.ROUTES if row.path == '/volumes' and row.method == 'GET')

    def run(data: bytes) -> None:
        request = types.SimpleNamespace(
            query=row.query.validate(data.decode('latin-1'), 68), route=row, version=68, trusted=False,
            url='/v3/volumes', allows=lambda rule, target: False,
            context=nova_context.RequestContext(user_id='u', project_id='p', overwrite=False),
            store=types.SimpleNamespace(db=types.SimpleNamespace(reader=engine.connect)))
        assert row.handler(request)['volumes'] == []
    return run


# ---- guests -----------------------------------------------------------------------

def make_metadata(directory):
    application, row = next(test_metadata.served(directory))
    uuid = row['uuid'].encode()

    def run(data: bytes) -> None:
        address, _, rest = data.decode('latin-1').partition('\n')
        line, *headers = rest.split('\n')
        method, _, path = line.partition(' ')
        environ = {'REQUEST_METHOD': method or 'GET', 'PATH_INFO': path, 'SCRIPT_NAME': '', 'SERVER_NAME': 'x',
                   'SERVER_PORT': '80', 'wsgi.url_scheme': 'http', 'REMOTE_ADDR': address}
        for header in headers:
            name, _, value = header.partition(': ')
            environ['HTTP_' + name.upper().replace('-', '_')] = value
        response = webob.Request(environ).get_response(application)
        assert response.status_int < 500, response.status
        if address not in ('10.0.0.5', '::ffff:10.0.0.5'):
            assert uuid not in response.body and b'mykey' not in response.body, 'a guest reads of another one'
    return run


TARGETS = (
    Target('bodies', make_bodies, (
        b'{"server": {"name": "x", "flavorRef": "1", "imageRef": "", "networks": [{"port": "x"}], "metadata": {}, '
        b'"trusted_image_certificates": ["a", "b"], "security_groups": [{"name": "x"}]}}',
        b'{"server_group": {"name": "x", "policies": ["affinity"]}}', b'{"tags": ["a", "b"]}',
        b'{"flavor": {"name": "x", "ram": 64, "vcpus": "1", "disk": 0}}', b'{"keypair": {"name": "x", "type": "ssh"}}',
        b'{"extra_specs": {"hw:a": "b"}}', b'{"resize": {"flavorRef": "2"}}', b'{"quota_set": {"cores": -1}}',
        b'{"group": {"name": "x", "policies": ["affinity"], "metadata": {"a": "b"}}}'),
        mutate=mutations.document, seconds=4, mib=96),
    Target('server_queries', make_server_queries, (
        b'\1name=^web.*[0-9]+$&status=ACTIVE&limit=5&sort_key=created_at&sort_dir=asc',
        b'\6all_tenants=1&deleted=true&ip=10.',
        b'\3changes-since=2026-01-01T00:00:00Z&tags=a,b&not-tags-any=c',
        b'\7locked=true&progress=5&power_state=1&host=x',
        b'\0marker=x&limit=0&image=y', b'\2created_at=2026-01-01&user_id=u&availability_zone=nova')),
    Target('network_queries', make_network_queries, (
        b'\0name=x&shared=true&limit=5&sort_key=name&sort_dir=desc', b'\1mtu=1500&tags=a&fields=id&marker=x',
        b'\2fixed_ips=ip_address=10.0.0.5&device_id=x', b'\2id=a&id=b&admin_state_up=0')),
    Target('volume_queries', make_volume_queries, (
        b'limit=5&offset=1&sort=name:asc,size:desc&status=available', b'sort_key=id&sort_dir=asc&with_count=1',
        b'all_tenants=1&project_id=x&marker=y')),
    Target('metadata', make_metadata, (
        b'10.0.0.5\nGET /latest/meta-data/instance-id', b'10.0.0.6\nGET /openstack/latest/meta_data.json',
        b'10.0.0.5\nPUT /latest/api/token\nX-aws-ec2-metadata-token-ttl-seconds: 60',
        b'10.0.0.6\nGET /latest/meta-data/\nX-Instance-ID: x\nX-Instance-ID-Signature: y\nX-Tenant-ID: project-1',
        b'10.0.0.5\nGET /latest/user-data\nX-aws-ec2-metadata-token: AAAA\nX-Forwarded-For: 10.0.0.5',
        b'::ffff:10.0.0.5\nGET /openstack/content/0000'), refuses=()),
)
