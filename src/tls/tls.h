/* tls.h - TLS for connections to our own listeners, by OpenSSL: a certificate with its key, and what is asked of clients. It only
 * turns bytes into bytes (http/secure.h); sockets and time are the server's. */
#ifndef TLS_TLS_H
#define TLS_TLS_H

#include <stdint.h>

#include "base/err.h"
#include "http/secure.h"

struct tls;

struct tls_files {
    const char *cert;      /* PEM: the certificate and those between it and the root */
    const char *key;       /* PEM, without a passphrase */
    const char *client_ca; /* PEM: who signs certificates of clients; "": none are asked for */
    bool must_have_client; /* a client without one is refused */
};

/* Reads the files. */
MUST_CHECK int tls_load(const struct tls_files *files, struct tls **ret, struct err *err);
/* Sessions that are open go on. NULL is fine; returns NULL. */
struct tls *tls_free(struct tls *t);
/* When the certificate expires, in seconds since 1970. */
int64_t tls_expires(const struct tls *t);
/* For http_server_set_secure(); `t` NULL: none. Good as long as `t`. */
struct http_secure tls_secure(struct tls *t);

#endif
