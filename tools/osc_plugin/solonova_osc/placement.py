"""openstack server placement explain"""
import json

from osc_lib import exceptions

from solonova_osc import calls

COLUMNS = ('filter', 'passed', 'removed', 'reason')


class Explain(calls.Lister):
    """Show how a server would be placed: what each filter removes, and the chosen hosts. Nothing is changed."""

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        parser.add_argument('--server', metavar='SERVER', help='an existing server, which would be placed again')
        parser.add_argument('--file', metavar='FILE', help='JSON body of POST /servers')
        parser.add_argument('--image', metavar='IMAGE', help='image of a new server')
        parser.add_argument('--flavor', metavar='FLAVOR', help='flavor of a new server')
        parser.add_argument('--availability-zone', metavar='ZONE', help='zone of a new server')
        parser.add_argument('--hint', action='append', metavar='KEY=VALUE', help='scheduler hint; repeatable')
        return parser

    def take_action(self, parsed_args):
        found = self.calls('POST', '/os-scheduler/explain', self._body(parsed_args))['explanation']
        rows = [{**row, 'filter': row['name']} for row in found['filters']]
        rows += [{'filter': 'choice', 'passed': place['host'], 'reason': place['availability_zone']}
                 for place in found['choices']]
        if found['reason']:
            rows.append({'filter': 'no valid host', 'reason': found['reason']})
        return calls.table(COLUMNS, rows)

    def _body(self, parsed_args):
        if parsed_args.server:
            return {'server_id': self.calls.id_of('server', parsed_args.server)}
        if parsed_args.file:
            with open(parsed_args.file, encoding='utf-8') as file:
                return json.load(file)
        if not parsed_args.flavor:
            raise exceptions.CommandError('Give --server, --file, or --flavor with the other options of a new server.')
        server = {'name': 'explained', 'flavorRef': self.calls.id_of('flavor', parsed_args.flavor), 'networks': 'none'}
        if parsed_args.image:
            image = self.app.client_manager.sdk_connection.image.find_image(parsed_args.image, ignore_missing=False)
            server['imageRef'] = image.id
        if parsed_args.availability_zone:
            server['availability_zone'] = parsed_args.availability_zone
        body = {'server': server}
        if parsed_args.hint:
            body['os:scheduler_hints'] = calls.pairs(parsed_args.hint)
        return body
