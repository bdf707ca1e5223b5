"""Authorization of compute hosts at the network service: a host may change only ports of its servers.

``RIGHTS`` has the checks (rpc/admission.py) of each method of interface.py that hosts call. The host and project in a
message are not trusted: one SELECT reads the server's host and project from the cell database.
"""
from nova.db.engine import Database
from nova.db.servers import ownership
from nova.rpc import admission
from nova.rpc.admission import host_is_caller
from nova.rpc.admission import on_caller
from nova.rpc.admission import on_caller_or_deleted


def _own_project(call: admission.Call) -> None:
    """Replace the message's project by the stored project of the server."""
    call.arguments['instance'].project_id = on_caller(call).project_id


def _own_request(call: admission.Call) -> None:
    """Require that ``attached_by`` is the id of the request that the message belongs to."""
    if call.arguments.get('attached_by') != call.request_id:
        call.refuse('attached_by is not the id of the request')


def _plumbs(call: admission.Call) -> None:
    """Require that the server is on the calling host. ``host`` is this host, or the source of a move to this host."""
    server = on_caller(call)
    host = call.arguments.get('host')
    if host != call.host and not any(move['source_compute'] == host and move['dest_compute'] == call.host
                                     for move in server.moves):
        call.refuse(f'the message names host {host}, which is neither the caller nor the source of a move to it')


def _is_about_to_come(call: admission.Call) -> None:
    """Require that the caller is the destination of a running migration of the server."""
    if call.server is None or not any(move['dest_compute'] == call.host for move in call.server.moves):
        call.raise_not_on_host()


def _own_ports(call: admission.Call) -> None:
    """Require that ``host`` is the caller or None.

    NetworkManager.deallocate_for_instance checks each port, and reads the server only if a port is on another host.
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
    'unprepare_for_instance': (host_is_caller,),       # the SQL selects only ports that are about to move to the caller
    'network_info': (on_caller,),
    'unbind_ports': (host_is_caller,),                   # the SQL selects only ports on the calling host
    'report_host': (host_is_caller,),
    'host_state': (host_is_caller,),                   # returns only rows of the calling host
    'report_leases': (host_is_caller,),                # updates only addresses of ports on the calling host
    'refresh_ports': (admission.allow,),   # harmless: services only read the database again
}


def admission_of(cell_db: Database) -> admission.Admission:
    """Return the rpc.admission.Admission of a network service.

    :param cell_db: database of the cell of its hosts
    """
    def read(call: admission.Call, _kind: str) -> ownership.Server | None:
        with cell_db.reader() as conn:
            return None if call.uuid is None else ownership.server(conn, call.uuid)
    return admission.Admission('network', RIGHTS, read)
