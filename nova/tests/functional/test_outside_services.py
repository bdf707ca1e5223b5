"""Services and managers that are written outside of this tree: the example, in process and over RPC."""
import os
import pathlib
import signal
import subprocess
import sys
import textwrap
import threading

import pytest
import requests

from nova import conf as nova_conf
from nova import context
from nova import exception
from nova import manager
from nova import service
from nova.rpc import bus as rpc_bus
from nova.rpc import inprocess
from nova.tests.functional import cloud as clouds
from nova.tests.support import outside_services
from nova.tests.support.outside_services import COUNTER

CounterManager = outside_services.CounterManager


class OwnTasks(manager.Manager):
    """One that orders its tasks itself."""

    def __init__(self, **collaborators):
        super().__init__(**collaborators)
        self.ran = threading.Event()

    def periodic_tasks(self, context, raise_on_error=False):
        self.ran.set()


@pytest.fixture(scope='module')
def cloud(tmp_path_factory):
    with clouds.running(tmp_path_factory.mktemp('outside') / 'state', hosts=['host1']) as made:
        yield made


@pytest.fixture
def conf(cloud, tmp_path):
    def made(*lines):
        file = tmp_path / 'nova.conf'
        file.write_text('\n'.join(['[DEFAULT]', f'transport_url = {inprocess.SCHEME}:///{cloud.state_path}',
                                   f'state_path = {cloud.state_path / "outside"}', 'host = elsewhere',
                                   'report_interval = 1', *lines]))
        return nova_conf.new(['--config-file', str(file)])
    return made


def listed(cloud, binary):
    return [row for row in cloud.admin('2.104').get('/os-services').json()['services'] if row['binary'] == binary]


def test_service_runs_the_configured_manager(cloud, conf):
    """Its hooks come in order, it is listed, takes messages, runs its tasks and cleans up."""
    made = service.Service.create(binary='nova-counter',
                                  conf=conf(f'counter_manager = {CounterManager.__module__}.CounterManager'))
    bus = rpc_bus.Bus(made.conf)
    try:
        assert type(made.manager) is CounterManager and made.topic == 'counter' and made.manager.host == 'elsewhere'
        assert made.manager.calls == [] and listed(cloud, 'nova-counter') == []
        made.start()
        assert made.manager.calls == ['init_host', 'pre_start_hook', ('post_start_hook', 0)]
        client, caller = bus.client(COUNTER), context.admin_context()
        assert client.add(caller, number=3) == 3
        assert client.add(caller, number=4, server='elsewhere') == 7
        assert not hasattr(client, 'report')
        assert made.manager.ran.wait(120)
        assert [(row['host'], row['state']) for row in listed(cloud, 'nova-counter')] == [('elsewhere', 'up')]
        assert all(well for well, _details in made.alive().values())
        made.periodic_tasks()
        assert made.manager.calls[-1] == 'seldom'
        with pytest.raises(exception.Unsupported, match='openstack compute service delete'):
            made.kill()
    finally:
        assert made.stop(10) is True
        bus.close()
    assert made.manager.calls[-1] == 'cleanup_host'


def test_tasks_by_the_arguments_of_create(conf):
    """None when they are off; so far apart at most; the first one after a random time; by a method of the manager."""
    off = service.Service.create(binary='nova-counter', manager=CounterManager, periodic_enable=False, conf=conf())
    off.start()
    off.stop(10)
    assert not off.manager.ran.is_set()
    often = service.Service.create(binary='nova-own', manager=OwnTasks, periodic_interval_max=0.05, conf=conf())
    often.start()
    try:
        assert often.manager.ran.wait(120)
    finally:
        often.stop(10)
    late = service.Service.create(binary='nova-counter', manager=CounterManager, periodic_fuzzy_delay=36000,
                                  conf=conf())
    late.start()
    try:
        assert not late.manager.ran.wait(0.5)
    finally:
        late.stop(10)


