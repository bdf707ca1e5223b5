"""openstack instance category: administrative servers in projects"""
from solonova_osc import calls

PATH = '/os-instance-categories'
COLUMNS = ('id', 'name', 'description', 'default_image', 'default_flavor', 'requirements')


class _Category:
    """Argument of the commands for one category."""

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        parser.add_argument('category', metavar='CATEGORY', help='name or id of the category')
        return parser


class _Attributes:
    """Options with the attributes of a category."""

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        parser.add_argument('--description', metavar='TEXT')
        parser.add_argument('--image', metavar='IMAGE', help='id of the default image')
        parser.add_argument('--flavor', metavar='FLAVOR', help='id of the default flavor')
        parser.add_argument('--require', action='append', metavar='KEY=VALUE',
                            help='requirement of its hosts; repeatable')
        return parser

    def attributes(self, parsed_args):
        found = {'description': parsed_args.description, 'default_image': parsed_args.image,
                 'default_flavor': parsed_args.flavor, 'requirements': calls.pairs(parsed_args.require) or None}
        return {name: value for name, value in found.items() if value is not None}


class List(calls.Lister):
    """List the categories."""

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        parser.add_argument('--deleted', action='store_true', help='list deleted categories that are not purged')
        return parser

    def take_action(self, parsed_args):
        found = self.calls('GET', PATH, deleted='true' if parsed_args.deleted else None)
        return calls.table(COLUMNS, found['instance_categories'])


class Show(_Category, calls.ShowOne):
    """Show a category."""

    def take_action(self, parsed_args):
        return calls.one(self.calls('GET', f'{PATH}/{parsed_args.category}')['instance_category'])


class Create(_Attributes, _Category, calls.ShowOne):
    """Create a category."""

    def take_action(self, parsed_args):
        body = {'name': parsed_args.category, **self.attributes(parsed_args)}
        return calls.one(self.calls('POST', PATH, {'instance_category': body})['instance_category'])


class Set(_Attributes, _Category, calls.ShowOne):
    """Change attributes of a category."""

    def take_action(self, parsed_args):
        found = self.calls('PUT', f'{PATH}/{parsed_args.category}', {'instance_category': self.attributes(parsed_args)})
        return calls.one(found['instance_category'])


class Delete(_Category, calls.Command):
    """Delete a category without servers."""

    def take_action(self, parsed_args):
        self.calls('DELETE', f'{PATH}/{parsed_args.category}')


class Purge(_Category, calls.Command):
    """Remove a deleted category, so that its id is unknown."""

    def take_action(self, parsed_args):
        self.calls('POST', f'{PATH}/{parsed_args.category}/action', {'purge': None})
