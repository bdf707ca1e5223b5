"""openstack compute event watch"""
import json
import time

from solonova_osc import calls


class Watch(calls.Command):
    """Print a line for each change of a server, until it is interrupted."""

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        parser.add_argument('--all-projects', action='store_true', help='servers of all projects (administrators)')
        parser.add_argument('--seconds', type=float, metavar='N', help='end after so many seconds')
        return parser

    def take_action(self, parsed_args):
        query = {'all_tenants': 1} if parsed_args.all_projects else {}
        end = None if parsed_args.seconds is None else time.monotonic() + parsed_args.seconds
        while end is None or time.monotonic() < end:         # a stream ends after five minutes; the next one goes on
            for line in self.calls.stream('/os-events', **query).iter_lines(decode_unicode=True):
                if line.startswith('id: '):
                    query['last_event_id'] = line[4:]
                elif line.startswith('data: ') and 'server' in (data := json.loads(line[6:])):
                    server = data['server']
                    task = server.get('OS-EXT-STS:task_state') or ''
                    self.app.stdout.write(f'{server["id"]}  {server["status"]:10}  {server["name"]}  {task}\n')
                    self.app.stdout.flush()
                if end is not None and time.monotonic() >= end:
                    return
