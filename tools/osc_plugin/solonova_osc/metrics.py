"""openstack compute metrics show, openstack server metrics show"""
import datetime

from solonova_osc import calls


class Show(calls.Lister):
    """List the metrics of the API process that answers."""

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        parser.add_argument('--name', metavar='PREFIX', default='', help='metrics whose names begin with it')
        return parser

    def take_action(self, parsed_args):
        samples = [sample for metric in self.calls('GET', '/os-metrics')['metrics'] for sample in metric['samples']
                   if sample['name'].startswith(parsed_args.name)]
        return calls.table(('name', 'labels', 'value'), samples)


class ShowServer(calls.Lister):
    """List the usage of a server over time: CPU, memory, disk and network. Times without a measurement are left out."""

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        parser.add_argument('server', metavar='SERVER', help='name or id')
        parser.add_argument('--since', metavar='TIME', help='begin, such as 2026-01-01T00:00:00Z; default: an hour ago')
        parser.add_argument('--step', choices=('20', '120', '900'),
                            help='seconds of a row: they reach back an hour, a day and a week')
        parser.add_argument('--totals', action='store_true', help='only the sums since the server was first measured')
        return parser

    def take_action(self, parsed_args):
        found = self.calls('GET', f'/servers/{self.calls.id_of("server", parsed_args.server)}/os-metrics',
                           since=parsed_args.since, step=parsed_args.step)['metrics']
        if parsed_args.totals:
            return calls.table(('name', 'total'), [{'name': name, 'total': total}
                                                   for name, total in found['totals'].items()])
        begin = datetime.datetime.fromisoformat(found['since'])
        rows = [{'time': (begin + datetime.timedelta(seconds=found['step'] * place)).isoformat(),
                 **dict(zip(found['series'], values))}
                for place, values in enumerate(zip(*found['series'].values())) if any(
                    value is not None for value in values)]
        return calls.table(('time', *found['series']), rows)
