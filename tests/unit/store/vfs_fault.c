/* vfs_fault.c - see vfs_fault.h. Only what the store's connection calls is wrapped: the log index
 * lives in memory, so there is no shared memory to forward. */
#include "vfs_fault.h"

#include <assert.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stddef.h>
#include <unistd.h>

struct faulty_file {
    sqlite3_file base;
    sqlite3_file *real; /* behind this struct, in the same allocation */
};

static sqlite3_vfs *real_vfs;
static sqlite3_vfs faulty_vfs;

static atomic_uint armed_calls; /* 0: nothing is armed */
static atomic_int armed_rc;
static atomic_bool armed_for_good;
static atomic_uint_fast64_t calls_left;
static atomic_uint_fast64_t failed;
static atomic_uint_fast64_t syncs;
static atomic_bool is_hung;
static const char *_Atomic armed_while; /* a file, or NULL */

static sqlite3_file *real_of(sqlite3_file *file)
{
    return ((struct faulty_file *) file)->real;
}

/* SQLITE_OK, or the code with which this call must fail. */
static int next_fault(enum vfs_call call)
{
    uint_fast64_t left;

    if ((atomic_load(&armed_calls) & (unsigned) call) == 0)
        return SQLITE_OK;
    if (atomic_load(&armed_while) != NULL && access(atomic_load(&armed_while), F_OK) != 0)
        return SQLITE_OK;
    left = atomic_load(&calls_left);
    if (left > 1) {
        atomic_store(&calls_left, left - 1);
        return SQLITE_OK;
    }
    if (left == 0 && !atomic_load(&armed_for_good))
        return SQLITE_OK;
    atomic_store(&calls_left, 0);
    (void) atomic_fetch_add(&failed, 1);
    return atomic_load(&armed_rc);
}

static int faulty_close(sqlite3_file *file)
{
    return real_of(file)->pMethods->xClose(real_of(file));
}

static int faulty_read(sqlite3_file *file, void *data, int len, sqlite3_int64 at)
{
    int rc = next_fault(VFS_READ);

    return rc != SQLITE_OK ? rc : real_of(file)->pMethods->xRead(real_of(file), data, len, at);
}

/* A failing write leaves half of its bytes behind, as a full disk does. */
static int faulty_write(sqlite3_file *file, const void *data, int len, sqlite3_int64 at)
{
    sqlite3_file *real = real_of(file);
    int rc = next_fault(VFS_WRITE);

    while (atomic_load(&is_hung))
        (void) usleep(1000);
    if (rc == SQLITE_OK)
        return real->pMethods->xWrite(real, data, len, at);
    (void) real->pMethods->xWrite(real, data, len / 2, at); /* it has failed anyway */
    return rc;
}

static int faulty_truncate(sqlite3_file *file, sqlite3_int64 size)
{
    int rc = next_fault(VFS_TRUNCATE);

    return rc != SQLITE_OK ? rc : real_of(file)->pMethods->xTruncate(real_of(file), size);
}

static int faulty_sync(sqlite3_file *file, int flags)
{
    int rc = next_fault(VFS_SYNC);

    if (rc != SQLITE_OK)
        return rc;
    (void) atomic_fetch_add(&syncs, 1);
    return real_of(file)->pMethods->xSync(real_of(file), flags);
}

static int faulty_size(sqlite3_file *file, sqlite3_int64 *ret)
{
    return real_of(file)->pMethods->xFileSize(real_of(file), ret);
}

static int faulty_lock(sqlite3_file *file, int level)
{
    return real_of(file)->pMethods->xLock(real_of(file), level);
}

static int faulty_unlock(sqlite3_file *file, int level)
{
    return real_of(file)->pMethods->xUnlock(real_of(file), level);
}

static int faulty_check_lock(sqlite3_file *file, int *ret)
{
    return real_of(file)->pMethods->xCheckReservedLock(real_of(file), ret);
}

static int faulty_control(sqlite3_file *file, int op, void *arg)
{
    return real_of(file)->pMethods->xFileControl(real_of(file), op, arg);
}

static int faulty_sector(sqlite3_file *file)
{
    return real_of(file)->pMethods->xSectorSize(real_of(file));
}

static int faulty_traits(sqlite3_file *file)
{
    return real_of(file)->pMethods->xDeviceCharacteristics(real_of(file));
}

static const sqlite3_io_methods faulty_methods = {
    .iVersion = 1,
    .xClose = faulty_close,
    .xRead = faulty_read,
    .xWrite = faulty_write,
    .xTruncate = faulty_truncate,
    .xSync = faulty_sync,
    .xFileSize = faulty_size,
    .xLock = faulty_lock,
    .xUnlock = faulty_unlock,
    .xCheckReservedLock = faulty_check_lock,
    .xFileControl = faulty_control,
    .xSectorSize = faulty_sector,
    .xDeviceCharacteristics = faulty_traits,
};

static int faulty_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags,
                       int *ret_flags)
{
    struct faulty_file *faulty = (struct faulty_file *) file;
    int rc = next_fault(VFS_OPEN);

    (void) vfs;
    faulty->base.pMethods = NULL;
    if (rc != SQLITE_OK)
        return rc;
    faulty->real = (sqlite3_file *) (void *) (faulty + 1);
    rc = real_vfs->xOpen(real_vfs, name, faulty->real, flags, ret_flags);
    if (faulty->real->pMethods != NULL)
        faulty->base.pMethods = &faulty_methods;
    return rc;
}

void vfs_fault_install(void)
{
    int rc;

    real_vfs = sqlite3_vfs_find(NULL);
    faulty_vfs = *real_vfs;
    faulty_vfs.zName = "faulty";
    faulty_vfs.pNext = NULL;
    faulty_vfs.szOsFile = real_vfs->szOsFile + (int) sizeof(struct faulty_file);
    faulty_vfs.xOpen = faulty_open;
    rc = sqlite3_vfs_register(&faulty_vfs, 1);
    assert(rc == SQLITE_OK);
    (void) rc;
}

void vfs_fault_arm(unsigned calls, int rc, uint64_t nth, bool is_persistent)
{
    atomic_store(&armed_calls, 0);
    atomic_store(&armed_rc, rc);
    atomic_store(&armed_for_good, is_persistent);
    atomic_store(&calls_left, nth);
    atomic_store(&failed, 0);
    atomic_store(&armed_calls, calls);
}

void vfs_fault_while(const char *path)
{
    atomic_store(&armed_while, path);
}

void vfs_fault_hang(bool is_hanging)
{
    atomic_store(&is_hung, is_hanging);
}

void vfs_fault_disarm(void)
{
    atomic_store(&armed_calls, 0);
    atomic_store(&armed_while, NULL);
}

uint64_t vfs_fault_count(void)
{
    return atomic_load(&failed);
}

uint64_t vfs_sync_count(void)
{
    return atomic_load(&syncs);
}
