"""Port bindings: the active binding, and an inactive binding on the destination host during a migration."""
import contextlib
from typing import Any
from urllib import parse

from nova import exception
from nova.context import RequestContext
from nova.network.neutron import claims
from nova.network.neutron import client
from nova.network.neutron import devices
from nova.network.neutron import documents
from nova.network.neutron.documents import Port
from nova.network.neutron import vifs

Document = dict[str, Any]
EXTENDED = 'binding-extended'             # Neutron's extension for several bindings of a port


class Bindings:
    """Changes port bindings with the service's credentials. A binding to a host also claims the port's resources.

    :param claimed: claims of ports on hosts
    """

    def __init__(self, neutron: client.Neutron, claimed: claims.Claims) -> None:
        self._neutron, self._claims = neutron, claimed

    def move(self, ctx: RequestContext, port: Port, host: str) -> Port:
        """Bind a port to a host: activate its inactive binding on the host, if any, and delete its other bindings.

        :raises PortBindingFailed: no agent can bind the port on the host, or the host lacks the requested resources
        """
        before = port.get('binding:host_id')
        # Neutron retries a failed binding if the host is set again
        failed = before == host and port.get('binding:vif_type') in vifs.UNBOUND
        if before != host or failed:
            left = port
            with self._claims.profile(ctx, port, host) as profile:
                port, waited = self._move(ctx, port, host, profile)
            if waited:  # not inside the block: there, an error would release the claim of the bound port
                self.forget_others(ctx, port)
            elif before and before != host:
                self._claims.release(ctx, left, before)
        vifs.check_bound(port, {'vif_type': port.get('binding:vif_type')}, host)
        return port

    def _move(self, ctx: RequestContext, port: Port, host: str, profile: Document) -> tuple[Port, bool]:
        """Bind the port to the host; return (port, whether an inactive binding was activated)."""
        missing, before = exception.PortNotFound(port_id=port['id']), port.get('binding:host_id')
        if before and before != host and self._inactive_binding(ctx, port, host):
            self._activate(ctx, port, host)
            return self._neutron.show(ctx, documents.PORTS, port['id'], missing), True
        if before == host:
            self._neutron.update(ctx, documents.PORTS, port['id'], {'binding:host_id': ''}, missing)
        return self._neutron.update(ctx, documents.PORTS, port['id'], {
            'binding:host_id': host, 'binding:profile': profile}, missing), False

    def prepare(self, ctx: RequestContext, port: Port, host: str) -> documents.Binding:
        """Create an inactive binding of the port on the migration's destination host.

        Without the extension binding-extended, ``move`` binds the port after the migration.
        """
        if port.get('binding:host_id') == host or EXTENDED not in self._neutron.extensions(ctx):
            return vifs.binding_of(port)
        found = self._inactive_binding(ctx, port, host)
        if found and found.get('vif_type') in vifs.UNBOUND:
            self.forget(ctx, port, host)
            found = None
        if not found:
            with self._claims.profile(ctx, port, host) as profile:
                found = self._neutron.create(ctx, documents.bindings_of(port["id"]), {
                    'host': host, 'vnic_type': port.get('binding:vnic_type') or 'normal', 'profile': profile},
                    exception.PortNotFound(port_id=port['id']))
        try:
            vifs.check_bound(port, found, host)
        except exception.PortBindingFailed:
            self.forget(ctx, port, host)
            raise
        return found

    def forget(self, ctx: RequestContext, port: Port, host: str) -> None:
        """Remove the inactive binding of a port on a host, if it exists."""
        if EXTENDED in self._neutron.extensions(ctx) and self._inactive_binding(ctx, port, host):
            self._delete(ctx, port, host)

    def forget_others(self, ctx: RequestContext, port: Port) -> None:
        """Remove all inactive bindings."""
        if EXTENDED not in self._neutron.extensions(ctx):
            return
        for found in self._of(ctx, port):
            if found['status'] != 'ACTIVE':
                self._delete(ctx, port, found['host'])

    def unbind(self, ctx: RequestContext, port: Port) -> None:
        """Unbind a port from its host, and remove claims and device from its binding profile."""
        self.forget_others(ctx, port)
        self._claims.release(ctx, port, port.get('binding:host_id') or '')
        kept = {name: value for name, value in vifs.profile(port).items()
                if name not in (vifs.ALLOCATION, *devices.KEYS)}
        changed = {} if kept == vifs.profile(port) else {'binding:profile': kept}
        self._neutron.update(ctx, documents.PORTS, port['id'], {'binding:host_id': '', **changed},
                             exception.PortNotFound(port_id=port['id']))

    def _of(self, ctx: RequestContext, port: Port) -> list[documents.Binding]:
        missing = exception.PortNotFound(port_id=port['id'])
        found: list[documents.Binding] = self._neutron.call(
            ctx, 'GET', f'/{documents.bindings_of(port["id"])}', missing)['bindings']
        return found

    def _inactive_binding(self, ctx: RequestContext, port: Port, host: str) -> documents.Binding | None:
        if EXTENDED not in self._neutron.extensions(ctx):
            return None
        return next((found for found in self._of(ctx, port) if found['host'] == host and found['status'] != 'ACTIVE'),
                    None)

    def _activate(self, ctx: RequestContext, port: Port, host: str) -> None:
        path = f'/ports/{port["id"]}/bindings/{_segment(host)}/activate'
        # an earlier request with a lost response may have activated the binding
        with contextlib.suppress(exception.PortBindingExists):
            self._neutron.call(ctx, 'PUT', path, exception.PortNotFound(port_id=port['id']))

    def _delete(self, ctx: RequestContext, port: Port, host: str) -> None:
        self._claims.release(ctx, port, host)
        with contextlib.suppress(exception.NotFound):
            self._neutron.call(ctx, 'DELETE', f'/ports/{port["id"]}/bindings/{_segment(host)}', exception.NotFound())


def _segment(host: str) -> str:
    """Quote a host name as a path segment."""
    return parse.quote(host, safe='')
