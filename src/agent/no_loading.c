/* no_loading.c - keeps the loader of shared libraries, and threads, out of the static agent.
 *
 * A static program that can call dlopen() runs any file as its own code once somebody controls one call.
 * The agent never needs it; parts of the C library and libuv do: look-ups of users (NSS), character sets
 * (gconv), a system call that libuv finds by name. What they call is defined here, first, so that the
 * linker takes neither those parts nor the loader behind them. tests/lint/hardening.py checks that. */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <pwd.h>
#include <stddef.h>

/* glibc's own, without a header: how iconv finds a character set that is not built in. */
void *__gconv_find_shlib(const char *name);
void __gconv_release_shlib(void *handle);

void *__gconv_find_shlib(const char *name)
{
    (void) name;
    return NULL;
}

void __gconv_release_shlib(void *handle)
{
    (void) handle;
}

/* The same: where libraries would be looked for. Every static program calls it when it starts. */
void _dl_init_paths(const char *paths, const char *source, const char *prepend, const char *mask);

void _dl_init_paths(const char *paths, const char *source, const char *prepend, const char *mask)
{
    (void) paths;
    (void) source;
    (void) prepend;
    (void) mask;
}

/* libuv looks up functions that the C library may lack, and works without them. */
void *dlsym(void *restrict handle, const char *restrict name)
{
    (void) handle;
    (void) name;
    return NULL;
}

char *dlerror(void)
{
    return NULL;
}

/* libuv's uv_os_homedir(), which nobody calls. Users are found in identity.c. */
int getpwuid_r(uid_t uid, struct passwd *restrict entry, char *restrict space, size_t len,
               struct passwd **restrict ret)
{
    (void) uid;
    (void) entry;
    (void) space;
    (void) len;
    *ret = NULL;
    return ENOENT;
}

/* libuv has a pool of threads that nobody uses. The agent must have none: its helpers are made by fork()
 * (helper.h), and a lock that another thread holds would stay locked in them. The C library's function also
 * brings the half of the loader that maps libraries. */
int pthread_create(pthread_t *restrict ret, const pthread_attr_t *restrict attr,
                   void *(*run)(void *), void *restrict ctx)
{
    (void) ret;
    (void) attr;
    (void) run;
    (void) ctx;
    return EAGAIN;
}
