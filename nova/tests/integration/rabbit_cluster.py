"""Several RabbitMQ nodes of one cluster for a test."""
import concurrent.futures
import contextlib
import subprocess

from nova.tests.integration import servers


# Nodes that start at the same moment agree by a lock on which of them is the first. That one finds no other.
SETTINGS = '''cluster_formation.peer_discovery_backend = classic_config
cluster_formation.discovery_retry_limit = 2
cluster_formation.discovery_retry_interval = 200
'''


class Node(servers.RabbitMQ):
    """One node; it knows the others by the cookie that they share, and finds them at its first start."""

    def __init__(self, directory, cookie):
        super().__init__(directory)
        self._cookie = self._environment['RABBITMQ_ERLANG_COOKIE'] = cookie
        self.name = self._environment['RABBITMQ_NODENAME']

    def know(self, names):
        """Write down the names of all nodes, before the start."""
        (self.directory / 'rabbit.conf').write_text(SETTINGS + ''.join(
            f'cluster_formation.classic_config.nodes.{number} = {name}\n' for number, name in enumerate(names, 1)))

    def control(self, *words):
        """rabbitmqctl of this node; what it prints."""
        done = subprocess.run([self._control, '--node', self.name, '--erlang-cookie', self._cookie,
                               '--quiet', *words], env=self._environment,
                              cwd=self.directory, capture_output=True, text=True, timeout=600,
                              **servers._as('rabbitmq'))
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


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
        for node in nodes:
            node.know([each.name for each in nodes])
        with concurrent.futures.ThreadPoolExecutor(count) as pool:
            list(pool.map(Node.start, nodes))
        nodes[0].control('await_online_nodes', str(count))
        yield nodes


def url(nodes):
    """The transport URL that names them all."""
    return f'{servers.BUS}://' + ','.join(f'guest:guest@127.0.0.1:{node.port}' for node in nodes) + '/'
