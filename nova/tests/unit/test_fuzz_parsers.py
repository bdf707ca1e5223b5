"""Every parser of strangers' bytes for a moment, with a fixed seed; tools/fuzz/parsers.py does it for hours."""
import pytest

from nova.tests.fuzz import engine
from nova.tests.fuzz import targets

SECONDS = 0.8


@pytest.mark.parametrize('name', targets.TARGETS)
def test_parsers_raise_documented_errors_only(name, tmp_path):
    fuzz = engine.Fuzz(targets.TARGETS[name], str(tmp_path))
    findings = fuzz.run(SECONDS)
    assert not findings, '\n'.join(map(str, findings))
    assert fuzz.accepted, 'all seeds were refused'


def _fails(data):
    if data.startswith(b'loop'):
        while True:
            pass
    if data.startswith(b'grow'):
        return bytearray(64 << 20)
    raise {b'r': ValueError, b'e': KeyError}.get(data[:1], AssertionError)('x')


def test_fuzzer_finds_planted_errors(tmp_path):
    target = engine.Target('self', lambda _directory: _fails, (b'r',), refuses=(ValueError,), seconds=0.5)
    fuzz = engine.Fuzz(target, str(tmp_path))
    for data in (b'r', b'e2', b'e', b'a', b'loop'):
        fuzz.once(data)
    fuzz.count = engine.MEASURED
    fuzz.once(b'grow')
    found = {finding.what.partition(':')[0]: finding.data for finding in fuzz.findings.values()}
    assert found.pop('TooLong') == b'loop' and found.pop('KeyError') == b'e'
    assert found == {'AssertionError': b'a'} or b'grow' in found.values()
    assert len(fuzz.findings) == 4 and fuzz.accepted == 0


def test_the_same_seed_makes_the_same_inputs(tmp_path):
    seen = []
    for _ in range(2):
        inputs = []
        target = engine.Target('self', lambda _directory: inputs.append, (b'a=1,b=2', b'{"x": [1]}'))
        fuzz = engine.Fuzz(target, str(tmp_path), seed=7)
        for _ in range(300):
            fuzz.once(fuzz._next())
        seen.append(inputs)
    assert seen[0] == seen[1] and len(set(seen[0])) > 200
