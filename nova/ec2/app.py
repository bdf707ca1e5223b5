"""The EC2 API: the query protocol over HTTP. It calls the cloud's services as the user who signed the request.

Steps of a request: signature → user → operation → policy → parameters → handler → XML. The API stores only ID numbers,
tags and EC2-specific resources.
"""
import functools
import logging
import typing
from wsgiref.types import StartResponse, WSGIEnvironment

from nova import context
from nova import exception
from nova import policy
from nova.db import engine
from nova.ec2 import absent
from nova.ec2 import calls
from nova.ec2 import dry_runs
from nova.ec2 import errors
from nova.ec2 import ids
from nova.ec2 import neutral
from nova.ec2 import operations
from nova.ec2 import protocol
from nova.ec2 import signing
from nova.ec2 import table
from nova.ec2 import unsupported
from nova.ec2 import xml_cache
from nova.json_types import JsonDocument
from nova.runtime import fairness
from nova.runtime import queues
from nova.runtime.http import priorities
from nova.web import bodies

LOG = logging.getLogger(__name__)

MAX_BODY = 256 * 1024               # bytes: enough for user data of 16 KiB, encoded twice, and 1,000 parameters
POLICY = 'ec2_api:{}'
PHRASES = {200: 'OK', 400: 'Bad Request', 401: 'Unauthorized', 403: 'Forbidden', 405: 'Method Not Allowed',
           412: 'Precondition Failed', 500: 'Internal Server Error', 503: 'Service Unavailable'}

S3_SCOPE = '/s3/aws4_request'       # credential scope of a signed S3 request
OF_S3 = errors.Ec2Error('InvalidRequest', 'This is the endpoint of EC2, but the request is for S3. The object store '
                        'has its own endpoint, with the type s3 in the catalog (AWS_ENDPOINT_URL_S3).', 403)


