"""openstack compute metrics show"""
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
