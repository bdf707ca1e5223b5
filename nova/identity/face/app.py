"""The HTTP face of the embedded identity service: Keystone's v3 API as far as common clients use it."""
import http.client
import logging

import webob

from nova import context
from nova import exception
from nova.db.audit import log
from nova.identity import auth
from nova.identity.face import handlers
from nova.identity.face import operations
from nova.identity.face import views
from nova.web import json_text

LOG = logging.getLogger(__name__)

MAX_BODY = 114688            # bytes


class Application:
    """WSGI application below ``/identity``.

    :param service: IdentityService
    :param uri: where clients reach this face, for WWW-Authenticate; None: the address on which the server was asked
    """

    def __init__(self, service, uri=None):
        self._service, self._uri = service, uri
        self._rows = {}
        for row in handlers.ROWS:
            parts = row.path.split('/')
            self._rows.setdefault(len(parts), []).append((row, parts))

    def __call__(self, environ, start_response):
        req = operations.Request(environ)
        # The lines that this thread logs belong to this request, not to the one before it.
        request_id = environ.setdefault('openstack.request_id', context.new_request_id())
        context.RequestContext(request_id=request_id, remote_address=environ.get('REMOTE_ADDR'), overwrite=True)
        try:
            reply = self._answer(req)
        except exception.FactorsMissing as missing:
            log.about(missing.user['id'])
            reply = operations.reply_of(views.receipt(missing), missing.code, [
                ('Openstack-Auth-Receipt', missing.sealed), ('WWW-Authenticate', auth.challenge(environ, self._uri))])
        except exception.NovaException as error:
            reply = self._fault(req, error.code, error.message, error.kwargs)
        except Exception:
            LOG.exception('The identity service failed at %s', req.method)
            reply = self._fault(req, 500, exception.NovaException.template)
        reply.vary = ('X-Auth-Token',)
        reply.headers['x-openstack-request-id'] = request_id
        return reply(environ, start_response)

    def _answer(self, req):
        row, parts = self._match(req)
        try:
            req.query = dict(req.GET)
        except UnicodeDecodeError:
            raise exception.BadRequest('The query is not valid UTF-8.') from None
        values = [*parts.values()]
        log.named(f'identity:{row.handler.__name__}', route=row.path, code=row.status,
                    target_type=row.path.split('/')[2] if values else row.path[4:],
                    target_id=values[0] if values else None, target_part='/'.join(values[1:]) or None)
        req.service = self._service
        rule = operations.RULES[row.rule]
        if rule is not None:
            req.caller = self._service.validate(req.headers.get('X-Auth-Token', ''))
            log.asked_by(req.caller)
            if not rule(req.caller, parts):
                raise exception.Forbidden('You are not authorized to perform the requested action.')
        if row.hashes:
            self._service.expect_room(req.remote_addr or '')         # before there is any work with it
        if row.body is not None:
            req.data = _body(req)
            row.body.check(req.data)
        result = row.handler(req, **parts)
        return result if isinstance(result, webob.Response) else operations.reply_of(result, row.status)

    def _match(self, req):
        try:
            path = req.path_info.rstrip('/')
        except UnicodeDecodeError:
            raise exception.NotFound() from None
        asked = path.split('/')
        methods = set()
        for row, parts in self._rows.get(len(asked), ()):
            if all(part == found or (part[:1] == '{' and found) for part, found in zip(parts, asked)):
                if req.method in (row.method, 'HEAD' if row.method == 'GET' else row.method):
                    values = {part[1:-1]: found for part, found in zip(parts, asked) if part[:1] == '{'}
                    if any('\0' in value for value in values.values()):
                        raise exception.NotFound()
                    return row, values
                methods.add(row.method)
        if methods:
            raise exception.MethodNotAllowed(allow=', '.join(sorted(methods)))
        raise exception.NotFound()

    def _fault(self, req, code, message, facts=None):
        error = {'code': code, 'message': message, 'title': http.client.responses[code]}
        reply = operations.reply_of({'error': error}, code)
        if code == 401:
            reply.headers['WWW-Authenticate'] = auth.challenge(req.environ, self._uri)
        if facts and 'retry_after' in facts:
            reply.headers['Retry-After'] = str(facts['retry_after'])
        if facts and 'allow' in facts:
            reply.headers['Allow'] = facts['allow']
        return reply


def _body(req):
    """The JSON document of a request."""
    if (req.content_length or 0) > MAX_BODY:
        raise exception.TooLarge(limit=MAX_BODY)
    text = req.body_file.read(MAX_BODY + 1)
    if len(text) > MAX_BODY:
        raise exception.TooLarge(limit=MAX_BODY)
    try:
        return json_text.parse(text)
    except ValueError:
        raise exception.BadRequest('The body is not valid JSON.') from None
