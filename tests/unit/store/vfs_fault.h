/* vfs_fault.h - a disk that fails on order: wraps the default VFS of SQLite, which the store uses.
 * Calls are counted from arming; they come from the writer's thread, so all of it is atomic. */
#ifndef TESTS_UNIT_STORE_VFS_FAULT_H
#define TESTS_UNIT_STORE_VFS_FAULT_H

#include <stdbool.h>
#include <stdint.h>

enum vfs_call { VFS_WRITE = 1, VFS_SYNC = 2, VFS_OPEN = 4, VFS_TRUNCATE = 8, VFS_READ = 16 };

/* Once, before the first store is opened. */
void vfs_fault_install(void);
/* The n-th call (from 1) of the kinds in `calls` answers with the SQLite code `rc`; with
 * `is_persistent` every later one too. */
void vfs_fault_arm(unsigned calls, int rc, uint64_t nth, bool is_persistent);
/* Only while this file is there; NULL: always. Before arming; cleared by disarming. */
void vfs_fault_while(const char *path);
void vfs_fault_disarm(void);
/* Writes do not return while it is set. */
void vfs_fault_hang(bool is_hanging);
/* Calls that have failed since arming. */
uint64_t vfs_fault_count(void);
/* Successful syncs since the program started. */
uint64_t vfs_sync_count(void);

#endif
