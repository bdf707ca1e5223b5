"""What tests share with nova/tests/functional/test_encrypted_volumes.py."""
import subprocess

LUKS, MARK = b'LUKS\xba\xbe', b'written-in-plain-text'


def opened(path, key):
    """Words that make QEMU's tools open a file."""
    return ['--object', f'secret,id=key,data={key}', '--image-opts',
            f'driver=luks,key-secret=key,file.driver=file,file.locking=off,file.filename={path}']


def io(path, key, *commands):
    """What qemu-io says of an open file; it ends with 1 where a pattern is not there."""
    words = [word for command in commands for word in ('-c', command)]
    done = subprocess.run(['qemu-io', *opened(path, key), *words], capture_output=True, text=True)
    assert 'bytes at offset' in done.stdout, done.stdout + done.stderr
    return done.stdout


def is_written(path, key, begin=0):
    return 'Pattern verification failed' not in io(path, key, f'read -P 0x61 {begin} 64k')
