"""Notifications of what happens to servers: told by the conductor, which every task begins and ends at.

``TELLING`` says which methods an event belongs to; they are marked as ``observed`` where they are defined. Where
notifications are off that calls the method and nothing else. Where they are on, the method is surrounded: the rows
before, the method with its transactions, the rows after. What has changed nothing, because it came a second time, or
too late, tells nothing. What a host began and did not end, because it died, is told by whoever ends it: the reconciler
ends tasks with the same methods.
"""
import collections.abc
import dataclasses
import functools
import inspect
import typing

from nova import actions
from nova import exception
from nova import states
from nova import utils
from nova.conductor.cell_services import CellServices
from nova.conductor.cell_services import Context
from nova.conductor.servers.specs import RequestSpecs
from nova.conductor.told import Told
from nova.conf import audit_period
from nova.db.moves import migrations as server_migrations
from nova.db.placement import compute_nodes
from nova.db.servers import event_facts
from nova.db.servers import instance_actions
from nova.db.servers import usage
from nova.db.services import services
from nova.notify import events
from nova.notify import payloads
from nova.notify.events import END
from nova.notify.events import ERROR
from nova.notify.events import START
from nova.objects import faults


def _notification(action):
    row = actions.OF_RECORD.get(action.get('action'))
    return row and row.notification


# ---- tasks of hosts ----------------------------------------------------------

def _task_begun(told):
    name, host = actions.NOTIFICATION_OF_TASK.get(told.args['event']), told.args['owner'].partition(':')[2]
    if name is not None:
        told.tell(name, START, host)
    if name == 'delete':
        told.tell('shutdown', START, host)


def _task_ended(told):
    event, host, fault = (told.args.get(name) for name in ('event', 'host', 'fault'))
    if not told.changed or event == 'conductor_unshelve_instance':
        return
    name = actions.NOTIFICATION_OF_TASK.get(event)
    if event == 'conductor_reconcile':
        name = _notification(told.action())
    if fault:
        told.failed(name, host, fault)
    elif name is not None:
        told.tell(name, END, host)


def _stepped(told):
    """A server that leaves its host as soon as it is shelved does both in one task."""
    if told.changed and told.args['values'].get('task_state') == states.SHELVING_OFFLOADING:
        told.tell('shelve', END, told.before['host'])
        told.tell('shelve_offload', START, told.before['host'])


def _beside_begun(told):
    action = told.action(of_request=True)
    name = _notification(action)
    if name is not None:
        told.tell(name, START, told.args['host'], **_which(action))


def _beside_ended(told):
    action, error = told.action(of_request=True), told.args.get('error')
    name = _notification(action)
    if name is None:
        return
    if error is None:
        told.tell(name, END, told.args['host'], **_which(action))
        return
    fault = {'code': 500, 'message': error, 'details': f'NovaException: {error}\n{told.args.get("traceback") or ""}'}
    if ERROR in events.EVENTS['instance.' + name].phases:
        told.tell(name, ERROR, told.args['host'], fault=fault, **_which(action))
    told.notifier.publish(told.ctx, 'compute.exception', ERROR, payloads.failure(fault), told.args['host'])


def _which(action):
    """What of an action's arguments stands in payloads."""
    arguments = action.get('arguments') or {}
    return {**{name: arguments[name] for name in ('new_volume_id', 'share_id') if name in arguments},
            **arguments.get(instance_actions.TOLD, {})}


# ---- builds and deletions ----------------------------------------------------

def _not_built_there(told):
    """Before the next host is tried, whose beginning follows."""
    row = told.before
    if row and (row['vm_state'], row['host']) == (states.BUILDING, told.args['host']) and (
            row['task_state'] != states.DELETING):
        told.failed('create', told.args['host'], told.args['fault'])


def _not_built(told):
    if told.result:
        told.not_done('build_instances', told.args['fault'], states.ERROR)


def _on_host(told):
    """Whether its host was deleting the server."""
    return (told.action().get('owner') or '').startswith('compute:')


def _about_to_go(told):
    """The guest is gone, or there was none, or its host is down: then nobody has told of the beginning."""
    if told.before is None or told.before['vm_state'] == states.DELETED or told.before['host'] != told.args['host']:
        return
    if _on_host(told):
        told.tell('shutdown', END, told.args['host'])
    else:
        told.tell('delete', START, by=events.CONDUCTOR)


