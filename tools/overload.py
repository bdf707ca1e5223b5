#!/usr/bin/env python3
"""Asks a fleet for several times as many servers as it can build, and looks what becomes of them.

usage: tools/overload.py [--computes 4] [--seconds 60] [--times 4] [--limit 100] [--spawn 2.0]

It measures how many servers a second the fleet builds, asks for so many times more for a while, and then waits. The
hosts are what is slow: each builds one guest at a time, and the fake driver takes its time for it, so that one machine
can ask for four times as much. Requests go out by the clock, whether those before are answered or not.

It fails (exit code 1) when an answer was other than 202, 429 or 503 with Retry-After, when a server ended in ERROR,
when an accepted server is not ACTIVE in the end, when a request after it is not answered as one before it, or when it
could not ask for as many as it should.
"""
import argparse
import collections
import concurrent.futures
import http.client
import json
import pathlib
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / 'bench'))
from fleet import Fleet

OPTIONS = '''
[DEFAULT]
max_concurrent_builds = 1
[api]
max_waiting_builds = {limit}
[fake]
delays = spawn:{spawn}
'''
CLIENTS = 100                # requests that may wait for their answers at once
POLL_INTERVAL_S = 0.5                 # between two looks how many servers wait
SENT = 0.95                 # part of the requests that must have gone out, or it was no overload
DRAIN_S = 600                # what was accepted must be built so long afterwards


class Overload:
    def __init__(self, fleet):
        self.fleet, self.wrong, self.waited = fleet, [], 0

    def say(self, text, **figures):
        print(f'{text:40}', '  '.join(f'{key} {value}' for key, value in figures.items()), flush=True)

    def drained(self, expected):
        """Seconds until all are ACTIVE."""
        begin = time.monotonic()
        while True:
            found = self.fleet.states()
            if found.get('error'):
                self.wrong.append(f'{found["error"]} servers are in ERROR')
                return time.monotonic() - begin
            if found.get('active', 0) >= expected:
                return time.monotonic() - begin
            if time.monotonic() - begin > DRAIN_S:
                self.wrong.append(f'of {expected} accepted servers: {found}')
                return DRAIN_S
            time.sleep(0.2)

    def sustainable(self, seconds):
        """Servers a second that are built when there are always some that wait."""
        line = 2 * self.fleet.computes
        status, _headers, data = self.fleet.create('warm', line)
        if status != 202:
            raise RuntimeError(data)
        self.drained(line)
        begin, count = time.monotonic(), line
        while time.monotonic() < begin + seconds:
            if self.fleet.states().get('building', 0) < line:
                status, _headers, data = self.fleet.create('rate', line)
                if status != 202:
                    raise RuntimeError(data)
                count += line
            time.sleep(0.05)
        built = self.fleet.states().get('active', 0) - line
        rate = built / (time.monotonic() - begin)
        self.drained(count)
        return max(rate, 0.5), count

    def press(self, rate, seconds):
        """Ask for so many servers a second; {status: answers}, and the slowest answer in seconds.

        ``self.waited`` is how many servers waited at most.
        """
        answers, slowest, lock = collections.Counter(), [0.0], threading.Lock()
        begin, over = time.monotonic(), threading.Event()

        def ask(number):
            due = begin + number / rate
            time.sleep(max(0, due - time.monotonic()))
            if time.monotonic() > begin + seconds:
                return
            try:
                status, headers, data = self.fleet.create(f'press-{number}')
            except (OSError, http.client.HTTPException) as error:
                status, headers, data = 'none', {}, repr(error)
            with lock:
                answers[status] += 1
                slowest[0] = max(slowest[0], time.monotonic() - due)
                if status not in (202, 429, 503):
                    self.wrong.append(f'{status}: {data[:200]!r}')
                elif status != 202 and not headers.get('Retry-After'):
                    self.wrong.append(f'{status} without Retry-After')

        def look():
            while not over.wait(POLL_INTERVAL_S):
                self.waited = max(self.waited, self.fleet.states().get('building', 0))
        looking = threading.Thread(target=look)
        looking.start()
        try:
            with concurrent.futures.ThreadPoolExecutor(CLIENTS) as clients:
                for _ in clients.map(ask, range(int(rate * seconds))):
                    pass
        finally:
            over.set()
            looking.join()
        requested = sum(answers.values())
        if requested < SENT * int(rate * seconds):
            self.wrong.append(f'{requested} servers were requested, not {int(rate * seconds)}: '
                              'the clients were too slow')
        return answers, slowest[0]

    def one(self):
        """Seconds from POST to ACTIVE of one server."""
        begin = time.monotonic()
        status, _headers, data = self.fleet.create('alone')
        if status != 202:
            self.wrong.append(f'afterwards: {status} {data[:200]!r}')
            return 0
        ident = json.loads(data)['server']['id']
        while (state := self.fleet.json('GET', f'/servers/{ident}')['server']['status']) != 'ACTIVE':
            if state == 'ERROR' or time.monotonic() > begin + 60:
                self.wrong.append(f'afterwards: a server is {state}')
                break
            time.sleep(0.05)
        return time.monotonic() - begin

    def run(self, seconds, times):
        rate, built = self.sustainable(min(20, seconds))
        self.say('sustainable', servers_per_s=round(rate, 1))
        alone = self.one()
        answers, slowest = self.press(rate * times, seconds)
        self.say(f'{times} times as many for {seconds} s', asked_per_s=round(sum(answers.values()) / seconds, 1),
                 **{f'answers_{status}': count for status, count in sorted(answers.items(), key=str)},
                 slowest_answer_s=round(slowest, 1), most_waiting=self.waited)
        drained = self.drained(built + 1 + answers[202])
        self.say('all that were accepted are ACTIVE', after_s=round(drained, 1),
                 error=self.fleet.states().get('error', 0))
        self.say('one server before and afterwards', before_s=round(alone, 2), after_s=round(self.one(), 2))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--computes', type=int, default=4)
    parser.add_argument('--seconds', type=int, default=60)
    parser.add_argument('--times', type=int, default=4)
    parser.add_argument('--limit', type=int, default=100, help='[api] max_waiting_builds')
    parser.add_argument('--spawn', type=float, default=2.0, help='seconds that the fake driver takes for a guest')
    args = parser.parse_args()
    with Fleet(args.computes, OPTIONS.format(limit=args.limit, spawn=args.spawn)) as fleet:
        fleet.flavor()
        test = Overload(fleet)
        test.run(args.seconds, args.times)
    for text in dict.fromkeys(test.wrong):
        print('WRONG:', text, file=sys.stderr)
    return 1 if test.wrong else 0


if __name__ == '__main__':
    sys.exit(main())
