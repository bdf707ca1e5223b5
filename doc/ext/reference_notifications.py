"""The page of notifications, from the rows of nova/notify."""
import rst

from nova import actions
from nova.notify import events
from nova.notify import payloads

SAMPLES = '../../notification_samples'
INTRODUCTION = """
What is published, over oslo.messaging, where ``[oslo_messaging_notifications]`` has a driver;
:doc:`../admin/notifications` says how to switch it on. Each event has two forms. The versioned one has a payload with
a name, a version and the fields below; a new field raises the minor version, and consumers ignore fields that they do
not know. The older one, whose names begin with ``compute.`` for servers, is a flat dictionary.

Of an event with phases, ``start`` is sent when a host has begun, ``end`` when all is done and committed, ``error``
when it failed; an error has the priority ``ERROR``, all others ``INFO``. A task that fails sends
``compute.exception.error`` besides. The publisher is the service that it happened on: ``nova-compute:host1``, in the
older form ``compute.host1``.

The samples are of a run of all events through a whole cloud, which a test compares with them: names of fields
exactly, values in kind. Ids, times, addresses and keys in them are replaced.
"""


def page():
    lines = [*rst.heading('Notifications'), INTRODUCTION]
    lines += [*rst.heading('Events', '-'), *rst.table(
        ('Event', 'When', 'Payload', 'Older form'), [(
            rst.literal(row.name) + _phases(row.phases), row.when, rst.literal(row.payload), _older(row))
            for row in events.ROWS], '26 38 22 22')]
    lines += [*rst.heading('Never sent', '-'), 'Events that other implementations of the compute API send:',
              *rst.table(('Event', 'Why not'), [(rst.literal(name), rst.escaped(why))
                                                for name, why in events.NEVER.items()]),
              'Actions of which nothing but ``instance.update`` is sent:',
              *rst.table(('Action', 'Why'), [(rst.literal(name), rst.escaped(why))
                                             for name, why in actions.NO_EVENT_REASONS.items()])]
    lines += [*rst.heading('Payloads', '-'), *rst.table(
        ('Payload', 'Version', 'Fields'), [
            (rst.literal(name), payload.version, ', '.join(rst.literal(field) for field in sorted(payload.fields)))
            for name, payload in sorted(payloads.PAYLOADS.items())], '26 8 66')]
    return lines + _samples()


def _phases(phases):
    return '' if phases == events.ONCE else ' ' + ', '.join(f'``.{phase}``' for phase in phases)


def _older(row):
    if not row.legacy:
        return ''
    return rst.literal(row.legacy) + ('' if row.once else _phases(row.phases))


def _samples():
    lines = [*rst.heading('Samples', '-')]
    for event, folder in (('instance.create.end', ''), ('compute.instance.create.end', '/unversioned')):
        lines += [f'``{event}``:', '', f'.. literalinclude:: {SAMPLES}{folder}/{event.replace(".", "-")}.json',
                  '   :language: json', '']
    for title, folder, names in (
            ('All samples of the versioned form:', '', events.Event.types),
            ('All samples of the older form:', '/unversioned', events.Event.old_types)):
        lines += [title, '', ' '.join(f':download:`{name} <{SAMPLES}{folder}/{name.replace(".", "-")}.json>`'
                                      for row in events.ROWS for name in names(row)), '']
    return lines