def _gone(told):
    if told.changed and told.after['vm_state'] == states.DELETED:
        there = _on_host(told)
        told.tell('delete', END, told.args['host'] if there else None, None if there else events.CONDUCTOR)


# ---- moves -------------------------------------------------------------------

def _step_sent(told):
    if told.args['method'] == 'prep_resize':
        told.tell('resize_prep', START, told.args['host'])


def _accepted(told):
    if told.migration['status'] == 'pre-migrating':
        told.tell('resize_prep', END, told.args['host'])


def _refused(told):
    if told.migration['status'] == 'pre-migrating' and told.migration['held_host'] == told.args['host']:
        told.tell('resize', ERROR, told.args['host'], fault=told.args['fault'])


def _step_ended(name):
    def tell(told):
        if told.changed:
            told.tell(name, END, told.args['host'])
    return tell


def _sent(told):
    if told.before['task_state'] == states.RESIZE_MIGRATING and told.changed:
        told.tell('resize', END, told.args['host'])


def _reverted(told):
    """A destination that failed is told when it has: of a server that comes back by itself nobody asked for that."""
    if told.changed and not told.migration['arguments'].get('fault'):
        told.tell('resize_revert', END, told.args['host'])


def _move_failed(told):
    if not told.changed:
        return
    if told.args['event'] == 'conductor_migrate_server':
        told.not_done('migrate_server', told.args['fault'], told.after['vm_state'])
    else:
        told.failed('resize', told.args['host'], told.args['fault'])


# ---- live migrations and evacuations -----------------------------------------

def _preparing(told):
    told.tell('live_migration_pre', START, told.migration['dest_compute'])


def _prepared(told):
    told.tell('live_migration_pre', END, told.migration['dest_compute'])


def _arriving(told):
    if not told.migration['swapped']:
        told.tell('live_migration_post', START, told.args['host'])


def _arrived(told):
    if not told.migration['swapped']:
        told.tell('live_migration_post', END, told.args['host'])


def _finishing(told):
    told.tell('live_migration_post_dest', START, told.args['row']['host'])


def _finished(told):
    if told.changed:
        told.tell('live_migration_post_dest', END, told.args['host'])
        if told.args['fault']:
            told.failed(None, told.args['host'], told.args['fault'])


def _checked(told):
    """Whether a live migration that is to be ended had found its destination."""
    return told.args['event'] != 'conductor_live_migrate_instance'


def _rolling_back(told):
    if _checked(told) and told.migration['status'] not in server_migrations.OVER:
        told.tell('live_migration_rollback', START, told.migration['source_compute'])


def _rolled_back(told):
    if told.migration['status'] in server_migrations.OVER:
        return
    fault = told.args.get('fault') or faults.fault(told.args['error'])
    if _checked(told):
        told.tell('live_migration_rollback', END, told.migration['source_compute'], fault=fault)
    else:
        told.not_done('migrate_server', fault, told.before['vm_state'])


def _evacuating(told):
    told.tell('rebuild_scheduled', None, row=told.args['row'])


def _not_evacuated(told):
    if (told.changed and told.before['task_state'] == states.REBUILDING and told.after['task_state'] is None
            and told.after['host'] == told.before['host'] and told.after['fault']):
        told.not_done('rebuild_server', told.after['fault'], told.after['vm_state'])


def _evacuation_failed(told):
    if told.changed:
        told.failed('rebuild', told.args['host'], told.args['fault'])


# ---- what is about no single server ------------------------------------------

def _audited(told):
    """Every server of the host in the period that has ended."""
    if not told.result:
        return
    begin, end = audit_period.last_completed(told.source.conf.instance_usage_audit_period, utils.utcnow())
    period = {'audit_period_beginning': begin, 'audit_period_ending': end}
    with told.source.cell_db.reader() as conn:
        for row in usage.on_host(conn, told.args['host'], begin, end):
            told.notifier.publish(told.ctx, 'instance.exists', None, row, told.args['host'], period=period,
                               **event_facts.attached(conn, row['uuid'], told.notifier))


def _reporting(told):
    """Whether the row of a service is still to be made."""
    named = {name: told.args[name] for name in ('host', 'binary')}
    if 'identity' in told.args or tuple(named.values()) not in told.source.services_told:
        with told.source.cell_db.reader() as conn:
            told.first = not services.list(conn, **named)
        told.source.services_told.add(tuple(named.values()))


