"""os-cloudpipe: VPN instances of projects, for administrators; requires [api] nova_network_resources.

A VPN instance is a server of a project with a certificate of nova-cert. Only administrators see it, because it has the
category ``instance_cat_vpn`` (nova/api/servers/category.py). nova/api/documents/removed.py has the routes and the
policy rule.
"""
import base64
import datetime
import ipaddress
import re
import typing

from cryptography import x509

from nova import context as nova_context
from nova import exception
from nova import states
from nova import utils
from nova.api import cell_queries
from nova.api.projects import known
from nova.api.request import Request
from nova.api.servers import category as server_category
from nova.db.placement import categories
from nova.db.projects import vpns
from nova.db.servers import instances
from nova.db.tables.rows import InstancesRow
from nova.json_types import JsonObject
from nova.vpn import script as vpn_script
from nova.web import params
from nova.web.params import Param


VERSION = '2.91'                 # microversion of the requests that create the server
GROUP_VERSION = '2.35'           # last microversion that creates security groups
ABANDONED_S = 120                # age after which a creation counts as abandoned: longer than any request
NAME = 'vpn-{}'
PROJECT_ID = '[A-Za-z0-9_-]{1,64}'
_CREATE = params.document('cloudpipe', Param('project_id', {'type': 'string', 'pattern': f'^{PROJECT_ID}$'}))
_CONFIGURE = params.document(
    'configure_project', Param('vpn_ip', params.STRING, required=True),
    Param('vpn_port', {'type': ['integer', 'string']}, required=True))


# ---- list ------------------------------------------------------------------------

def _index(req: Request) -> JsonObject:
    with req.services.api_db.reader() as conn:
        found = vpns.servers(conn, req.services.conf.instance_cat_vpn)
        endpoints = vpns.endpoints(conn)
    uuids = [row.instance_uuid for row in found]
    rows: dict[str, typing.Any] = {}
    for _cell, some in cell_queries.ask(req, lambda conn: instances.get_many(conn, uuids))[0] if uuids else ():
        rows |= some
    return {'cloudpipes': [view(rows[row.instance_uuid], endpoints.get(row.project_id)) for row in found
                           if row.instance_uuid in rows]}


def view(row: InstancesRow, endpoint: tuple[str, int] | None) -> JsonObject:
    """Return the view of a VPN instance.

    :param row: the server's row
    :param endpoint: configured (address, port), or None
    """
    internal, floating = _addresses(row)
    address, port = endpoint or (floating or internal, vpn_script.PORT if internal else None)
    state = {states.ACTIVE: 'running', states.BUILDING: 'pending'}.get(row['vm_state'], 'down')
    return {'project_id': row['project_id'], 'instance_id': row['uuid'], 'internal_ip': internal, 'public_ip': address,
            'public_port': port, 'state': state, 'created_at': utils.isotime(row['created_at'])}


def _addresses(row: InstancesRow) -> tuple[str | None, str | None]:
    """Return (fixed address, floating address) of IPv4; None if missing."""
    for vif in row['network_info'] or ():
        for subnet in vif['network']['subnets']:
            for ip in subnet['ips']:
                if ':' not in ip['address']:
                    floating = ip.get('floating_ips') or ()
                    return ip['address'], floating[0]['address'] if floating else None
    return None, None


# ---- create ----------------------------------------------------------------------

def _create(req: Request) -> JsonObject:
    """Create the VPN instance of a project, or return the existing one."""
    given = _CREATE.validate(req.body or {'cloudpipe': {}}, req.version)['cloudpipe']
    project_id = checked_project(given.get('project_id', req.project_id))
    known.check(req, project_id)
    return {'instance_id': run(req, project_id)}


def run(req: Request, project_id: str) -> str:
    """Return the UUID of the VPN instance of a project; create it if it does not exist.

    :raises Conflict: another request is creating the instance
    :raises BadRequest: image or flavor are not configured
    """
    found, now = _existing(req, project_id), utils.utcnow()
    if found is not None:
        return found
    if not req.services.api_db.run(vpns.begin, project_id, now, now - datetime.timedelta(seconds=ABANDONED_S)):
        raise exception.Conflict('Another request is creating the VPN instance of this project. Retry later.')
    try:
        return _existing(req, project_id) or _make(req, project_id)
    finally:
        req.services.api_db.run(vpns.end, project_id, now)


def _existing(req: Request, project_id: str) -> str | None:
    with req.services.api_db.reader() as conn:
        found = vpns.servers(conn, req.services.conf.instance_cat_vpn, project_id)
    return found[0].instance_uuid if found else None


