"""openstack host maintenance: drain a host into its aggregate, and bring its servers back"""
from solonova_osc import calls

COLUMNS = ('host', 'status', 'message', 'counts', 'updated_at')


class _Host:
    """Options of the commands for one host."""

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        parser.add_argument('host', metavar='HOST', help='name of the compute host')
        parser.add_argument('--aggregate', required=True, metavar='AGGREGATE', help='name or id of its aggregate')
        return parser

    def path(self, parsed_args):
        return f'/os-aggregates/{self.calls.id_of("aggregate", parsed_args.aggregate)}'

    def show(self, parsed_args):
        found = self.calls('GET', f'{self.path(parsed_args)}/os-host-maintenance/{parsed_args.host}')
        return calls.one(found['os-host-maintenance'])

    def act(self, parsed_args, action):
        self.calls('POST', self.path(parsed_args) + '/action',
                   {f'os-host-maintenance:{action}': {'host': parsed_args.host}})
        return self.show(parsed_args)


class Start(_Host, calls.ShowOne):
    """Disable a host and move its servers to the other hosts of its aggregate."""

    def take_action(self, parsed_args):
        return self.act(parsed_args, 'start')


class Stop(_Host, calls.ShowOne):
    """Enable a host again and move its servers back."""

    def take_action(self, parsed_args):
        return self.act(parsed_args, 'stop')


class Show(_Host, calls.ShowOne):
    """Show the progress of a maintenance, with the reason of each server that stays."""

    def take_action(self, parsed_args):
        return self.show(parsed_args)


class ListHosts(calls.Lister):
    """List the maintenance of all hosts of an aggregate."""

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        parser.add_argument('--aggregate', required=True, metavar='AGGREGATE', help='name or id of the aggregate')
        return parser

    def take_action(self, parsed_args):
        ident = self.calls.id_of('aggregate', parsed_args.aggregate)
        found = self.calls('GET', f'/os-aggregates/{ident}/os-host-maintenance')
        return calls.table(COLUMNS, next(iter(found.values())))
