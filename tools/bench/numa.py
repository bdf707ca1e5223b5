#!/usr/bin/env python3
"""Cost of the NUMA topologies of many hosts for a scheduler: reading them, following them, and one look at all.

usage: tools/bench/numa.py [--hosts 10000] [--changed 1000]
"""
import argparse
import dataclasses
import random
import time

from nova.hardware import fit
from nova.hardware import guest_request
from nova.hardware import usage
from nova.objects import numa
from nova.scheduler.resources import numa as tables

REPEAT = 9
LIMITS = fit.Overcommit(cpu_ratio=4.0)


def machine(cells=2, count=32, memory=131072):
    """Two sockets with 16 cores of two threads each."""
    return numa.HostTopology(tuple(numa.HostCell(
        id=number, cpuset=frozenset(range(number * count, (number + 1) * count)), memory=memory, socket=number,
        siblings=tuple(frozenset((number * count + core, number * count + core + count // 2))
                       for core in range(count // 2)),
        mempages=(numa.Pages(4, (memory - 65536) * 256), numa.Pages(2048, 32768)), distances={0: 10, 1: 21})
        for number in range(cells)))


def guest(vcpus=4, memory_mb=4096, **specs):
    specs = {'hw:' + name: value for name, value in (specs or {'cpu_policy': 'dedicated'}).items()}
    return guest_request.topology({'vcpus': vcpus, 'memory_mb': memory_mb, 'extra_specs': specs}, {})


def used(dice):
    """A host with some guests: one of a few sizes each, as in a cloud with a few flavors."""
    host = machine()
    for _ in range(dice.randrange(8)):
        found = fit.fit(host, guest(dice.choice((1, 2, 4))), LIMITS).topology
        host = usage.claim(host, found, LIMITS) if found else host
    return host


def unlike(number):
    """A host that is like no other."""
    host = machine()
    return dataclasses.replace(host, cells=tuple(dataclasses.replace(
        cell, memory_usage=number, pinned_cpus=frozenset(random.Random(number).sample(sorted(cell.cpuset), 8)))
        for cell in host.cells))


def measure(name, function, prepare=lambda: None):
    """Print the processor time of the quickest of some runs, in ms."""
    best = float('inf')
    for _ in range(REPEAT):
        prepare()
        began = time.thread_time()
        function()
        best = min(best, time.thread_time() - began)
    print(f'{name:60} {best * 1000:8.1f} ms')


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--hosts', type=int, default=10000)
    parser.add_argument('--changed', type=int, default=1000)
    options = parser.parse_args()
    dice = random.Random(1)
    kinds = [numa.text_of_host(used(dice)) for _ in range(200)]
    texts = [dice.choice(kinds) for _ in range(options.hosts)]
    limits = [LIMITS] * options.hosts
    known = tables.Cells(texts, limits)
    equal = {position: (dice.choice(kinds), LIMITS) for position in range(options.changed)}
    others = {position: (numa.text_of_host(unlike(position)), LIMITS) for position in range(options.changed)}
    forget = tables._of_text.cache_clear
    measure(f'{options.hosts} hosts read for the first time', lambda: tables.Cells(texts, limits), forget)
    measure(f'{options.changed} hosts changed, to states that others have', lambda: known.changed(equal))
    measure(f'{options.changed} hosts changed, each to a state of its own', lambda: known.changed(others), forget)
    measure(f'a look at {options.hosts} hosts: 4 pinned CPUs', lambda: known.mask(guest()))
    measure(f'a look at {options.hosts} hosts: two nodes, large pages',
            lambda: known.mask(guest(numa_nodes='2', mem_page_size='large')))
    host = numa.load_host(kinds[0])
    measure('a close look at one host', lambda: fit.fit(host, guest(), LIMITS))


if __name__ == '__main__':
    main()
