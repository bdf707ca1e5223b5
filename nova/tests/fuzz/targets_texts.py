"""Texts that are read by themselves: JSON, XML, tokens, keys, what flavors and images ask for, what services send."""
import base64
import contextlib
import copy
import datetime
import random
import re

import orjson
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.hazmat.primitives.asymmetric import rsa

from nova import exception
from nova import objects
from nova.api import group_xml
from nova.api import versions
from nova.api.metadata import tokens as metadata_tokens
from nova.db.audit import records
from nova.hardware import guest_options
from nova.hardware import guest_request
from nova.hardware import pci_spec
from nova.identity import tokens
from nova.objects import keypair
from nova.rpc import serializer
from nova.tests.fuzz import mutations
from nova.tests.fuzz.engine import REFUSALS
from nova.tests.fuzz.engine import Target
from nova.web import json_text

NOW = datetime.datetime(2026, 11, 22, 6, 30, 0, 123456)


def _json(data: bytes, kind=None):
    """The value of a seed that was changed.

    :raises BadRequest: it is none, or not of this type: not what the target is about
    """
    with contextlib.suppress(ValueError):
        value = orjson.loads(data)
        if kind is None or isinstance(value, kind):
            return value
    raise exception.BadRequest('It is no JSON of this kind.')


# ---- JSON and XML -----------------------------------------------------------------

def make_json(_directory):
    def run(data: bytes) -> None:
        value = json_text.parse(data)
        # outside of strings, brackets alone tell the depth
        bare = re.sub(rb'"(?:[^"\\]|\\.)*"', b'', data)
        depth = deepest = 0
        for byte in bare:
            depth += (byte in b'[{') - (byte in b']}')
            deepest = max(deepest, depth)
        assert deepest <= json_text.MAX_DEPTH, f'{deepest} levels'
        assert orjson.loads(orjson.dumps(value)) == value
    return run


def json_changed(rng: random.Random, data: bytes) -> bytes:
    if rng.random() < 0.5:
        return mutations.document(rng, data)
    place, depth = rng.randrange(len(data) + 1), rng.choice((1, 31, 32, 33, 100, 1023, 1024, 1025, 100000))
    opening, closing = rng.choice(((b'[', b']'), (b'{"a":', b'}'), (b'[', b''), (b'"', b'"')))
    return data[:place] + opening * depth + data[place:] + closing * depth


def make_xml(_directory):
    def run(data: bytes) -> None:
        charset, _, raw = data.partition(b'\n')
        found = group_xml.to_json(raw, group_xml._charset(charset.decode('latin-1')))
        assert json_text.parse(orjson.dumps(found), 4 << 20) == found
        if set(found) == {'group'}:
            again = group_xml.to_json(group_xml.from_json(found))
            assert again == found, 'written and read again it is another group'
        assert group_xml._prefers_xml(raw.decode('latin-1')) in (True, False)
    return run


# ---- tokens, keys -----------------------------------------------------------------

def _changed_text(rng: random.Random, text: str) -> str:
    place = rng.randrange(len(text))
    kind = rng.randrange(5)
    if kind == 0:
        return text[:place] + chr(ord(text[place]) ^ 1 << rng.randrange(7)) + text[place + 1:]
    if kind == 1:
        return text[:place] + rng.choice('=-_+/ \t\n\r\0Aé') + text[place:]
    if kind == 2:
        return text[:place] + text[place + 1:]
    if kind == 3:
        return text + rng.choice(('=', '==', 'A', '\n', ' ', text))
    return text[:-1 - rng.randrange(4)] + rng.choice('ABCDw=') * rng.randrange(4)


def make_tokens(directory):
    ring = tokens.KeyRing(f'{directory}/keys')
    other = metadata_tokens.Tokens(lambda: b'k' * 32)
    end = NOW + datetime.timedelta(hours=1)
    claims = [tokens.Claims('u' * length, scope, 'p', ('password',), NOW, end, ('a',), None)
              for length in range(1, 7) for scope in (None, 'project')]
    sealed = [ring.seal(each) for each in claims]

    def run(data: bytes) -> None:
        rng = random.Random(data)
        text = data.decode('latin-1')
        assert ring.open(text) is None, 'bytes that nobody sealed'
        number = rng.randrange(len(sealed))
        assert ring.open(sealed[number]) == claims[number]
        changed = _changed_text(rng, sealed[number])
        assert changed == sealed[number] or ring.open(changed) is None, f'{changed!r} opens like {sealed[number]!r}'
        _metadata_token(other, rng, text)
    return run


def _metadata_token(made, rng, text):
    token = made.make('guest', 60)
    made.check('guest', token)
    for guest, bad in (('guest', text), ('other', token), ('guest', _changed_text(rng, token))):
        try:
            made.check(guest, bad)
        except exception.Unauthorized:
            continue
        assert (guest, bad) == ('guest', token), f'{bad!r} is good for {guest} like {token!r}'
    try:
        seconds = metadata_tokens.ttl(text)
    except exception.BadRequest:
        return
    assert 1 <= seconds <= metadata_tokens.MAX_TTL


