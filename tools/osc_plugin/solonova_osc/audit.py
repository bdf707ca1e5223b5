"""openstack compute audit list"""
from solonova_osc import calls

COLUMNS = ('created_at', 'user_id', 'action', 'target_id', 'outcome', 'code', 'reason')
FILTERS = ('user', 'project', 'action', 'target-type', 'target', 'outcome', 'request', 'since', 'until')
PARAMETERS = {'user': 'user_id', 'project': 'project_id', 'target-type': 'target_type', 'target': 'target_id',
              'request': 'request_id'}


class ListRecords(calls.Lister):
    """List the writes of the project, newest first."""

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        for name in FILTERS:
            parser.add_argument(f'--{name}', metavar=name.upper(), help=f'{name}: show only records with this value')
        parser.add_argument('--all-projects', action='store_true', help='records of all projects (administrators)')
        parser.add_argument('--limit', type=int, metavar='N', help='at most so many records')
        return parser

    def take_action(self, parsed_args):
        query = {PARAMETERS.get(name, name): getattr(parsed_args, name.replace('-', '_')) for name in FILTERS}
        if parsed_args.all_projects:
            query['all_projects'] = 'true'
        found = self.calls('GET', '/os-audit', limit=parsed_args.limit, **query)
        return calls.table(COLUMNS, found['audit_records'])
