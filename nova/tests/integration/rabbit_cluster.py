"""Several RabbitMQ nodes of one cluster for a test."""
import concurrent.futures
import contextlib
import subprocess

from nova.tests.integration import servers


class Node(servers.RabbitMQ):
    """One node; it knows the others by the cookie that they share."""

    def __init__(self, directory, cookie):
        super().__init__(directory)
        self._cookie = self._environment['RABBITMQ_ERLANG_COOKIE'] = cookie
        self.name = self._environment['RABBITMQ_NODENAME']

    def control(self, *words):
        """rabbitmqctl of this node; what it prints."""
        done = subprocess.run([self._control, '--node', self.name, '--erlang-cookie', self._cookie,
                               '--quiet', *words], env=self._environment,
                              cwd=self.directory, capture_output=True, text=True, timeout=600,
                              **servers._as('rabbitmq'))
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def join(self, other):
        for words in (('stop_app',), ('join_cluster', other.name), ('start_app',)):
            self.control(*words)


@contextlib.contextmanager
def cluster(count):
    """Started nodes of one cluster."""
    servers._program('rabbitmq-server')
    with contextlib.ExitStack() as stack:
        nodes = []
        for _ in range(count):
            node = Node(stack.enter_context(servers._directory('rabbitmq')), 'nova-test-cookie')
            stack.callback(node.stop)
            nodes.append(node)
        with concurrent.futures.ThreadPoolExecutor(count) as pool:
            list(pool.map(Node.start, nodes))
            list(pool.map(lambda node: node.control('await_startup'), nodes))
        for node in nodes[1:]:
            node.join(nodes[0])
        yield nodes


def url(nodes):
    """The transport URL that names them all."""
    return f'{servers.BUS}://' + ','.join(f'guest:guest@127.0.0.1:{node.port}' for node in nodes) + '/'