def make_keypairs(_directory):
    def run(data: bytes) -> None:
        text = data[1:].decode('utf-8', 'replace')
        kind = 'x509' if data[:1] == b'x' else 'ssh'
        assert re.fullmatch('[0-9a-f]{2}(:[0-9a-f]{2}){%d}' % (19 if kind == 'x509' else 15),
                            keypair.fingerprint(text, kind))
    return run


def key_changed(rng: random.Random, data: bytes) -> bytes:
    """The bytes inside of the base64."""
    words = data.split(b' ')
    if len(words) < 2 or rng.random() < 0.2:
        return mutations.texts(rng, data)
    with contextlib.suppress(ValueError):
        words[1] = base64.b64encode(mutations.anything(rng, base64.b64decode(words[1])))
    return b' '.join(words)


def _key_seeds():
    rsa_key = rsa.generate_private_key(65537, 2048)
    keys = rsa_key, ec.derive_private_key(77, ec.SECP256R1()), ed25519.Ed25519PrivateKey.from_private_bytes(b'k' * 32)
    seeds = [b's' + key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
             for key in keys]
    blob = b'\0\0\0\x1ask-ssh-ed25519@openssh.com\0\0\0\x20' + b'k' * 32 + b'\0\0\0\4ssh:'
    return (*seeds, b'ssk-ssh-ed25519@openssh.com ' + base64.b64encode(blob) + b' me',
            b'x' + keypair._self_signed(rsa_key, 'user').encode())


# ---- what flavors and images ask for ------------------------------------------------

def make_extra_specs(_directory):
    def run(data: bytes) -> None:
        specs = _json(data, dict)
        if not all(isinstance(value, str) and len(value) <= 255 and len(key) <= 255 for key, value in specs.items()):
            raise exception.BadRequest('No texts.')
        guest_options.check(specs, {key.replace(':', '_'): value for key, value in specs.items()})
        guest_options.check_specs(specs)
    return run


def make_topologies(_directory):
    known = pci_spec.aliases(['{"name": "gpu", "vendor_id": "10de"}'])

    def run(data: bytes) -> None:
        asked = _json(data, dict)
        specs, properties = asked.get('specs'), asked.get('properties')
        if not isinstance(specs, dict) or not isinstance(properties, dict) or not all(
                isinstance(value, str) for value in specs.values()):
            raise exception.BadRequest('No texts.')
        for vcpus, memory in ((4, 1024), (1, 1), (16, 4096)):
            flavor = {'vcpus': vcpus, 'memory_mb': memory, 'extra_specs': specs}
            try:
                topology = guest_request.topology(flavor, properties)
                requests = pci_spec.requests(known, flavor, properties)
            except exception.InvalidInput:
                continue
            assert all(0 < request.count < 10000 for request in requests)
            if topology is not None:
                _whole(topology, vcpus, memory)
    return run


def _whole(topology, vcpus, memory):
    cells = topology.cells
    assert sorted(cpu for cell in cells for cpu in cell.cpuset) == list(range(vcpus)), 'every vCPU has one node'
    assert sum(cell.memory for cell in cells) == memory and all(cell.memory > 0 for cell in cells)
    assert all(cell.pcpuset <= cell.cpuset for cell in cells)
    pinned = sum(len(cell.pcpuset) for cell in cells)
    assert pinned == {'shared': 0, 'dedicated': vcpus}.get(topology.cpu_policy, pinned)
    assert topology.cpu_policy != 'mixed' or 0 < pinned < vcpus


def make_pci_options(_directory):
    def run(data: bytes) -> None:
        text = data.decode('utf-8', 'replace')
        for read in (pci_spec.device_specs, pci_spec.aliases):
            with contextlib.suppress(exception.InvalidInput):
                pci_spec.configured(read, [text])
    return run


# ---- what services send -------------------------------------------------------------

def make_messages(_directory):
    def run(data: bytes) -> None:
        try:
            value = json_text.parse(data)              # what a face lets through
        except ValueError:
            raise exception.BadRequest('It is no JSON.') from None
        sent = serializer.to_primitive(copy.deepcopy(value))
        assert serializer.from_primitive(sent) == value, 'what a caller wrote arrives as something else'
        stamped = {'at': NOW, 'raw': data, 'list': [value, NOW]}
        assert serializer.from_primitive(serializer.to_primitive(stamped)) == stamped
        if isinstance(value, dict):
            instance = objects.Instance(metadata=value, updated_at=NOW)
            for manifest in (None, {'Instance': '1.0'}):
                arrived = serializer.from_primitive(serializer.to_primitive({'instance': instance}, manifest))
                assert arrived['instance'].metadata == value, 'metadata arrive as something else'
    return run


