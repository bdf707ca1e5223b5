#!/usr/bin/env python3
"""Measures what certificates add to the first start of an all-in-one: from the process's begin until it answers.

usage: tools/bench/first_start.py [--times 5] [--json]

Each start has an empty state directory and simulated guests. Plain and TLS take turns; the shortest of each counts,
which a busy machine disturbs least. Run it with the Python in which nova is installed.
"""
import argparse
import json
import pathlib
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from local_cloud import free_port

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = ('import sys; sys.path[:0] = [sys.argv.pop(1)]\n'
           'from nova.cmd.all import main; sys.argv[0] = "nova-all"; sys.exit(main())')
MOST_S = 120
MOST_WAIT_S = 0.5              # the address is taken before anybody serves: who waits there would be late
SCHEMES = {'plain': ('http', 'off'), 'tls': ('https', 'on')}
UNCHECKED = ssl._create_unverified_context()             # the question is whether it serves


def start_s(scheme: str, tls: str) -> float:
    """Seconds of one first start."""
    with tempfile.TemporaryDirectory() as directory:
        config, port = pathlib.Path(directory, 'nova.conf'), free_port()
        config.write_text(f'[http]\ntls = {tls}\n[identity]\npassword_hash_rounds = 4\n')
        begin = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, '-W', 'ignore', '-c', PROGRAM, str(ROOT), '--config-file', str(config), '--driver', 'fake',
             '--port', str(port), '--state-path', f'{directory}/state'], stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
        try:
            while not answers(f'{scheme}://127.0.0.1:{port}/healthcheck'):
                if process.poll() is not None or time.perf_counter() - begin > MOST_S:
                    sys.exit('nova-all does not serve.')
                time.sleep(0.01)
            return time.perf_counter() - begin
        finally:
            process.kill()
            process.wait()


def answers(url: str) -> bool:
    try:
        urllib.request.urlopen(url, timeout=MOST_WAIT_S, context=UNCHECKED if url.startswith('https') else None).close()
    except urllib.error.HTTPError:
        return False
    except OSError:
        return False
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--times', type=int, default=5)
    parser.add_argument('--json', action='store_true')
    given = parser.parse_args()
    found: dict[str, list[float]] = {name: [] for name in SCHEMES}
    for _ in range(given.times):
        for name, (scheme, tls) in SCHEMES.items():
            found[name].append(start_s(scheme, tls))
    least = {f'{name}_s': round(min(values), 3) for name, values in found.items()}
    least['added_s'] = round(least['tls_s'] - least['plain_s'], 3)
    print(json.dumps(least) if given.json else
          ', '.join(f'{name.removesuffix("_s")} {value:.3f} s' for name, value in least.items()))


if __name__ == '__main__':
    main()
