/* tls.c - see tls.h. Each session has two memory buffers: what has come and is still to be read, and what is to be sent. */
#include "tls/tls.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "base/str.h"

enum { KEY_UPDATES_MAX = 32 }; /* on a connection; clients have new keys after gigabytes */

struct tls {
    SSL_CTX *ctx;
};

struct session {
    SSL *ssl;
    BIO *in; /* both are the SSL's */
    BIO *out;
    bool is_broken;
    unsigned key_updates; /* that its client has sent */
    char name[HTTP_NAME_MAX + 1];
};

/* --- loading --- */

/* OpenSSL's own words, which name what is wrong with the file. */
static int fail(struct err *err, const char *what, const char *path)
{
    unsigned long code = ERR_peek_last_error();
    const char *reason = ERR_reason_error_string(code);

    ERR_clear_error();
    return err_set(err, SP_CONFIG, "%s: '%.120s': %s", what, path,
                   reason != NULL ? reason : "it cannot be read");
}

/* There is nobody who could type it. */
static int no_passphrase(char *buf UNUSED, int size UNUSED, int rwflag UNUSED, void *u UNUSED)
{
    return -1;
}

static int load_certificate(SSL_CTX *ctx, const struct tls_files *files, struct err *err)
{
    SSL_CTX_set_default_passwd_cb(ctx, no_passphrase);
    if (SSL_CTX_use_certificate_chain_file(ctx, files->cert) != 1)
        return fail(err, "tls.cert", files->cert);
    if (SSL_CTX_use_PrivateKey_file(ctx, files->key, SSL_FILETYPE_PEM) != 1)
        return fail(err, "tls.key", files->key);
    if (SSL_CTX_check_private_key(ctx) != 1)
        return fail(err, "tls.key is not that of tls.cert", files->key);
    return SP_OK;
}

static int load_clients(SSL_CTX *ctx, const struct tls_files *files, struct err *err)
{
    int mode = SSL_VERIFY_PEER | (files->must_have_client ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0);
    STACK_OF(X509_NAME) * names;

    if (files->client_ca[0] == '\0')
        return SP_OK;
    if (SSL_CTX_load_verify_file(ctx, files->client_ca) != 1)
        return fail(err, "tls.client_ca", files->client_ca);
    names = SSL_load_client_CA_file(files->client_ca);
    if (names == NULL)
        return fail(err, "tls.client_ca", files->client_ca);
    SSL_CTX_set_client_CA_list(ctx, names); /* takes it over */
    SSL_CTX_set_verify(ctx, mode, NULL);
    /* A session that is resumed shows no certificate: each time it gets a new ticket, also when the certificate is over. */
    (void) SSL_CTX_set_options(ctx, SSL_OP_NO_TICKET);
    (void) SSL_CTX_set_num_tickets(ctx, 0);
    return SP_OK;
}

/* Clients that offer HTTP/2 as well are answered what we speak. */
static int on_alpn(SSL *ssl UNUSED, const unsigned char **ret, unsigned char *ret_len,
                   const unsigned char *offered, unsigned int len, void *ctx UNUSED)
{
    static const unsigned char ours[] = "\x08http/1.1";
    unsigned char *found;

    if (SSL_select_next_proto(&found, ret_len, ours, sizeof(ours) - 1, offered, len) !=
        OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_NOACK;
    *ret = found;
    return SSL_TLSEXT_ERR_OK;
}

static void set_up(SSL_CTX *ctx)
{
    static const unsigned char id[] = "sandpool";

    (void) SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION); /* it knows that */
    (void) SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                        SSL_OP_CIPHER_SERVER_PREFERENCE);
    (void) SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS);
    (void) SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    (void) SSL_CTX_set_num_tickets(ctx, 1);
    (void) SSL_CTX_set_session_id_context(ctx, id, sizeof(id) - 1);
    /* of TLS 1.2: with forward secrecy and authenticated encryption only */
    (void) SSL_CTX_set_cipher_list(ctx, "ECDHE+AESGCM:ECDHE+CHACHA20");
    SSL_CTX_set_alpn_select_cb(ctx, on_alpn, NULL);
}

int tls_load(const struct tls_files *files, struct tls **ret, struct err *err)
{
    struct tls *t = xcalloc(1, sizeof(*t));
    int r = SP_OK;

    ERR_clear_error();
    t->ctx = SSL_CTX_new(TLS_server_method());
    if (t->ctx == NULL)
        r = err_set(err, SP_NO_MEMORY, "no memory for TLS");
    if (r == SP_OK) {
        set_up(t->ctx);
        r = load_certificate(t->ctx, files, err);
    }
    if (r == SP_OK)
        r = load_clients(t->ctx, files, err);
    ERR_clear_error();
    if (r == SP_OK)
        *ret = t;
    else
        (void) tls_free(t); /* returns NULL by convention */
    return r;
}

struct tls *tls_free(struct tls *t)
{
    if (t != NULL)
        SSL_CTX_free(t->ctx);
    free(t);
    return NULL;
}

int64_t tls_expires(const struct tls *t)
{
    struct tm tm = {0};

    if (ASN1_TIME_to_tm(X509_get0_notAfter(SSL_CTX_get0_certificate(t->ctx)), &tm) != 1)
        return 0;
    return (int64_t) timegm(&tm);
}

/* --- sessions --- */

