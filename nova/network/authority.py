"""What a compute host may ask of a network service: ports and addresses of its own servers alone.

See rpc/admission.py; ``RIGHTS`` has a row for each method of interface.py that hosts call. Where the server is and
whose it is stand in the cell's database, one SELECT: what the message says of its project counts for nothing.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

from nova.db.servers import ownership
from nova.rpc import admission
from nova.rpc.admission import host_is_caller
from nova.rpc.admission import on_caller
from nova.rpc.admission import on_caller_or_deleted

if TYPE_CHECKING:
    from nova.db.engine import Database


def _own_project(call: admission.Call) -> None:
    """The networks, groups and ports that may be used are those of the server's own project."""
    on_caller(call)
    call.arguments['instance'].project_id = call.server.project_id


def _own_request(call: admission.Call) -> None:
    """A port is attached in the name of the request that the message serves."""
    if call.arguments.get('attached_by') != call.request_id:
        call.refuse('it attaches a port in the name of another request')


def _plumbs(call: admission.Call) -> None:
    """Ports come to the caller with the server, or go back to the host that an evacuation has taken it from."""
    on_caller(call)
    host = call.arguments.get('host')
    if host != call.host and not any(move['source_compute'] == host and move['dest_compute'] == call.host
                                     for move in call.server.moves):
        call.refuse(f'it speaks for host {host}')


def _is_about_to_come(call: admission.Call) -> None:
    """The caller is the destination of a move of the server that goes on."""
    if call.server is None or not any(move['dest_compute'] == call.host for move in call.server.moves):
        call.raise_not_on_host()


def _own_ports(call: admission.Call) -> None:
    """All ports of a server of the caller; of any other those that are on the caller: the statement has its name.

    Most servers' ports are where the server is, so that the statement alone decides: see deallocate_for_instance.
    """
    if call.arguments.get('host') not in (None, call.host):
        host_is_caller(call)


RIGHTS = {
    'allocate_for_instance': (host_is_caller, _own_project),
    'deallocate_for_instance': (_own_ports,),
    'attach_port': (host_is_caller, _own_request, _own_project),
    'find_port': (on_caller,),
    'detach_port': (host_is_caller, on_caller_or_deleted),
    'add_address': (host_is_caller, on_caller),
    'remove_address': (host_is_caller, on_caller),
    'setup_for_instance': (_plumbs,),
    'prepare_for_instance': (host_is_caller, _is_about_to_come),
    'unprepare_for_instance': (host_is_caller,),       # ports that expect the caller
    'network_info': (on_caller,),
    'leave_host': (host_is_caller,),                   # ports that are on the caller
    'report_host': (host_is_caller,),
    'host_state': (host_is_caller,),                   # rows of ports and routers that are on the caller
    'report_leases': (host_is_caller,),                # of addresses that ports on the caller have
    'refresh_security': (admission.allow,),   # a look at what the database says
}


def admission_of(cell_db: Database) -> admission.Admission:
    """The rpc.admission.Admission of a network service.

    :param cell_db: Database of the cell whose hosts it serves
    """
    def read(call: admission.Call, _kind: str) -> ownership.Server | None:
        with cell_db.reader() as conn:
            return ownership.server(conn, call.uuid)
    return admission.Admission('network', RIGHTS, read)
