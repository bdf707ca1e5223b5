"""A kernel of a few bytes that tells what it was given: a guest that prints the beginning of its ramdisk.

QEMU starts it with -kernel by the Multiboot specification (0.6.96, GNU), and gives it the file of -initrd as a module.
"""
import struct

ADDRESS = 0x100000               # where it is loaded
SHOWN = 64                       # bytes of the ramdisk that it prints
BEGIN, END = b'<<', b'>>'        # around them
_SERIAL = 0x3f8

# print_al: waits until the serial port takes a byte (bit 5 of its line status register), and writes al
_PRINT = bytes.fromhex(
    '88c4'                       # mov ah, al
    '66bafd03'                   # mov dx, 0x3fd
    'ec'                         # in al, dx
    'a820'                       # test al, 0x20
    '74fb'                       # jz -5
    '88e0'                       # mov al, ah
    '66baf803'                   # mov dx, 0x3f8
    'ee'                         # out dx, al
    'c3')                        # ret


def kernel():
    """The bytes of the kernel: a flat file with a Multiboot header."""
    code, calls = bytearray(), []

    def call():
        calls.append(len(code) + 1)
        code.extend(b'\xe8\0\0\0\0')

    def put(text):
        for byte in text:
            code.extend(b'\xb0' + bytes([byte]))            # mov al, byte
            call()
    put(BEGIN)
    code += bytes.fromhex('8b7318')                         # mov esi, [ebx + 24]    the list of modules
    code += bytes.fromhex('8b36')                           # mov esi, [esi]         where the first one begins
    code += b'\xb9' + struct.pack('<I', SHOWN)              # mov ecx, SHOWN
    again = len(code)
    code += b'\xac'                                         # lodsb
    call()
    code += b'\xe2' + struct.pack('b', again - len(code) - 2)            # loop again
    put(END + b'\n')
    code += bytes.fromhex('faf4ebfc')                       # cli; hlt; jmp -4
    for place in calls:
        struct.pack_into('<i', code, place, len(code) - place - 4)
    code += _PRINT
    flags = 0x10000                                         # the addresses stand in the header
    header = struct.pack('<8I', 0x1badb002, flags, -(0x1badb002 + flags) & 0xffffffff, ADDRESS, ADDRESS,
                         0, 0, ADDRESS + 32)
    return (header + bytes(code)).ljust(4096, b'\0')
