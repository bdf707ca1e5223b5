"""Ports that a server gets and loses while it is there."""


class Interfaces:
    """The part of the compute's manager that plugs ports; mixed into it."""

    def attach_interface(self, ctx, instance, port_id, network_id, fixed_ip, tag):
        """Give the server a port and plug it: the port's VIF.

        :param port_id: of a port that the project has, or the id that one made in ``network_id`` gets
        :raises NetworkNotFound, PortNotFound, PortInUse, FixedIpInUse, NoMoreFixedIps, NetworkRequestInvalid,
                QuotaExceeded, VirtError: nothing of it stays
        """
        request = {'port_id': port_id, 'network_id': network_id, 'fixed_ip': fixed_ip, 'tag': tag}
        return self.queue.run(instance.uuid, self._attach_interface, ctx, instance, request)

    def _attach_interface(self, ctx, instance, request):
        with self.beside(ctx, instance, 'compute_attach_interface') as current:
            server = current.instance
            current.undo(self._give_back, ctx, server, request['port_id'])
            vif = self.network.attach_port(ctx, instance=server, request=request, attached_by=ctx.request_id,
                                           host=self.host)
            current.undo(self.driver.detach_interface, ctx, server, vif)
            self.driver.attach_interface(ctx, server, vif)
            current.ends(network_info=self._networks(ctx, server))
        return vif

    def _give_back(self, ctx, server, port_id):
        self.network.detach_port(ctx, instance_uuid=server.uuid, port_id=port_id, attached_by=ctx.request_id,
                                 host=self.host)

    def detach_interface(self, ctx, instance, port_id):
        """Unplug a port and take it back; done again after a crash it ends what was begun."""
        self.queue.submit(instance.uuid, self._detach_interface, ctx, instance, port_id)

    def _detach_interface(self, ctx, instance, port_id):
        with self.beside(ctx, instance, 'compute_detach_interface') as current:
            server = current.instance
            vif = self.network.find_port(ctx, instance_uuid=server.uuid, port_id=port_id, attached_by=None)
            for plugged in [vif] if vif else [vif for vif in server.network_info if vif['id'] == port_id]:
                self.driver.detach_interface(ctx, server, plugged)
            self.network.detach_port(ctx, instance_uuid=server.uuid, port_id=port_id, attached_by=None,
                                     host=self.host)
            current.ends(network_info=self._networks(ctx, server))

    def add_fixed_ip(self, ctx, instance, network_id):
        self.queue.submit(instance.uuid, self._change_addresses, ctx, instance, 'add', self._add_address,
                          {'network_id': network_id})

    def _add_address(self, ctx, instance_uuid, **asked):
        vifs = self.network.network_info(ctx, instance_uuid=instance_uuid)
        known = [ip['address'] for vif in vifs for subnet in vif['network']['subnets'] for ip in subnet['ips']]
        self.network.add_address(ctx, instance_uuid=instance_uuid, known=known, **asked)

    def remove_fixed_ip(self, ctx, instance, address):
        self.queue.submit(instance.uuid, self._change_addresses, ctx, instance, 'remove',
                          self.network.remove_address, {'address': address})

    def _change_addresses(self, ctx, instance, verb, change, asked):
        with self.beside(ctx, instance, f'compute_{verb}_fixed_ip') as current:
            change(ctx, instance_uuid=instance.uuid, host=self.host, **asked)
            current.ends(network_info=self._networks(ctx, current.instance))

    def abandon_fixed_ip(self, ctx, instance, network_id):
        """What had begun when this service stopped is not begun twice: the server shows the addresses that it has."""
        self.queue.submit(instance.uuid, self._abandon_fixed_ip, ctx, instance)

    def _abandon_fixed_ip(self, ctx, instance):
        with self.beside(ctx, instance, 'compute_add_fixed_ip') as current:
            current.ends(network_info=self._networks(ctx, current.instance))
            current.fails('The service was restarted while the address was being added.')

    def abandon_interface(self, ctx, instance, port_id, **_asked):
        """Take back what an attachment had begun when this service stopped: its caller was told that it failed."""
        self.queue.submit(instance.uuid, self._abandon_interface, ctx, instance, port_id)

    def _abandon_interface(self, ctx, instance, port_id):
        with self.beside(ctx, instance, 'compute_attach_interface') as current:
            server = current.instance
            vif = self.network.find_port(ctx, instance_uuid=server.uuid, port_id=port_id,
                                         attached_by=ctx.request_id)
            if vif:
                self.driver.detach_interface(ctx, server, vif)
                self._give_back(ctx, server, port_id)
            current.ends(network_info=self._networks(ctx, server))
            current.fails('The service was restarted while the port was being attached.')