def _reported(told):
    if told.first:
        with told.source.cell_db.reader() as conn:
            row = services.get(conn, told.result['uuid'])
        told.notifier.publish(told.ctx, 'service.create', None, row, row['host'], row['binary'])


def _measured(told):
    measured = [node for node in told.args['nodes'] if node.get('metrics')]
    if not measured:
        return
    with told.source.cell_db.reader() as conn:
        known = {row['node']: row for row in compute_nodes.by_host(conn, told.args['host'])}
    for node in measured:
        row = {**known.get(node['node'], {}), **node, 'host': told.args['host']}
        told.notifier.publish(told.ctx, 'metrics.update', None, row, told.args['host'])


# ---- rows --------------------------------------------------------------------

@dataclasses.dataclass(frozen=True)
class Row:
    """
    after   function of a Told, called when the method has ended well
    before  the same, called before it
    """

    after: typing.Callable | None = None
    before: typing.Callable | None = None


# name of an observed method -> what is told of it
TELLING = {
    'begin_task': Row(_task_begun), 'end_task': Row(_task_ended), 'update_instance': Row(_stepped),
    'leave_host': Row(_task_ended), 'begin_beside': Row(_beside_begun), 'end_beside': Row(_beside_ended),
    'reschedule_instance': Row(before=_not_built_there), 'fail_build': Row(_not_built),
    'instance_destroyed': Row(_gone, _about_to_go),
    '_send_step': Row(before=_step_sent), 'move_accepted': Row(_accepted), 'move_refused': Row(_refused),
    'move_sent': Row(_sent), 'move_finished': Row(_step_ended('resize_finish')),
    'move_confirmed': Row(_step_ended('resize_confirm')), 'move_reverted': Row(_reverted),
    'move_failed': Row(_move_failed),
    'prepare_live_migration': Row(_prepared, _preparing), 'live_migration_arrived': Row(_arrived, _arriving),
    '_send_finish': Row(before=_finishing), 'live_migration_finished': Row(_finished),
    '_over': Row(_rolled_back, _rolling_back),
    '_send_evacuation': Row(before=_evacuating), 'continue_evacuation': Row(_not_evacuated),
    'evacuation_finished': Row(_step_ended('rebuild')), 'evacuation_failed': Row(_evacuation_failed),
    'audit_instance_usage': Row(_audited), 'report_nodes': Row(_measured),
    'register_service': Row(_reported, _reporting), 'report_service': Row(_reported, _reporting),
}


class Notices:
    """What an observed method is told with."""

    def __init__(self, services: CellServices, specs: RequestSpecs) -> None:
        self.conf, self.cell_db, self.notifier, self.specs = services.conf, services.cell_db, services.notifier, specs
        self.services_told = set()

    def notify(self, ctx: Context, instance_uuid: str, event: str, phase: str, host: str) -> None:
        """See interface.py."""
        if self.notifier.on and f'instance.{event}' in events.EVENTS:
            try:
                told = Told(self, {'ctx': ctx, 'instance_uuid': instance_uuid})
                if told.before is not None:
                    told.tell(event, phase, host)
            except Exception:
                self.notifier.failed(event)


def observed(method: collections.abc.Callable) -> collections.abc.Callable:
    """Let a method of TELLING tell the ``notices`` of its object, where they are on."""
    name = method.__name__
    row, signature = TELLING[name], inspect.signature(method)

    @functools.wraps(method)
    def observing(self, *args, **kwargs):
        if not self.notices.notifier.on:
            return method(self, *args, **kwargs)
        arguments = dict(signature.bind(self, *args, **kwargs).arguments)
        del arguments['self']
        return _telling(self.notices, name, row, arguments, functools.partial(method, self, *args, **kwargs))
    return observing


def _telling(source, name, row, arguments, function):
    """Call a method, and tell of it; what goes wrong with telling stays there."""
    told = _attempt(source, name, lambda: Told(source, arguments))
    if told is not None and row.before is not None:
        _attempt(source, name, row.before, told)
    result = function()
    if told is not None:
        _attempt(source, name, _after, row, told, result)
    return result


def _after(row, told, result):
    told.ended(result)
    told.states()
    if row.after is not None:
        row.after(told)


def _attempt(source, name, function, *args):
    try:
        return function(*args)
    except exception.NotFound:                  # what it is about is gone: the method says so, or does nothing
        return None
    except Exception:
        source.notifier.failed(name)
        return None
