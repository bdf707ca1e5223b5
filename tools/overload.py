#!/usr/bin/env python3
"""Asks a fleet for several times as many servers as it can build, and looks what becomes of them.

usage: tools/overload.py [--computes 4] [--seconds 60] [--times 4] [--limit 300]

It measures how many servers a second the fleet builds, asks for so many times more for a while, and then waits. It
fails (exit code 1) when an answer was other than 202, 429 or 503 with Retry-After, when a server ended in ERROR, when
an accepted server is not ACTIVE in the end, or when a request after it is not answered as one before it.
"""
import argparse
import collections
import json
import pathlib
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / 'bench'))
from fleet import Fleet

DELAYS = '[fake]\ndelays = spawn:{spawn}\n'
CLIENTS = 16
DRAIN_S = 600                # what was accepted must be built so long afterwards


class Overload:
    def __init__(self, fleet):
        self.fleet, self.wrong = fleet, []

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
        status, _headers, data = self.fleet.create('warm', 10)
        if status != 202:
            raise RuntimeError(data)
        self.drained(10)
        begin, count = time.monotonic(), 10
        while time.monotonic() < begin + seconds:
            if self.fleet.states().get('building', 0) < 20:
                status, _headers, data = self.fleet.create('rate', 20)
                if status != 202:
                    raise RuntimeError(data)
                count += 20
            time.sleep(0.05)
        built = self.fleet.states().get('active', 0) - 10
        rate = built / (time.monotonic() - begin)
        self.drained(count)
        return max(rate, 0.5), count

    def press(self, rate, seconds):
        """Ask for so many servers a second; {status: answers}, and the slowest answer in seconds."""
        answers, slowest, lock = collections.Counter(), [0.0], threading.Lock()
        begin, numbers = time.monotonic(), iter(range(int(rate * seconds)))

        def client():
            while True:
                with lock:
                    number = next(numbers, None)
                if number is None or time.monotonic() > begin + seconds:
                    return
                time.sleep(max(0, begin + number / rate - time.monotonic()))
                asked = time.monotonic()
                status, headers, data = self.fleet.create(f'press-{number}')
                with lock:
                    answers[status] += 1
                    slowest[0] = max(slowest[0], time.monotonic() - asked)
                    if status not in (202, 429, 503):
                        self.wrong.append(f'{status}: {data[:200]!r}')
                    elif status != 202 and not headers.get('Retry-After'):
                        self.wrong.append(f'{status} without Retry-After')
        threads = [threading.Thread(target=client) for _ in range(CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return answers, slowest[0], time.monotonic() - begin

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
        answers, slowest, took = self.press(rate * times, seconds)
        self.say(f'{times} times as many for {seconds} s', asked_per_s=round(sum(answers.values()) / took, 1),
                 **{f'answers_{status}': count for status, count in sorted(answers.items())},
                 slowest_answer_s=round(slowest, 1))
        drained = self.drained(built + 1 + answers[202])
        self.say('all that were accepted are ACTIVE', after_s=round(drained, 1),
                 error=self.fleet.states().get('error', 0))
        self.say('one server before and afterwards', before_s=round(alone, 2), after_s=round(self.one(), 2))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--computes', type=int, default=4)
    parser.add_argument('--seconds', type=int, default=60)
    parser.add_argument('--times', type=int, default=4)
    parser.add_argument('--limit', type=int, default=300, help='[api] max_waiting_builds')
    parser.add_argument('--spawn', type=float, default=1.0, help='seconds that the fake driver takes for a guest')
    args = parser.parse_args()
    options = f'\n[api]\nmax_waiting_builds = {args.limit}\n' + DELAYS.format(spawn=args.spawn)
    options += '[DEFAULT]\nmax_concurrent_builds = 2\n'
    with Fleet(args.computes, options) as fleet:
        fleet.flavor()
        test = Overload(fleet)
        test.run(args.seconds, args.times)
    for text in dict.fromkeys(test.wrong):
        print('WRONG:', text, file=sys.stderr)
    return 1 if test.wrong else 0


if __name__ == '__main__':
    sys.exit(main())