# ---- small ones ---------------------------------------------------------------------

def make_words(_directory):
    def run(data: bytes) -> None:
        text = data.decode('latin-1')
        try:
            minor = versions.negotiate({'HTTP_OPENSTACK_API_VERSION': text})
            assert versions.MIN_VERSION <= minor <= versions.MAX_VERSION
        except (exception.BadRequest, exception.NotAcceptable):
            pass
        seal = records.Seal.parse(text)
        assert records.Seal.parse(str(seal)) == seal and seal.seq >= 0
    return run


_GROUP = (b'<group name="db" tenant_id="t"><policies><policy>anti-affinity</policy></policies>'
          b'<metadata><meta key="tier">1</meta></metadata><members><member>m</member></members></group>')

TARGETS = (
    Target('json', make_json, (b'{"server": {"name": "x", "tags": ["a", "b"], "n": 1.5}}', b'[[1, {"a": "]}["}]]',
                               b'"\\ud83d\\ude00 \\u0000"', b'-0.0'),
           refuses=(ValueError,), mutate=json_changed, mib=96),
    Target('xml', make_xml, (
        b'\n' + _GROUP, b'charset=utf-8\n<?xml version="1.0" encoding="UTF-8"?>\n' + _GROUP,
        b'charset=iso-8859-1\n' + _GROUP, b'\n<?xml version="1.0" encoding="cp1252"?>' + _GROUP,
        b'\n<g:group xmlns:g="urn:x" name="a&amp;&#13;b&#x20ac;"/>', b'\n<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>',
        b'\n' + ('\ufeff' + _GROUP.decode()).encode('utf-16-le')), mib=96),
    Target('tokens', make_tokens, (b'gAAAAABpIWbo', b'', b'A' * 140, b'60', '٣'.encode()), refuses=()),
    Target('keypairs', make_keypairs, _key_seeds(), refuses=(exception.KeypairInvalid,), mutate=key_changed),
    Target('extra_specs', make_extra_specs, (
        b'{"hw:cpu_policy": "dedicated", "hw:numa_cpus.0": "0-3,^2", "hw:mem_page_size": "2MB"}',
        b'{"quota:cpu_quota": "-1"}',
        b'{"resources1:VCPU": "4", "trait:HW_CPU_X86_AVX": "required", "pci_passthrough:alias": "gpu:1,nic:2"}',
        b'{"capabilities:a:b": "<in> x", "hw_rng:rate_bytes": "1", "group_policy": "none", "own": "x"}'),
        mutate=mutations.document),
    Target('topologies', make_topologies, (
        b'{"specs": {"hw:numa_nodes": "2", "hw:numa_cpus.0": "0,1", "hw:numa_cpus.1": "2-3", "hw:numa_mem.0": "512", '
        b'"hw:numa_mem.1": "512"}, "properties": {"hw_mem_page_size": "large"}}',
        b'{"specs": {"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "^0", "hw:mem_page_size": "any"}, '
        b'"properties": {"hw_mem_page_size": "1GB", "hw_pci_numa_affinity_policy": "required"}}',
        b'{"specs": {"hw:cpu_realtime": "yes", "hw:cpu_policy": "dedicated", "pci_passthrough:alias": "gpu:2"}, '
        b'"properties": {"hw_cpu_realtime_mask": "^0-1", "hw_cpu_thread_policy": "isolate"}}',
        b'{"specs": {"resources:PCPU": "4"}, "properties": {"hw_numa_nodes": 2, '
        b'"hw_emulator_threads_policy": "share"}}'),
        mutate=mutations.document),
    Target('pci_options', make_pci_options, (
        b'{"vendor_id": "8086", "product_id": "154d", "address": "0000:0a:00.*", "trusted": true, "traits": "A,B"}',
        b'[{"address": {"domain": ".*", "bus": "0a", "slot": "[0-4]", "function": "1"}, "physical_network": "p"}]',
        b'{"name": "gpu", "vendor_id": "10de", "device_type": "type-VF", "numa_policy": "preferred"}',
        b'{"devname": "eth0"}'), refuses=(), mutate=mutations.document),
    Target('messages', make_messages, (
        b'{"name": "x", "role": "web"}', b'{"nova_time": "2026-01-01T00:00:00"}',
        b'[{"nova_bytes": "QUJD"}, {"a": [1]}]',
        b'{"nova_object.name": "Instance", "nova_object.data": {}, "nova_object.version": "1.0"}',
        b'{"a": {"nova_dict": [["a", 1]]}, "b": null}'), mutate=mutations.document, mib=96,
        seconds=5),                                    # it travels eight times
    Target('words', make_words, (
        b'compute 2.104', b'compute latest, volume 3.1', b'5:' + b'a' * 64, b'007:' + b'f' * 64, b'identity 3'),
        refuses=(ValueError, *REFUSALS)),
)
