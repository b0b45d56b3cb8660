/* Makes every fsync and fdatasync of a program take longer: LD_PRELOAD this, and write the delay in microseconds, as a
   native unsigned int, into the file that SLOW_FSYNC names. The file is mapped, so a change counts at once. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static volatile unsigned int *delay;

__attribute__((constructor)) static void map_delay(void) {
    const char *path = getenv("SLOW_FSYNC");
    int fd = path ? open(path, O_RDONLY) : -1;
    if (fd < 0)
        return;
    void *page = mmap(NULL, sizeof *delay, PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    if (page != MAP_FAILED)
        delay = page;
}

static int slowly(const char *name, int fd) {
    if (delay && *delay)
        usleep(*delay);
    return ((int (*)(int))dlsym(RTLD_NEXT, name))(fd);
}

int fsync(int fd) { return slowly("fsync", fd); }

int fdatasync(int fd) { return slowly("fdatasync", fd); }
