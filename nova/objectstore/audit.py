"""Audit records of the object store. A write is recorded after its transaction, not in it.

The store's index and the audit log are in different databases, so they cannot share a transaction.
"""
from collections.abc import Callable, Sequence
import logging
from wsgiref.types import WSGIEnvironment

from nova import context
from nova.db.audit import log

LOG = logging.getLogger(__name__)

Finish = Callable[[log.Record, int], None]          # (record, status code)


def record_of(environ: WSGIEnvironment, operation: str, path: tuple[str, str], sub: str | None) -> log.Record:
    """Create the record of a write. The caller of this function adds the user with ``record.asked_by``.

    :param operation: function name, used as action after ``objectstore:``
    :param path: bucket and key
    :param sub: query parameter that selects the operation
    """
    bucket, key = path
    route = '/{bucket}' + ('/{key}' if key else '') + (f'?{sub}' if sub else '')
    return log.Record(environ['REQUEST_METHOD'], route, 'objectstore:' + operation,
                      target_type='objects' if key else 'buckets', target_id=bucket, target_part=key or None,
                      remote_address=environ.get('REMOTE_ADDR'), request_id=environ['openstack.request_id'])


def caller(environ: WSGIEnvironment, user_id: str, project_id: str, roles: Sequence[str]) -> context.RequestContext:
    """Return the context of the signing user for the audit log."""
    return context.RequestContext(
        user_id=user_id, project_id=project_id, roles=list(roles), is_admin=False, overwrite=False,
        request_id=environ['openstack.request_id'], remote_address=environ.get('REMOTE_ADDR'))


def logged(record: log.Record, code: int) -> None:
    """Write a record to the service's log; used if the store has no access to the deployment's audit log."""
    record.ended(code, None)
    values = record.values
    LOG.info('Write: %s of %s %s by user %s of project %s from %s: %s, %s', values['action'], values['target_id'],
             values['target_part'] or '', values['user_id'], values['project_id'], values['remote_address'],
             values['outcome'], code)