def test_a_task_that_fails_lets_the_others_run():
    class Failing(manager.Manager):
        ran = False

        @manager.periodic_task
        def a_first(self, context):
            raise ValueError('of a task')

        @manager.periodic_task
        def b_second(self, context):
            self.ran = True

    made = Failing()
    made.periodic_tasks(context.admin_context())
    assert made.ran
    with pytest.raises(ValueError):
        made.periodic_tasks(context.admin_context(), raise_on_error=True)
    with pytest.raises(exception.InvalidInput):
        manager.periodic_task(spacing=0)


@pytest.mark.parametrize('given, sentence', [
    ({'binary': 'nova-nothing'}, 'nothing_manager'),
    ({'binary': 'nova-counter', 'manager': 'no.such.Manager'}, 'counter_manager: no.such.Manager could not be loaded'),
    ({'binary': 'nova-compute', 'manager': CounterManager}, 'compute is reserved for a service of the product'),
    ({'binary': 'nova-other', 'manager': CounterManager}, 'has the topic counter'),
    ({'binary': 'nova-counter', 'manager': CounterManager, 'report_interval': 77}, 'report_interval'),
    ({'binary': 'nova-counter', 'manager': 'CounterManager'}, 'neither the name of an entry point nor the path'),
])
def test_invalid_services_are_refused(conf, given, sentence):
    with pytest.raises(exception.NovaException, match=sentence):
        service.Service.create(conf=conf(), **given)


def test_several_workers_are_refused(conf):
    with pytest.raises(exception.InvalidInput, match='2 workers'):
        service.process_launcher().launch_service(object(), workers=2)
    with pytest.raises(exception.InvalidInput, match='No service'):
        service.process_launcher().wait()


class Loader:
    def load_app(self, name):
        def application(environ, start_response):
            start_response('200 OK', [('Content-Type', 'text/plain'), ('Content-Length', str(len(name)))])
            return [name.encode()]
        return application


def test_wsgi_application_comes_from_a_loader_or_a_paste_file(conf, tmp_path):
    paste = tmp_path / 'own-paste.ini'
    paste.write_text(f'[app:hello]\npaste.app_factory = {__name__}:hello\n')
    for made in (service.WSGIService('hello', Loader(), max_url_len=20, conf=conf()),
                 service.WSGIService('hello', max_url_len=20, conf=conf('[http]', f'paste_config = {paste}'))):
        made.start()
        try:
            url = f'http://{made.host}:{made.port}/'
            assert requests.get(url, timeout=10).text == 'hello'
            assert requests.get(url + 'x' * 20, timeout=10).status_code == 414
        finally:
            made.stop(5)
        made.wait()
    with pytest.raises(exception.InvalidInput, match='no standalone application nothing'):
        service.WSGIService('nothing', conf=conf('[http]', f'paste_config = {paste}'))
    with pytest.raises(exception.InvalidInput, match='cert_file'):
        service.WSGIService('hello', Loader(), use_ssl=True, conf=conf())


def hello(global_conf, **local):
    """The factory of the paste file."""
    return Loader().load_app('hello')


def test_outside_service_runs_as_a_daemon(tmp_path):
    """serve and wait: a process that a signal ends well."""
    script = tmp_path / 'daemon.py'
    script.write_text(textwrap.dedent('''
        import sys
        from nova.runtime import concurrency
        concurrency.setup()
        from nova import service
        from nova.tests.functional.test_outside_services import Loader

        class Said(service.WSGIService):
            def start(self):
                super().start()
                print(self.port, flush=True)

        service.serve(Said('hello', Loader()))
        sys.exit(service.wait())
    '''))
    root = pathlib.Path(service.__file__).parents[1]
    with subprocess.Popen([sys.executable, script, '--state-path', tmp_path], stdout=subprocess.PIPE, text=True,
                          stderr=subprocess.DEVNULL, env={**os.environ, 'PYTHONPATH': str(root)}) as process:
        try:
            port = int(process.stdout.readline())
            assert requests.get(f'http://127.0.0.1:{port}/', timeout=10).text == 'hello'
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0
        finally:
            process.kill()
