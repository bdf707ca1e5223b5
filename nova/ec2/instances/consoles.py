"""EC2 operations for console output, screenshots and passwords of instances."""
import base64
import datetime

from nova.ec2 import errors
from nova.ec2 import operations
from nova.ec2 import protocol
from nova.ec2.instances import views
from nova.json_types import JsonDocument


def get_console_output(req: operations.Request, given: operations.Given) -> JsonDocument:
    server = views.one_of(req, given)
    answer = req.call('compute', 'POST', f'/servers/{server["id"]}/action', {'os-getConsoleOutput': {}})
    return {'InstanceId': req.ids.one('i', server['id']),
            'Timestamp': protocol.time(datetime.datetime.now(datetime.UTC)),
            'Output': base64.b64encode(answer['output'].encode()).decode()}


def get_console_screenshot(req: operations.Request, given: operations.Given) -> JsonDocument:
    """Return a screenshot.

    :raises Ec2Error: UnsupportedOperation: the server is not running or has no screen, or its host has no screenshots
    """
    server = views.one_of(req, given)
    if given.get('WakeUp'):
        raise errors.unsupported('WakeUp is not supported. Omit it.')
    with errors.OnStatus((409, 501), lambda refused: errors.unsupported(refused.message)):
        answer = req.call('compute', 'GET', f'/servers/{server["id"]}/os-console-screenshot')
    return {'InstanceId': req.ids.one('i', server['id']), 'ImageData': answer['screenshot']}


def get_password_data(req: operations.Request, given: operations.Given) -> JsonDocument:
    server = views.one_of(req, given)
    found = req.call('compute', 'GET', f'/servers/{server["id"]}/os-server-password')
    return {'InstanceId': req.ids.one('i', server['id']),
            'Timestamp': protocol.time(datetime.datetime.now(datetime.UTC)),
            'PasswordData': found['password']}


OPERATIONS = [
    operations.row('GetConsoleOutput', get_console_output, 'InstanceId', 'Latest'),
    operations.row('GetConsoleScreenshot', get_console_screenshot, 'InstanceId WakeUp'),
    operations.row('GetPasswordData', get_password_data, 'InstanceId'),
]
