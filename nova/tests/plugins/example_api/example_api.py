"""An example of an API plugin: a resource, an action on servers, and hooks of the operations of servers."""
from nova import exception
from nova.api import extensions
from nova.web import params

ALIAS = 'example-notes'
CREATE = params.Object(params.Param('note', params.Object(params.Param('text', params.NAME, required=True)),
                                    required=True))


class NotesController(extensions.Controller):
    """Texts that are kept in this process."""

    def __init__(self):
        self._notes = []

    def index(self, req):
        return {'notes': [{'id': str(number)} for number in range(len(self._notes))]}

    @extensions.expects(body=CREATE, status=201, policy=f'os_compute_api:{ALIAS}:create')
    def create(self, req, body):
        self._notes.append(body['note']['text'])
        return {'note': {'id': str(len(self._notes) - 1), 'text': self._notes[-1]}}

    def show(self, req, id):
        if not id.isdigit() or int(id) >= len(self._notes):
            raise exception.NotFound()
        return {'note': {'id': id, 'text': self._notes[int(id)]}}

    @extensions.api_version('2.10', '2.19')
    def summary(self, req):
        return {'notes': len(self._notes)}

    @extensions.api_version('2.20')
    def summary(self, req):  # noqa: F811 (a version of the same operation)
        return {'summary': {'notes': len(self._notes)}}


class ServersController(extensions.Controller):
    """An action of servers."""

    @extensions.action('example-greet')
    @extensions.expects(status=202)
    def greet(self, req, id, body):
        return {'greeting': f'{body["example-greet"]["word"]}, {id}'}


class Notes(extensions.V3APIExtensionBase):
    """Notes of a project, as an example."""

    name, alias = 'ExampleNotes', ALIAS
    policies = ((f'os_compute_api:{ALIAS}', '@', 'Read notes.'),
                (f'os_compute_api:{ALIAS}:create', 'role:member', 'Write a note.'),
                (f'os_compute_api:{ALIAS}:discoverable', 'role:member', 'See the extension.'))

    def get_resources(self):
        return [extensions.ResourceExtension('example-notes', NotesController(),
                                             collection_actions={'summary': 'GET'})]

    def get_controller_extensions(self):
        return [extensions.ControllerExtension(self, 'servers', ServersController())]


class Hooks:
    """What the deployment wants of servers: a prefix of their names, and no rebuild."""

    def server_create(self, server, req):
        server['name'] = f'example-{server["name"]}'

    def server_update(self, server, req):
        if 'name' in server:
            server['name'] = f'example-{server["name"]}'

    def server_rebuild(self, server, req):
        raise exception.Forbidden('This deployment rebuilds no servers.')

    def server_resize(self, server, req):
        raise exception.Forbidden('This deployment resizes no servers.')
