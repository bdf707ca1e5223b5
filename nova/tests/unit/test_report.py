"""The Guru Meditation Report tells what a process does."""
import types

from nova import conf as nova_conf
from nova.runtime.diagnostics import report


class Broken:
    def in_progress(self):
        raise ValueError('canary')


class Busy:
    def in_progress(self):
        return {'servers with a task': 3}


def part(binary, manager):
    return types.SimpleNamespace(binary=binary, host='host1', manager=manager)


def test_report_has_health_work_and_configuration(capfd):
    conf = nova_conf.new(files=[], database__connection='sqlite:////canary-secret')
    parts = [part('nova-work', Busy()), part('nova-broken', Broken()), part('nova-plain', object()), object()]
    report.write(conf, 'nova-test', parts, {'main loop': (True, {}), 'queue': (False, {'silent': 9})})
    out, err = capfd.readouterr()
    text = out + err
    for words in ('Guru Meditation', 'Package', 'Threads', 'Green Threads', 'nova health', 'main loop = well',
                  'not well', 'nova-work host1', 'servers with a task = 3', 'nova-plain host1', 'connection = ***',
                  'graceful_shutdown_timeout = '):
        assert words in text, words
    assert 'canary-secret' not in text and "ValueError('canary')" in text