static void session_close(void *session)
{
    struct session *s = session;

    SSL_free(s->ssl);
    free(s);
}

/* New keys make more work for us than for who sends nothing else. What has come is dropped, so that SSL_read() ends. */
static void on_message(int write_p, int version UNUSED, int content_type, const void *buf,
                       size_t len, SSL *ssl UNUSED, void *arg)
{
    struct session *s = arg;

    if (write_p != 0 || content_type != SSL3_RT_HANDSHAKE || len == 0 ||
        *(const unsigned char *) buf != SSL3_MT_KEY_UPDATE)
        return;
    s->key_updates++;
    if (s->key_updates <= KEY_UPDATES_MAX)
        return;
    s->is_broken = true;
    (void) BIO_reset(s->in); /* a buffer in memory can be emptied */
}

static void *session_open(void *ctx)
{
    const struct tls *t = ctx;
    struct session *s = xcalloc(1, sizeof(*s));

    s->ssl = SSL_new(t->ctx);
    s->in = BIO_new(BIO_s_mem());
    s->out = BIO_new(BIO_s_mem());
    if (s->ssl == NULL || s->in == NULL || s->out == NULL) {
        (void) BIO_free(s->in); /* NULL is fine, here and below */
        (void) BIO_free(s->out);
        SSL_free(s->ssl);
        free(s);
        return NULL;
    }
    (void) BIO_set_mem_eof_return(s->in, -1); /* empty is not the end */
    (void) BIO_set_mem_eof_return(s->out, -1);
    SSL_set_bio(s->ssl, s->in, s->out);
    SSL_set_msg_callback(s->ssl, on_message);
    SSL_set_msg_callback_arg(s->ssl, s);
    SSL_set_accept_state(s->ssl);
    return s;
}

static bool session_put(void *session, const char *data, size_t len)
{
    struct session *s = session;

    return BIO_write(s->in, data, (int) len) == (int) len;
}

static bool session_has_input(const void *session)
{
    const struct session *s = session;

    return BIO_ctrl_pending(s->in) > 0 || SSL_pending(s->ssl) > 0;
}

/* The common name of its certificate, if a caller can have that name. */
static void learn_name(struct session *s)
{
    const X509 *cert = SSL_get0_peer_certificate(s->ssl);
    char name[HTTP_NAME_MAX + 2];
    int len;

    if (cert == NULL || SSL_get_verify_result(s->ssl) != X509_V_OK)
        return;
    len = X509_NAME_get_text_by_NID(X509_get_subject_name(cert), NID_commonName, name,
                                    (int) sizeof(name));
    if (len > 0 && (size_t) len == strlen(name) && str_is_name(name, HTTP_NAME_MAX, "_-"))
        str_copy_cut(s->name, sizeof(s->name), name);
}

static int session_take(void *session, char *dst, size_t cap)
{
    struct session *s = session;
    bool was_open = SSL_is_init_finished(s->ssl) == 1;
    int n;

    if (s->is_broken)
        return HTTP_SECURE_BROKEN;
    ERR_clear_error(); /* else what another session did counts for this one */
    n = SSL_read(s->ssl, dst, (int) cap);
    if (!was_open && SSL_is_init_finished(s->ssl) == 1)
        learn_name(s);
    if (s->is_broken)
        return HTTP_SECURE_BROKEN;
    if (n > 0)
        return n;
    switch (SSL_get_error(s->ssl, n)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
        return HTTP_SECURE_MORE;
    case SSL_ERROR_ZERO_RETURN:
        return HTTP_SECURE_END;
    default: /* numbers of OpenSSL's, no enum of ours */
        s->is_broken = true;
        ERR_clear_error();
        return HTTP_SECURE_BROKEN;
    }
}

static bool session_is_open(const void *session)
{
    return SSL_is_init_finished(((const struct session *) session)->ssl) == 1;
}

static const char *session_name(const void *session)
{
    return ((const struct session *) session)->name;
}

static bool session_seal(void *session, const char *data, size_t len)
{
    struct session *s = session;
    size_t done = 0;

    ERR_clear_error();
    if (!s->is_broken && SSL_write_ex(s->ssl, data, len, &done) == 1)
        return true;
    s->is_broken = true;
    ERR_clear_error();
    return false;
}

static void session_end(void *session)
{
    struct session *s = session;

    ERR_clear_error();
    if (!s->is_broken)
        (void) SSL_shutdown(s->ssl); /* the peer may answer or not */
    ERR_clear_error();
}

static size_t session_output(void *session, const char **ret)
{
    struct session *s = session;
    char *data;
    long len = BIO_get_mem_data(s->out, &data);

    *ret = data;
    return len > 0 ? (size_t) len : 0;
}

static void session_sent(void *session)
{
    struct session *s = session;

    (void) BIO_reset(s->out); /* a buffer in memory can be emptied */
}

struct http_secure tls_secure(struct tls *t)
{
    static const struct http_secure_ops ops = {.open = session_open,
                                               .close = session_close,
                                               .put = session_put,
                                               .has_input = session_has_input,
                                               .take = session_take,
                                               .is_open = session_is_open,
                                               .name = session_name,
                                               .seal = session_seal,
                                               .end = session_end,
                                               .output = session_output,
                                               .sent = session_sent};

    return (struct http_secure){.ops = t != NULL ? &ops : NULL, .ctx = t};
}
