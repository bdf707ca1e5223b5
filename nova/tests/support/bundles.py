"""What tests share with nova/tests/unit/test_bundles.py."""
import gzip
import hashlib
import shutil
import subprocess

import pytest

from nova.ec2.bundles import bundles
from nova.ec2.bundles import manifests

KEY, IV = '00112233445566778899aabbccddeeff', 'ffeeddccbbaa99887766554433221100'
PART = 100_000
LIMIT = 1 << 30

pytestmark = pytest.mark.skipif(not shutil.which('openssl'), reason='openssl is not installed')

XML = '''<?xml version="1.0"?>
<manifest><version>2007-10-10</version><bundler><name>euca2ools</name><version>1.0</version><release>0</release></bundler>
<machine_configuration><architecture>x86_64</architecture>{kernel}<block_device_mapping><mapping><device>sda1</device>
<virtual>root</virtual></mapping></block_device_mapping></machine_configuration>
<image><name>disk.img</name><user>1234</user><digest algorithm="SHA1">{digest}</digest><size>{size}</size>
<bundled_size>{bundled}</bundled_size><type>machine</type>
<ec2_encrypted_key algorithm="AES-128-CBC">{key}</ec2_encrypted_key>
<user_encrypted_key algorithm="AES-128-CBC">00</user_encrypted_key>
<ec2_encrypted_iv>{iv}</ec2_encrypted_iv><user_encrypted_iv>00</user_encrypted_iv>
<parts count="{count}">{parts}</parts></image><signature>00</signature></manifest>'''


class Bundle:
    """A bundle as its maker has it, which a test may spoil before it asks for the image.

    :param archive: bytes of the tar archive
    :param size: of the image
    """

    def __init__(self, archive, size, key=KEY, iv=IV, encrypted=('00' * 256, '00' * 256), kernel=''):
        packed = gzip.compress(archive, 6)
        done = subprocess.run(['openssl', 'enc', '-e', '-aes-128-cbc', '-K', KEY, '-iv', IV], input=packed,
                              capture_output=True, check=True)
        self.size, self.key, self.iv, self.encrypted, self.kernel = size, key, iv, encrypted, kernel
        self.digest = hashlib.sha1(archive).hexdigest()
        self.parts = {f'disk.img.part.{place // PART}': done.stdout[place:place + PART]
                      for place in range(0, len(done.stdout), PART)}
        self.bundled = len(done.stdout)
        self.digests = {name: hashlib.sha1(data).hexdigest() for name, data in self.parts.items()}

    def xml(self):
        parts = ''.join(f'<part index="{index}"><filename>{name}</filename><digest algorithm="SHA1">{digest}</digest>'
                        '</part>' for index, (name, digest) in enumerate(self.digests.items()))
        return XML.format(digest=self.digest, size=self.size, bundled=self.bundled, key=self.encrypted[0],
                          iv=self.encrypted[1], count=len(self.digests), parts=parts, kernel=self.kernel).encode()

    def open(self, name):
        data = self.parts[name]
        return (data[place:place + 7919] for place in range(0, len(data), 7919))

    def image(self, limit=LIMIT):
        return b''.join(bundles.unbundle(manifests.parse(self.xml()), self.key, self.iv, self.open, limit))


def signed_part(text):
    """What the tools sign: two elements as they stand in the manifest."""
    machine, image = (text[text.index(b'<%s>' % name):text.index(b'</%s>' % name) + len(name) + 3]
                      for name in (b'machine_configuration', b'image'))
    return machine + image
