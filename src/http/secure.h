/* secure.h - what may stand between the bytes of a connection and HTTP: TLS. The server knows it by these functions only, so that
 * programs without it need no library for it. A session sees neither sockets nor time. */
#ifndef HTTP_SECURE_H
#define HTTP_SECURE_H

#include <stdbool.h>
#include <stddef.h>

enum { HTTP_NAME_MAX = 64 };

/* Instead of a number of bytes. */
enum {
    HTTP_SECURE_MORE = 0,    /* nothing until more has come */
    HTTP_SECURE_END = -1,    /* the peer has ended its side, in order */
    HTTP_SECURE_BROKEN = -2, /* it does not speak TLS, or not as it must */
};

struct http_secure_ops {
    /* A session of a connection that has been accepted; lives as long as that, whatever becomes of `ctx`. NULL: there is no memory. */
    void *(*open)(void *ctx);
    void (*close)(void *session);
    /* What has come. All of it is taken; false: there is no memory. */
    bool (*put)(void *session, const char *data, size_t len);
    bool (*has_input)(const void *session); /* something has come that take() has not looked at */
    /* What it means: so many bytes, or one of the above. The handshake is made in here as well. */
    int (*take)(void *session, char *dst, size_t cap);
    bool (*is_open)(const void *session); /* the handshake is over */
    /* The name of the peer's certificate, which was verified; "": it has none. */
    const char *(*name)(const void *session);
    /* To be sent; false: it cannot. Then, and after take(): */
    bool (*seal)(void *session, const char *data, size_t len);
    void (*end)(void *session); /* nothing more will be */
    /* the bytes to be sent for it (0: none); and they have been. */
    size_t (*output)(void *session, const char **ret);
    void (*sent)(void *session);
};

struct http_secure {
    const struct http_secure_ops *ops; /* NULL: none */
    void *ctx;
};

#endif
