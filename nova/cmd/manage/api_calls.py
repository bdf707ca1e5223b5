"""Operations of the compute API, called by a command in its own process: with all their checks, without HTTP."""
import io
import json


def ask(application, project, method, path, body, microversion='latest', query=''):
    """The JSON document that an operation answers with, None when it has none.

    :param application: nova.api.app.Application
    :param project: id of the project in whose name an administrator asks
    :param path: below the version
    :raises NovaException: the operation refuses the request, with its sentence
    """
    from nova import context
    from nova import exception

    data = json.dumps(body).encode()
    caller = context.RequestContext(project_id=project, roles=['admin', 'member', 'reader'], is_admin=True,
                                    user_id='nova-manage', overwrite=False)
    started = []
    answer = b''.join(application({
        'REQUEST_METHOD': method, 'SCRIPT_NAME': '', 'PATH_INFO': '/v2.1' + path, 'QUERY_STRING': query,
        'wsgi.url_scheme': 'http', 'HTTP_HOST': 'localhost', 'SERVER_NAME': 'localhost', 'SERVER_PORT': '80',
        'wsgi.input': io.BytesIO(data), 'CONTENT_LENGTH': str(len(data)), 'CONTENT_TYPE': 'application/json',
        'HTTP_OPENSTACK_API_VERSION': f'compute {microversion}', 'nova.context': caller},
        lambda status, headers: started.append(int(status[:3]))))
    document = json.loads(answer) if answer else None
    if started[0] >= 300:
        refusal = document.get('errors') or list(document.values())
        raise exception.NovaException(refusal[0].get('message') or refusal[0].get('detail'))
    return document
