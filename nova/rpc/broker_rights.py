"""Permissions of a host's broker user: its own queues, and messages to the services that a host calls.

RabbitMQ searches the expressions anywhere in a name, so each begins with ^ and ends with $. Replies go through the
default exchange, for which RabbitMQ cannot restrict the destination queues. See doc/source/admin/messages.rst.
"""
import dataclasses
import re

from nova.rpc import reply_names

SERVED = '(compute|network|network_agent)'  # topics of the queues that the services of a host consume
RANDOM = '[0-9a-f]{32}'


@dataclasses.dataclass(frozen=True)
class Rights:
    """Permissions of a broker user, as regular expressions.

    configure, write, read     names of exchanges and queues that the user may create, send to, and consume
    topic_write, topic_read    routing keys with which the user may send to the exchange, and bind queues
    """

    configure: str
    write: str
    read: str
    topic_write: str
    topic_read: str


def of_host(host: str, exchange: str) -> Rights:
    """Return the Rights of the broker user with which nova-compute and nova-network of a host connect."""
    name = re.escape(host)
    queues = rf'{SERVED}(\.{name})?|{SERVED}_fanout_{RANDOM}|reply_{re.escape(reply_names.prefix(host))}{RANDOM}'
    sources = rf'{re.escape(exchange)}|{SERVED}_fanout'
    return Rights(configure=f'^({sources}|{queues})$',
                  write=rf'^({re.escape(exchange)}|amq\.default|network_fanout|{queues})$',
                  read=f'^({sources}|{queues})$',
                  topic_write=rf'^(conductor|network|{SERVED}\.{name})$',
                  topic_read=rf'^{SERVED}(\.{name})?$')


def commands(user: str, host: str, exchange: str, virtual_host: str) -> list[list[str]]:
    """Return the argument lists of rabbitmqctl that grant a user these rights."""
    rights = of_host(host, exchange)
    return [['set_permissions', '-p', virtual_host, user, rights.configure, rights.write, rights.read],
            ['set_topic_permissions', '-p', virtual_host, user, exchange, rights.topic_write, rights.topic_read]]