class Application:
    """WSGI application of the EC2 API.

    :param services: calls.Services
    :param api_db: nova.db.engine.Database of the API
    :param rules: policy.Policy
    :param region: name of the region
    :param url: public endpoint
    :param bundles: operations.Bundles; None: bundles are not supported
    :param own_network: see ``operations.Request``
    """

    def __init__(self, services: calls.Services, api_db: engine.Database, rules: policy.Policy, region: str,
                 url: str, bundles: operations.Bundles | None = None, own_network: bool = True) -> None:
        self._bundles, self._own_network = bundles, own_network
        self._services, self._api_db, self._rules, self._region, self._url = services, api_db, rules, region, url
        self._ids = ids.Ids(api_db)
        self._waits = fairness.ConcurrencyLimit(queues.EC2_WAITS, operations.MAX_WAITS)
        self._fragments = xml_cache.XmlCache()

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> list[bytes]:
        request_id = environ.setdefault('openstack.request_id', context.new_request_id())
        context.RequestContext(request_id=request_id, remote_address=environ.get('REMOTE_ADDR'), overwrite=True)
        try:
            if S3_SCOPE in environ.get('HTTP_AUTHORIZATION', ''):
                status, body = OF_S3.status, protocol.fault_of_s3(OF_S3, request_id)
            else:
                status, body = 200, self._serve(environ, request_id)
        except exception.ServiceBusy as error:
            busy = errors.Ec2Error('RequestLimitExceeded', error.message, 503)
            status, body = 503, protocol.fault(busy, request_id)
        except errors.Ec2Error as error:
            status, body = error.status, protocol.fault(error, request_id)
        except Exception:
            LOG.exception('EC2 request failed')
            failed = errors.Ec2Error('InternalError', 'An internal error has occurred.', 500)
            status, body = 500, protocol.fault(failed, request_id)
        start_response(f'{status} {PHRASES.get(status, "Error")}', [
            ('Content-Type', 'text/xml;charset=UTF-8'), ('Content-Length', str(len(body))),
            ('Cache-Control', 'no-store'), ('x-amzn-RequestId', request_id)])
        return [body]

    def _serve(self, environ: WSGIEnvironment, request_id: str) -> bytes:
        if environ['REQUEST_METHOD'] not in ('GET', 'POST'):
            raise errors.Ec2Error('InvalidAction', 'Requests must use GET or POST.', 405)
        try:
            raw = bodies.read(environ, MAX_BODY) if environ['REQUEST_METHOD'] == 'POST' else b''
        except exception.TooLarge:
            raise errors.Ec2Error('InvalidParameterValue', f'The request is larger than {MAX_BODY} bytes.') from None
        except (exception.UnsupportedContentEncoding, exception.BadRequest) as error:
            raise errors.Ec2Error('InvalidParameterValue', error.message, error.code) from None
        pairs = signing.pairs_of(environ, raw)
        signed = signing.signed_of(environ, raw, pairs)
        address = environ.get('REMOTE_ADDR') or ''
        user = self._services.user_of(signed, address)
        context.set_caller(user.user_id, user.project_id)
        priorities.join(environ, user.project_id)
        action = signed['params'].get('Action', '')
        if action == signing.WHO:
            return protocol.who(user.user_id, user.project_id, request_id)
        version = signed['params'].get('Version', protocol.VERSION)
        version = version if version.replace('-', '').isdigit() else protocol.VERSION
        if action in absent.OPERATIONS:
            return self._absent(action, pairs, request_id, version)
        row = table.OPERATIONS.get(action)
        if action in unsupported.OF:
            raise errors.unsupported(unsupported.OF[action])
        if row is None:
            raise _unknown(action)
        self._authorize(row, user)
        given = protocol.parse(row.name, pairs)
        dry = given.pop('DryRun', False)
        given = neutral.without(given, neutral.RULES.get(row.name, {}))
        neutral.refuse(row.name, given, row.takes | row.ignores)
        before_write = dry_runs.DryRun(self._rules, _context(self._rules, user)).stop if dry else None
        caller = calls.Caller(
            self._services, user, {'X-Openstack-Request-Id': request_id, 'X-Remote-Address': address}, before_write,
            functools.partial(priorities.rest, environ))
        req = operations.Request(caller, self._ids, self._api_db, self._region, self._url, request_id, self._bundles,
                                 self._waits, self._fragments, self._own_network)
        values = self._perform(row, req, typing.cast(operations.Given, given))
        if dry:
            raise dry_runs.would_have_succeeded()
        return protocol.answer(row.name, values, request_id, version)

    @staticmethod
    def _absent(action: str, pairs: signing.Pairs, request_id: str, version: str) -> bytes:
        """Return an operation's empty response (see absent.py); it reveals no data, so it has no policy rule."""
        if action not in protocol.service().operation_names:        # an older botocore lacks newer operations
            raise _unknown(action)
        given = protocol.parse(action, pairs)
        values = absent.described(action, given)
        if given.get('DryRun'):
            raise dry_runs.would_have_succeeded()
        return protocol.answer(action, values, request_id, version)

    def _authorize(self, row: operations.Operation, user: calls.User) -> None:
        target: dict[str, str | None] = {'project_id': user.project_id, 'user_id': user.user_id}
        if not self._rules.allows(_context(self._rules, user), POLICY.format(row.name), target):
            raise errors.Ec2Error('UnauthorizedOperation', f'You are not authorized to perform {row.name}.', 403)

    @staticmethod
    def _perform(row: operations.Operation, req: operations.Request, given: operations.Given) -> JsonDocument:
        try:
            return row.handler(req, given)
        except errors.ServiceRefused as answer:
            raise errors.of_service(answer, row.makes) from None


def _context(rules: policy.Policy, user: calls.User) -> context.RequestContext:
    caller = context.RequestContext(user_id=user.user_id, project_id=user.project_id, roles=list(user.roles),
                                    is_admin=None, overwrite=False)
    caller.is_admin = rules.is_admin(caller)
    return caller


def _unknown(action: str) -> errors.Ec2Error:
    return errors.Ec2Error('InvalidAction', f'The action {action[:64]!r} is not valid for this web service.')
