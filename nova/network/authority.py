"""Authorization of compute hosts at the network service: only ports and addresses of their own servers.

See rpc/admission.py; ``RIGHTS`` has a row for each method of interface.py that hosts call. The server's host and
project are read from the cell database with one SELECT: the message's project is not trusted.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

from nova.db.servers import ownership
from nova.rpc import admission
from nova.rpc.admission import here
from nova.rpc.admission import here_or_gone
from nova.rpc.admission import own_host

if TYPE_CHECKING:
    from nova.db.engine import Database


def _own_project(call: admission.Call) -> None:
    """Replace the message's project by the server's own."""
    here(call)
    call.arguments['instance'].project_id = call.server.project_id


def _own_request(call: admission.Call) -> None:
    """Require that a port is attached for the request that the message belongs to."""
    if call.arguments.get('attached_by') != call.request_id:
        call.refuse('attached_by is not the id of the request')


def _plumbs(call: admission.Call) -> None:
    """Require that ports move to the caller with the server, or back to the source host of an evacuation."""
    here(call)
    host = call.arguments.get('host')
    if host != call.host and not any(move['source_compute'] == host and move['dest_compute'] == call.host
                                     for move in call.server.moves):
        call.refuse(f'it names host {host}')


def _is_about_to_come(call: admission.Call) -> None:
    """Require that the caller is the destination of a running migration of the server."""
    if call.server is None or not any(move['dest_compute'] == call.host for move in call.server.moves):
        call.not_here()


def _own_ports(call: admission.Call) -> None:
    """Allow all ports of the caller's servers, and other servers' ports on the caller.

    In most calls all ports are on the caller, so the server need not be read: see deallocate_for_instance.
    """
    if call.arguments.get('host') not in (None, call.host):
        own_host(call)


RIGHTS = {
    'allocate_for_instance': (own_host, _own_project),
    'deallocate_for_instance': (_own_ports,),
    'attach_port': (own_host, _own_request, _own_project),
    'find_port': (here,),
    'detach_port': (own_host, here_or_gone),
    'add_address': (own_host, here),
    'remove_address': (own_host, here),
    'setup_for_instance': (_plumbs,),
    'prepare_for_instance': (own_host, _is_about_to_come),
    'unprepare_for_instance': (own_host,),       # ports that expect the caller
    'network_info': (here,),
    'leave_host': (own_host,),                   # ports on the caller
    'report_host': (own_host,),
    'host_state': (own_host,),                   # rows of ports and routers on the caller
    'report_leases': (own_host,),                # addresses of ports on the caller
    'refresh_security': (admission.anything,),   # rereads the database
}


def admission_of(cell_db: Database) -> admission.Admission:
    """Return the rpc.admission.Admission of a network service.

    :param cell_db: database of the cell of its hosts
    """
    def read(call: admission.Call, _kind: str) -> ownership.Server | None:
        with cell_db.reader() as conn:
            return ownership.server(conn, call.uuid)
    return admission.Admission('network', RIGHTS, read)
