/* Reads or writes a disk in a guest, past its page cache, and prints how long that took.
 *
 * usage: disk_io DEVICE r|w seq|random LENGTH COUNT
 *
 * Requests are one after the other; writes end with a flush. Random ones go over the first 256 MiB, by a fixed seed.
 * Built by tools/bench/storage/disk_guests.py, without a library that the guest would need.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SPAN (256L << 20)

int main(int argc, char **argv)
{
    if (argc != 6)
        return 2;
    int writes = argv[2][0] == 'w', random_places = argv[3][0] == 'r';
    long length = atol(argv[4]), count = atol(argv[5]);
    int disk = open(argv[1], O_RDWR | O_DIRECT);
    void *data;
    if (disk < 0 || length < 512 || posix_memalign(&data, 4096, length))
        return 1;
    memset(data, 'x', length);
    srandom(7);
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (long number = 0; number < count; number++) {
        long place = random_places ? random() % (SPAN / length) * length : number * length % SPAN;
        ssize_t done = writes ? pwrite(disk, data, length, place) : pread(disk, data, length, place);
        if (done != length)
            return 1;
    }
    if (writes && fsync(disk))
        return 1;
    clock_gettime(CLOCK_MONOTONIC, &end);
    printf("took %ld us\n", (end.tv_sec - begin.tv_sec) * 1000000 + (end.tv_nsec - begin.tv_nsec) / 1000);
    return 0;
}
