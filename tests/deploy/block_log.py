"""A disk that takes down each write and each flush: a file system in user space (FUSE) of one file, which a loop device
uses. python3 block_log.py IMAGE FILE LOG: mounts IMAGE over FILE until FILE is unmounted. Needs root and /dev/fuse.

LOG is a row of records: offset and size, 8 bytes each, then the bytes. A flush has the offset FLUSH and no bytes."""
import ctypes
import errno
import os
import stat
import struct
import sys

FLUSH = 2**64 - 1
RECORD = struct.Struct("<QQ")
# include/uapi/linux/fuse.h, version 7.38
IN, OUT = struct.Struct("<IIQQIIIHH"), struct.Struct("<IiQ")
GETATTR, SETATTR, OPEN, READ, WRITE, STATFS, RELEASE, FSYNC = 3, 4, 14, 15, 16, 17, 18, 20
FLUSH_FILE, INIT, FALLOCATE = 25, 26, 43
WITHOUT_ANSWER = (2, 36, 42)                # FORGET, INTERRUPT, BATCH_FORGET
OPEN_DIRECT_IO, ASYNC_DIO = 1, 1 << 15
WRITE_BYTES_MAX = 128 << 10


def main(image, file, log):
    device = os.open("/dev/fuse", os.O_RDWR)
    libc = ctypes.CDLL(None, use_errno=True)
    options = f"fd={device},rootmode={stat.S_IFREG:o},user_id=0,group_id=0"
    if libc.mount(b"block-log", file.encode(), b"fuse", 0, options.encode()):
        sys.exit(f"mount: {os.strerror(ctypes.get_errno())}")
    disk, size = os.open(image, os.O_RDWR), os.stat(image).st_size
    log = open(log, "wb", buffering=0)
    print("ready", flush=True)
    while True:
        try:
            request = os.read(device, WRITE_BYTES_MAX + 4096)
        except OSError as error:
            if error.errno == errno.ENODEV:         # unmounted
                return
            raise
        _, code, unique, *_ = IN.unpack_from(request)
        if code not in WITHOUT_ANSWER:
            answer = serve(code, request[IN.size:], disk, size, log)
            body, status = (b"", answer) if isinstance(answer, int) else (answer, 0)
            os.write(device, OUT.pack(OUT.size + len(body), -status, unique) + body)


def serve(code, body, disk, size, log):
    """Returns the body of the answer, or a number of errno."""
    if code == INIT:
        return struct.pack("<IIIIHHII4x28x", 7, 31, 0, ASYNC_DIO, 0, 0, WRITE_BYTES_MAX, 1) + bytes(4)
    if code in (GETATTR, SETATTR):
        return struct.pack("<QIIQQQQQQIIIIIIIIII", 3600, 0, 0, 1, size, size >> 9, 0, 0, 0, 0, 0, 0,
                           stat.S_IFREG | 0o600, 1, 0, 0, 0, 4096, 0)
    if code == OPEN:
        return struct.pack("<QII", 0, OPEN_DIRECT_IO, 0)
    if code == READ:
        _, offset, count = struct.unpack_from("<QQI", body)
        return os.pread(disk, count, offset)
    if code == WRITE:
        _, offset, count = struct.unpack_from("<QQI", body)
        data = body[40:40 + count]
        log.write(RECORD.pack(offset, count) + data)
        os.pwrite(disk, data, offset)
        return struct.pack("<II", count, 0)
    if code == FALLOCATE:                       # the file system discards what it has freed
        _, offset, count = struct.unpack_from("<QQQ", body)
        log.write(RECORD.pack(offset, count) + bytes(count))
        for at in range(offset, offset + count, WRITE_BYTES_MAX):
            os.pwrite(disk, bytes(min(WRITE_BYTES_MAX, offset + count - at)), at)
        return b""
    if code == FSYNC:
        log.write(RECORD.pack(FLUSH, 0))
        return b""
    if code == STATFS:
        return struct.pack("<QQQQQIIII24x", size >> 12, 0, 0, 1, 0, 4096, 255, 4096, 0)
    return b"" if code in (RELEASE, FLUSH_FILE) else errno.ENOSYS


def read(path, begin=0):
    """Yields (offset, bytes) of each write of a log, and None of each flush, from a byte of the log on."""
    with open(path, "rb") as file:
        file.seek(begin)
        while len(head := file.read(RECORD.size)) == RECORD.size:
            offset, count = RECORD.unpack(head)
            yield None if offset == FLUSH else (offset, file.read(count))


if __name__ == "__main__":
    main(*sys.argv[1:])
