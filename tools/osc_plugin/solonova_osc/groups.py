"""openstack server policy group: server groups with several policies and metadata"""
from urllib import parse

from solonova_osc import calls

COLUMNS = ('id', 'name', 'policies', 'metadata', 'members')


class _Group:
    """Argument of the commands for one group."""

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        parser.add_argument('group', metavar='GROUP', help='id of the group')
        return parser

    def path(self, parsed_args):
        return f'{self.calls.groups()}/{parsed_args.group}'

    def metadata(self, parsed_args):
        return f'/os-server-groups/{parsed_args.group}/metadata'


class _Attributes:
    """Options with the attributes of a group."""

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        parser.add_argument('--policy', action='append', metavar='POLICY', help='policy of the group; repeatable')
        parser.add_argument('--property', action='append', metavar='KEY=VALUE', help='item of its metadata; repeatable')
        return parser

    def attributes(self, parsed_args):
        found = {'policies': parsed_args.policy, 'metadata': calls.pairs(parsed_args.property) or None}
        return {name: value for name, value in found.items() if value is not None}


class List(calls.Lister):
    """List the server groups of the project."""

    def take_action(self, parsed_args):
        return calls.table(COLUMNS, self.calls('GET', self.calls.groups())['groups'])


class Show(_Group, calls.ShowOne):
    """Show a server group."""

    def take_action(self, parsed_args):
        return calls.one(self.calls('GET', self.path(parsed_args))['group'])


class Create(_Attributes, calls.ShowOne):
    """Create a server group; all of its policies must hold."""

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        parser.add_argument('name', metavar='NAME')
        return parser

    def take_action(self, parsed_args):
        body = {'name': parsed_args.name, **self.attributes(parsed_args)}
        return calls.one(self.calls('POST', self.calls.groups(), {'group': body})['group'])


class Set(_Attributes, _Group, calls.ShowOne):
    """Change a server group; its policies only while it has no members. Other items of its metadata stay."""

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        parser.add_argument('--name', metavar='NAME', help='new name')
        return parser

    def take_action(self, parsed_args):
        body = self.attributes(parsed_args) | ({'name': parsed_args.name} if parsed_args.name else {})
        if 'metadata' in body:
            self.calls('POST', self.metadata(parsed_args), {'metadata': body.pop('metadata')})
        if not body:
            return calls.one(self.calls('GET', self.path(parsed_args))['group'])
        return calls.one(self.calls('PUT', self.path(parsed_args), {'group': body})['group'])


class Unset(_Group, calls.Command):
    """Remove items from the metadata of a server group."""

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        parser.add_argument('--property', action='append', required=True, metavar='KEY',
                            help='key of the item; repeatable')
        return parser

    def take_action(self, parsed_args):
        for key in parsed_args.property:
            self.calls('DELETE', f'{self.metadata(parsed_args)}/{parse.quote(key, safe="")}')


class Delete(_Group, calls.Command):
    """Delete a server group."""

    def take_action(self, parsed_args):
        self.calls('DELETE', self.path(parsed_args))