def _make(req: Request, project_id: str) -> str:
    caller = nova_context.RequestContext(
        user_id=req.user_id, project_id=project_id, roles=list(req.context.roles), is_admin=True, overwrite=False,
        auth_token=req.context.auth_token, request_id=req.context.request_id)
    server = {'name': NAME.format(project_id)[:255], 'networks': 'auto',
              server_category.KEY: req.services.conf.instance_cat_vpn}
    if req.services.conf.vpn_image_id:
        server['imageRef'] = req.services.conf.vpn_image_id
    else:
        with req.services.api_db.reader() as conn:
            row = categories.find(conn, req.services.conf.instance_cat_vpn)
        if row is None or row['image_id'] is None:
            raise exception.BadRequest('The image of VPN instances is not configured: give the category '
                                       f'{req.services.conf.instance_cat_vpn} a default image, or set vpn_image_id.')
    server['security_groups'] = [{'name': 'default'}, {'name': _group(req, caller)}]
    server['user_data'] = base64.b64encode(_script(req, project_id).encode()).decode()
    return _asked(req, caller, VERSION, '/servers', {'server': server})['server']['id']


def _group(req: Request, caller: nova_context.RequestContext) -> str:
    """Return the ID of the security group that admits VPN clients; create group and rule if they do not exist.

    Existing rules for incoming packets are kept: administrators may have changed them.
    """
    name, networks = NAME.format(caller.project_id)[:255], req.services.networks
    found = next((row['id'] for row in networks.groups_of(caller).list(caller.project_id) if row['name'] == name), None)
    if found is None:
        made = _asked(req, caller, GROUP_VERSION, '/os-security-groups', {'security_group': {
            'name': name, 'description': 'Clients of the VPN instance'}})
        found = made['security_group']['id']
    rules = networks.security_group_rules(caller, [found])[found]
    if not any(rule['direction'] == 'ingress' for rule in rules):
        _asked(req, caller, GROUP_VERSION, '/os-security-group-rules', {'security_group_rule': {
            'parent_group_id': found, 'ip_protocol': 'udp', 'from_port': vpn_script.PORT, 'to_port': vpn_script.PORT,
            'cidr': '0.0.0.0/0'}})
    return found


def _script(req: Request, project_id: str) -> str:
    cert, context = req.services.cert, req.context
    made = cert.generate_vpn_cert(context, project_id=project_id)
    lists = re.findall('-----BEGIN X509 CRL-----.*?-----END X509 CRL-----\n',
                       cert.fetch_crl(context, project_id=project_id), re.DOTALL)
    revoked = sorted({entry.serial_number for text in lists for entry in x509.load_pem_x509_crl(text.encode())})
    return vpn_script.script(project_id, cert.fetch_ca(context, project_id=project_id), made['certificate'],
                             made['private_key'], revoked)


def _asked(req: Request, caller: nova_context.RequestContext, version: str, path: str, body: JsonObject,
           ) -> dict[str, typing.Any]:
    """Call another operation of the API on behalf of the project, and return the response document.

    :raises NovaException: the operation fails; message and code are kept
    """
    code, document = req.ask('POST', path, body, caller=caller, version=version)
    if code >= 400:
        refusal = next(iter(document.values())) if document else {}
        raise _REFUSALS.get(code, exception.NovaException)(refusal.get('message') or 'The request was refused.')
    return document


_REFUSALS = {400: exception.BadRequest, 403: exception.Forbidden, 404: exception.BadRequest, 409: exception.Conflict,
             503: exception.Unavailable}


# ---- endpoint ---------------------------------------------------------------------

def _configure(req: Request, id: str) -> None:
    if id != 'configure-project':
        raise exception.BadRequest(
            'Only the caller\'s project can be configured: use the path os-cloudpipe/configure-project.')
    given = _CONFIGURE.validate(req.body, req.version)['configure_project']
    address, port = endpoint(given['vpn_ip'], given['vpn_port'])
    req.services.api_db.run(vpns.configure, req.project_id, address, port)


def checked_project(project_id: str) -> str:
    """Check the format of a project ID.

    :raises BadRequest: the ID is malformed
    """
    if not re.fullmatch(PROJECT_ID, project_id):
        raise exception.BadRequest('The project ID is malformed.')
    return project_id


def endpoint(address: str, port: int | str) -> tuple[str, int]:
    """Convert (address, port) to their stored form.

    :raises BadRequest: a value is malformed
    """
    try:
        shown = str(ipaddress.ip_address(address))
    except ValueError:
        raise exception.BadRequest('The address of a VPN instance must be an IP address.') from None
    if not re.fullmatch('[0-9]{1,5}', str(port)) or not 0 < int(port) < 65536:
        raise exception.BadRequest('The port of a VPN instance must be a number from 1 to 65535.')
    return shown, int(port)


SERVED: dict[tuple[str, str], typing.Callable[..., JsonObject | None]] = {
    ('os-cloudpipe', 'GET'): _index, ('os-cloudpipe', 'POST'): _create, ('os-cloudpipe/{id}', 'PUT'): _configure}


def serve(req: Request, path: str, name: str, **parts: str) -> JsonObject | None:
    """Run an operation.

    :raises BadRequest, Conflict, QuotaExceeded, Unavailable: see the handlers
    """
    return SERVED[path, name](req, **parts)
