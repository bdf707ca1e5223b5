#!/usr/bin/env python3
"""Compares two ways of RabbitMQ to bring the answer of a call back: a queue of the caller, and direct reply-to.

usage: tools/bench/replies.py [--calls 2000] [--rounds 9] [--callers 8]

Starts a broker of its own. A service answers what comes; so many callers, each with a connection of its own, send a
call and wait for the answer, through a transient queue of their own or through the broker's pseudo-queue
amq.rabbitmq.reply-to (https://www.rabbitmq.com/docs/direct-reply-to). Both by the library amqp, with the same messages
and without confirmations, so that the difference is the way of the answer alone. Each round has both ways, in turns.
Prints for each the medians of a call's processor time in the broker and in this process, in microseconds, and of the
calls a second.
"""
import argparse
import pathlib
import statistics
import sys
import threading
import time

import amqp

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

PSEUDO_QUEUE = 'amq.rabbitmq.reply-to'
BODY = b'x' * 600                              # about what a small call of ours has


def connect(port):
    connection = amqp.Connection(f'127.0.0.1:{port}', 'guest', 'guest', virtual_host='/', heartbeat=0)
    connection.connect()
    return connection


class Service:
    """Answers each call to where it says, until it is closed."""

    QUEUE = 'calls'

    def __init__(self, port):
        self._connection = connect(port)
        self._channel = self._connection.channel()
        self._channel.queue_declare(self.QUEUE, auto_delete=True)
        self._channel.basic_consume(self.QUEUE, no_ack=True, callback=self._answer)
        self._ended = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _answer(self, message):
        self._channel.basic_publish(amqp.Message(message.body), exchange='', routing_key=message.properties['reply_to'])

    def _run(self):
        while not self._ended:
            try:
                self._connection.drain_events(timeout=1)
            except TimeoutError:
                continue

    def close(self):
        self._ended = True
        self._thread.join()
        self._connection.close()


class Caller:
    """Sends calls one after the other; their answers come to a queue of its own or directly."""

    def __init__(self, port, direct):
        self._connection = connect(port)
        self._channel = self._connection.channel()
        self._queue = (PSEUDO_QUEUE if direct else
                       self._channel.queue_declare('', exclusive=True, auto_delete=True).queue)
        self._answers = 0
        self._channel.basic_consume(self._queue, no_ack=True, callback=self._count)

    def _count(self, _message):
        self._answers += 1

    def call(self, count):
        for _ in range(count):
            wanted = self._answers + 1
            self._channel.basic_publish(amqp.Message(BODY, reply_to=self._queue), exchange='',
                                        routing_key=Service.QUEUE)
            while self._answers < wanted:
                self._connection.drain_events(timeout=30)

    def close(self):
        self._connection.close()


def measure(callers, calls, broker_s):
    """(microseconds in the broker and in this process for a call, calls a second)."""
    broker, own, begin = broker_s(), time.process_time(), time.perf_counter()
    threads = [threading.Thread(target=caller.call, args=(calls // len(callers),)) for caller in callers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wall = time.perf_counter() - begin
    return ((broker_s() - broker) / calls * 1e6, (time.process_time() - own) / calls * 1e6, calls / wall)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--calls', type=int, default=2000)
    parser.add_argument('--rounds', type=int, default=9)
    parser.add_argument('--callers', type=int, default=8)
    args = parser.parse_args()

    import fleet
    from nova.tests.integration import servers

    with servers.rabbitmq() as broker:
        service, pid = Service(broker.port), (broker.directory / 'pid').read_text().strip()
        ways = {'a queue of the caller': False, 'direct reply-to': True}
        callers = {way: [Caller(broker.port, direct) for _ in range(args.callers)] for way, direct in ways.items()}
        figures = {way: [] for way in ways}
        for number in range(args.rounds + 1):
            for way in sorted(ways, reverse=bool(number % 2)):
                found = measure(callers[way], args.calls, lambda: fleet.usage(pid)[0])
                if number:                             # the first round fills caches
                    figures[way].append(found)
        for way, rows in figures.items():
            in_broker, own, rate = (statistics.median(column) for column in zip(*rows, strict=True))
            print(f'{way:24} broker {in_broker:6.0f} us  callers and service {own:6.0f} us  {rate:6.0f} calls a second')
        for caller in (*callers['a queue of the caller'], *callers['direct reply-to'], service):
            caller.close()
    return 0


if __name__ == '__main__':
    sys.exit(main())
