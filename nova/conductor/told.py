"""What an event is told from: the call of a method, and the rows of its server before and after it."""
from nova import actions
from nova import context
from nova import exception
from nova.db.moves import migrations as server_migrations
from nova.db.servers import event_facts
from nova.db.servers import instance_actions
from nova.notify import events
from nova.notify import payloads
from nova.notify.events import ERROR


class Told:
    """One call of a method that events belong to.

    args       {name: value} of the call
    ctx        who it is done for
    uuid       of the server, None where it is about none
    before, after   the server's row; after: from the history when it was deleted
    actions    the server's open actions before
    migration  the row of the move before, None where it is about none
    first      True: a service reports that has no row
    source     what it is read with, a Notices
    """

    def __init__(self, source, arguments):
        self.source, self.args = source, arguments
        self.notifier = source.notifier
        self.before = self.after = self.migration = self.result = None
        self.actions, self.first = [], False
        with source.cell_db.reader() as conn:
            self.uuid = self._find(conn)
            if self.uuid is not None:
                self.before = event_facts.row(conn, self.uuid)
                self.actions = event_facts.open_actions(conn, self.uuid)
        self.ctx = self._asked(arguments.get('ctx'))

    def _asked(self, ctx):
        """Who it is done for; what a host says of that counts for nothing."""
        if ctx is None:
            return context.on_behalf_of(self.actions[-1]) if self.actions else context.admin_context()
        if ctx.sender_host is None or self.uuid is None:
            return ctx
        try:
            with self.source.cell_db.reader() as conn:
                return context.on_behalf_of(instance_actions.get(conn, self.uuid, ctx.request_id))
        except exception.InstanceActionNotFound:             # the host does it by itself
            return ctx

    def _find(self, conn):
        if 'migration_id' in self.args:
            self.migration = server_migrations.get(conn, self.args['migration_id'])
        elif 'migration' in self.args:
            self.migration = server_migrations.get(conn, self.args['migration']['id'])
        if self.migration is not None:
            return self.migration['instance_uuid']
        return self.args.get('instance_uuid') or self.args.get('uuid')

    def ended(self, result):
        self.result = result
        if self.uuid is not None:
            with self.source.cell_db.reader() as conn:
                self.after = event_facts.row(conn, self.uuid)

    @property
    def changed(self):
        """Whether the server is another one than before."""
        return None not in (self.before, self.after) and self.before['updated_at'] != self.after['updated_at']

    def action(self, of_request=False):
        """The open action: the main one, or that of the request; {} without one."""
        found = [row for row in self.actions
                 if (row['request_id'] == self.ctx.request_id and row['action'] in actions.BACKGROUND
                     if of_request else row['action'] not in actions.BACKGROUND)]
        return found[-1] if found else {}

    def tell(self, name, phase, host=None, by=None, row=None, **about):
        """An event of the server."""
        row = row or self.after or self.before
        arguments = self.action().get('arguments') or {}
        about = {'image_id': arguments.get('image_id'), **about,
                 **event_facts.read_attached(self.source.cell_db, self.uuid, self.notifier)}
        if self.migration is not None:
            about['new_flavor'] = self.migration['new_flavor']
        self.notifier.publish(self.ctx, 'instance.' + name, phase, row, host, by, **about)

    def failed(self, name, host, fault):
        """What a host was doing failed."""
        if name is not None and ERROR in events.EVENTS['instance.' + name].phases:
            self.tell(name, ERROR, host, fault=fault)
        self.notifier.publish(self.ctx, 'compute.exception', ERROR, payloads.failure(fault), host)

    def not_done(self, task, fault, state):
        """No host was found for it."""
        spec = self.source.specs.of([self.uuid]).get(self.uuid)
        self.notifier.publish(self.ctx, 'compute_task.' + task, ERROR, {'uuid': self.uuid}, fault=fault, state=state,
                           method=task, spec=spec and spec.as_dict())

    def states(self):
        """instance.update, when the state has changed as far as is configured."""
        if self.before and self.after and any(self.before[name] != self.after[name] for name in self.notifier.states):
            self.tell('update', None, by=events.CONDUCTOR, old_state=self.before['vm_state'],
                      old_task_state=self.before['task_state'])
