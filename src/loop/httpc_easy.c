/* httpc_easy.c - options and errors of one transfer. libcurl never looks a name up: it is given the
 * addresses. */
#include "loop/httpc_easy.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "base/compiler.h"
#include "loop/httpc_stream.h"

/* How long libcurl knows the addresses it was given (longer than a request waits for a connection), and
 * the authorities' certificates it has read. */
enum {
    RULE_S = 3600,
    AUTHORITIES_S = 60,
    STREAM_READ_SIZE = 68 * 1024, /* the agent's 64 KB, and what a chunk adds */
    TUNNEL_KEY_MAX = 32,
    TUNNEL_ANSWER_MAX = 32 * 1024, /* bytes that CONNECT may be answered with */
    REUSE_MAX_S = 30,
};

/* --- errors --- */

/* What went wrong with TLS, as the start of a sentence; NULL when something else did. */
static const char *tls_trouble(const struct httpc_request *r, CURLcode curl_code)
{
    if (curl_code == CURLE_PEER_FAILED_VERIFICATION)
        return "the server's certificate is not accepted";
    if (curl_code == CURLE_SSL_CERTPROBLEM)
        return "the client's certificate or its key cannot be used";
    if (curl_code == CURLE_SSL_CACERT_BADFILE)
        return "the file of authorities' certificates cannot be used";
    /* With TLS 1.3 a server says so only after the client takes the handshake for done. */
    if (!r->is_header_done && strstr(r->error_text, "SSL") != NULL &&
        (strstr(r->error_text, "alert certificate") != NULL ||
         strstr(r->error_text, "alert bad certificate") != NULL ||
         strstr(r->error_text, "alert handshake failure") != NULL ||
         strstr(r->error_text, "alert unknown ca") != NULL))
        return "the server does not accept the client's certificate, or misses one";
    return curl_code == CURLE_SSL_CONNECT_ERROR ? "no TLS connection" : NULL;
}

static bool is_tunnel_refused(const struct httpc_request *r)
{
    return r->tunnel_status != 0 && r->tunnel_status / 100 != 2;
}

static int translate(const struct httpc_request *r, CURLcode curl_code)
{
    /* An enumeration of the library's, which grows: the rest is input and output. */
    if (curl_code == CURLE_COULDNT_CONNECT || curl_code == CURLE_COULDNT_RESOLVE_HOST ||
        curl_code == CURLE_OPERATION_TIMEDOUT || /* only the connect timeout is set */
        tls_trouble(r, curl_code) != NULL || is_tunnel_refused(r))
        return SP_CONNECT_FAILED;
    if (curl_code == CURLE_UNSUPPORTED_PROTOCOL || curl_code == CURLE_WEIRD_SERVER_REPLY ||
        r->is_coded || r->is_bad_chunk)
        return SP_PROTOCOL;
    if (r->fault != SP_OK)
        return r->fault;
    if (curl_code == CURLE_FILESIZE_EXCEEDED || r->is_too_big)
        return SP_TOO_BIG;
    if (curl_code == CURLE_WRITE_ERROR || curl_code == CURLE_OUT_OF_MEMORY)
        return SP_NO_MEMORY;
    return SP_IO;
}

int httpc_easy_error(const struct httpc_request *r, int curl_code, struct err *err)
{
    int code = translate(r, (CURLcode) curl_code);
    const char *trouble = tls_trouble(r, (CURLcode) curl_code);
    const char *text = r->error_text;

    if (text[0] == '\0')
        text = curl_easy_strerror((CURLcode) curl_code);
    if (r->fault == SP_BAD_REQUEST)
        text = "the body is not as long as announced";
    else if (r->fault != SP_OK)
        text = "too much of the body waits to be sent";
    else if (r->tunnel_reads > TUNNEL_ANSWER_MAX)
        text = "the answer to CONNECT is too long";
    else if (curl_code == CURLE_ABORTED_BY_CALLBACK)
        text = "the server hung up before the whole body was sent";
    else if (r->is_coded)
        text = "the answer has a transfer encoding other than chunked";
    else if (r->is_bad_chunk)
        text = "the chunks of the answer are damaged, or their extensions are too long";
    else if (code == SP_TOO_BIG)
        text = "the answer is larger than allowed";
    if (trouble != NULL)
        (void) err_set(err, code, "%s: %.120s", trouble, text);
    /* libcurl names a host that is not asked, or one that we made up. */
    else if (code == SP_CONNECT_FAILED && r->unix_socket != NULL)
        (void) err_set(err, code, "nothing answers at %s", r->unix_socket);
    else if (code == SP_CONNECT_FAILED && r->is_named)
        (void) err_set(err, code, "nothing answers at %.100s, port %s", r->host, r->port);
    else
        (void) err_set(err, code, "%s", text);
    err->sys = curl_code;
    return code;
}

static curl_socket_t on_open_socket(void *arg, curlsocktype purpose, struct curl_sockaddr *addr)
{
    (void) arg;
    (void) purpose;
    return socket(addr->family, addr->socktype | SOCK_CLOEXEC, addr->protocol);
}

/* --- what may be sent --- */

static bool has_control_char(const char *s)
{
    for (; *s != '\0'; s++)
        if ((unsigned char) *s < ' ' || *s == 0x7f)
            return true;
    return false;
}

/* A name would start a resolver thread, which cannot be cancelled. */
static bool needs_no_resolver(const char *host)
{
    char literal[INET6_ADDRSTRLEN];
    unsigned char addr[16];
    size_t len = strlen(host);

    if (strcasecmp(host, "localhost") == 0 || inet_pton(AF_INET, host, addr) == 1)
        return true;
    if (len < 3 || host[0] != '[' || host[len - 1] != ']' || len - 2 >= sizeof(literal))
        return false;
    memcpy(literal, host + 1, len - 2);
    literal[len - 2] = '\0';
    return inet_pton(AF_INET6, literal, addr) == 1;
}

static bool is_name(const char *host)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";
    size_t len = strlen(host);

    return len > 0 && len < RESOLVE_HOST && strspn(host, letters) == len;
}

/* libcurl's own parser says what scheme and host are, so it connects to the one that was checked. */
static int check_url(struct httpc_request *r, const char *text, bool may_be_named, struct err *err)
{
    CURLU *url = curl_url();
    char *scheme = NULL;
    char *host = NULL;
    char *port = NULL;
    int code = SP_OK;

    if (url == NULL)
        return err_set(err, SP_NO_MEMORY, "no memory for a request");
    if (curl_url_set(url, CURLUPART_URL, text, 0) != CURLUE_OK ||
        curl_url_get(url, CURLUPART_SCHEME, &scheme, 0) != CURLUE_OK ||
        curl_url_get(url, CURLUPART_HOST, &host, 0) != CURLUE_OK ||
        curl_url_get(url, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT) != CURLUE_OK ||
        (strcmp(scheme, "http") != 0 && strcmp(scheme, "https") != 0))
        code = err_set(err, SP_BAD_REQUEST, "'%.160s' is no HTTP address", text);
    else if (r->unix_socket == NULL && !needs_no_resolver(host)) {
        if (!may_be_named || !is_name(host))
            code = err_set(err, SP_BAD_REQUEST, "'%.100s' is not a host name", host);
        r->is_named = true;
    }
    if (code == SP_OK && (r->is_named || r->tunnel != NULL)) {
        snprintf(r->host, sizeof(r->host), "%s", host);
        snprintf(r->port, sizeof(r->port), "%s", port);
    }
    curl_free(scheme);
    curl_free(host);
    curl_free(port);
    curl_url_cleanup(url);
    return code;
}

static bool are_headers_good(const char *const *headers)
{
    for (; headers != NULL && *headers != NULL; headers++)
        if (has_control_char(*headers))
            return false;
    return true;
}

/* Host and port that are noted are the tunnel's: that is where the connection goes. */
static int check_tunnel(struct httpc_request *r, struct err *err)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    size_t len = strlen(r->tunnel_key);

    if (len == 0 || len > TUNNEL_KEY_MAX || strspn(r->tunnel_key, letters) != len)
        return err_set(err, SP_BAD_REQUEST, "the key of a tunnel is not of letters and digits");
    return check_url(r, r->tunnel, true, err);
}

int httpc_easy_check(struct httpc_request *r, struct err *err)
{
    int code;

    if (has_control_char(r->method) || has_control_char(r->url))
        return err_set(err, SP_BAD_REQUEST, "control character in a request line");
    r->is_named = false;
    if (!are_headers_good(r->headers) || !are_headers_good(r->tunnel_headers))
        return err_set(err, SP_BAD_REQUEST, "control character in a header"); /* maybe a secret */
    code = check_url(r, r->url, r->tunnel == NULL, err);
    if (code == SP_OK && r->tunnel != NULL)
        code = check_tunnel(r, err);
    return code;
}

/* --- options --- */

/* How long the body is, is said once, and by libcurl: two answers to that question are a hole. */
static bool is_ours(const char *header)
{
    static const char *const names[] = {"content-length:", "transfer-encoding:", "expect:"};

    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (strncasecmp(header, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

/* libcurl's defaults that nobody asked for are taken out. */
static bool add_headers(struct httpc_request *r)
{
    struct curl_slist *list = curl_slist_append(NULL, "Expect:");
    bool has_type = false;

    for (const char *const *h = r->headers; h != NULL && *h != NULL && list != NULL; h++) {
        struct curl_slist *longer = is_ours(*h) ? list : curl_slist_append(list, *h);

        has_type = has_type || strncasecmp(*h, "content-type:", 13) == 0;
        if (longer == NULL)
            curl_slist_free_all(list);
        list = longer;
    }
    if (list != NULL && !has_type)
        (void) curl_slist_append(list, "Content-Type:"); /* without memory the next step fails */
    r->header_list = list;
    return list != NULL;
}

/* libcurl keeps connections by the tunnel's host name, among other things: so that name is the key, and libcurl
 * is given its addresses. */
static bool add_tunnel(struct httpc_request *r)
{
    char addrs[RESOLVE_ADDRS * RESOLVE_TEXT + 64];
    char rule[sizeof(addrs) + TUNNEL_KEY_MAX + 16];
    size_t len = 0;

    if (!r->is_named)
        snprintf(addrs, sizeof(addrs), "%s",
                 strcasecmp(r->host, "localhost") == 0 ? "127.0.0.1" : r->host);
    for (size_t i = 0; r->is_named && i < r->lookup.addrs.count; i++)
        len += (size_t) snprintf(addrs + len, sizeof(addrs) - len, "%s%s", i > 0 ? "," : "",
                                 r->lookup.addrs.text[i]);
    snprintf(rule, sizeof(rule), "+%s:%s:%s", r->tunnel_key, r->port, addrs);
    r->resolve_list = curl_slist_append(NULL, rule);
    for (const char *const *h = r->tunnel_headers; h != NULL && *h != NULL; h++) {
        struct curl_slist *longer = curl_slist_append(r->tunnel_list, *h);

        if (longer == NULL)
            return false;
        r->tunnel_list = longer;
    }
    return r->resolve_list != NULL;
}

/* libcurl keeps connections and addresses by host name, and a name may move or mean several places. So
 * the connection is made to a host whose name is its addresses, and which is given to libcurl; the name of
 * the URL stays what the server sees and what its certificate is checked for. */
static bool add_target(struct httpc_request *r)
{
    char connect_to[RESOLVE_HOST + 8];
    char addrs[RESOLVE_ADDRS * RESOLVE_TEXT];
    char label[RESOLVE_ADDRS * 33 + 1];
    char rule[sizeof(label) + sizeof(addrs) + 16];
    size_t label_len = 0;
    size_t addrs_len = 0;

    for (size_t i = 0; i < r->lookup.addrs.count; i++) {
        const char *text = r->lookup.addrs.text[i];
        unsigned char bytes[16] = {0};
        bool is_six = strchr(text, ':') != NULL;

        (void) inet_pton(is_six ? AF_INET6 : AF_INET, text, bytes); /* made by inet_ntop() */
        for (size_t k = 0; k < (is_six ? 16 : 4); k++) {
            snprintf(label + label_len, sizeof(label) - label_len, "%02x", bytes[k]);
            label_len += 2;
        }
        label[label_len++] = i + 1 < r->lookup.addrs.count ? '-' : '\0';
        addrs_len += (size_t) snprintf(addrs + addrs_len, sizeof(addrs) - addrs_len, "%s%s",
                                       i > 0 ? "," : "", text);
    }
    snprintf(connect_to, sizeof(connect_to), "::%s:", label);
    snprintf(rule, sizeof(rule), "+%s:%s:%s", label, r->port, addrs);
    r->connect_list = curl_slist_append(NULL, connect_to);
    r->resolve_list = curl_slist_append(NULL, rule);
    return r->connect_list != NULL && r->resolve_list != NULL;
}

#define SET(option, value)                              \
    do {                                                \
        if (rc == CURLE_OK)                             \
            rc = curl_easy_setopt(easy, option, value); \
    } while (0)

static CURLcode set_message(CURL *easy, struct httpc_request *r)
{
    bool is_upload = r->body_len > 0 || strcmp(r->method, "POST") == 0 ||
                     strcmp(r->method, "PUT") == 0 || strcmp(r->method, "PATCH") == 0;
    CURLcode rc = CURLE_OK;

    SET(CURLOPT_URL, r->url);
    SET(CURLOPT_PATH_AS_IS, 1L);
    SET(CURLOPT_HTTPHEADER, (struct curl_slist *) r->header_list);
    if (r->is_body_streamed) {
        SET(CURLOPT_UPLOAD, 1L);
        SET(CURLOPT_INFILESIZE_LARGE, (curl_off_t) r->body_size);
        SET(CURLOPT_READFUNCTION, httpc_stream_on_read);
        SET(CURLOPT_READDATA, (void *) r);
    } else if (is_upload) {
        SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t) r->body_len);
        SET(CURLOPT_POSTFIELDS, r->body_len > 0 ? r->body : "");
    }
    if (strcmp(r->method, "HEAD") == 0)
        SET(CURLOPT_NOBODY, 1L);
    else if (r->response_max > 0 && r->on_data == NULL)
        SET(CURLOPT_MAXFILESIZE_LARGE, (curl_off_t) r->response_max);
    SET(CURLOPT_CUSTOMREQUEST, r->method);
    return rc;
}

static CURLcode set_transport(CURL *easy, const struct httpc_request *r,
                              uint64_t connect_timeout_ms)
{
    /* Read only: libcurl walks the list when it connects. */
    static char localhost_rule[] = "localhost::127.0.0.1:";
    static struct curl_slist connect_to = {.data = localhost_rule, .next = NULL};
    CURLcode rc = CURLE_OK;

    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_PROTOCOLS_STR, "http,https");
    SET(CURLOPT_HTTP_VERSION, (long) CURL_HTTP_VERSION_1_1);
    SET(CURLOPT_FOLLOWLOCATION, 0L);
    if (r->tunnel == NULL) {
        SET(CURLOPT_NOPROXY, "*");
        SET(CURLOPT_CONNECT_TO, r->is_named ? (struct curl_slist *) r->connect_list : &connect_to);
    }
    if (r->resolve_list != NULL)
        SET(CURLOPT_RESOLVE, (struct curl_slist *) r->resolve_list);
    SET(CURLOPT_DNS_CACHE_TIMEOUT, (long) RULE_S);
    SET(CURLOPT_CONNECTTIMEOUT_MS, (long) connect_timeout_ms);
    SET(CURLOPT_OPENSOCKETFUNCTION, on_open_socket);
    SET(CURLOPT_UNIX_SOCKET_PATH, r->unix_socket);
    if (r->want_fresh || (r->is_body_streamed && !r->may_reuse))
        SET(CURLOPT_FRESH_CONNECT, 1L);
    if (r->may_reuse) /* so that the server is not about to close it */
        SET(CURLOPT_MAXAGE_CONN, (long) REUSE_MAX_S);
    if (r->want_fresh)
        SET(CURLOPT_FORBID_REUSE, 1L);
    return rc;
}

static int on_tunnel_open(void *ctx, char *ip UNUSED, char *local_ip UNUSED, int port UNUSED,
                          int local_port UNUSED)
{
    struct httpc_request *r = ctx;

    r->is_tunnel_open = true;
    return CURL_PREREQFUNC_OK;
}

/* libcurl reads the answer to CONNECT byte by byte for as long as bytes are there, headers and body without a limit: a peer
 * that goes on sending would keep the loop for ever. It calls this for each byte. */
static int on_tunnel_read(void *ctx, curl_off_t down UNUSED, curl_off_t down_now UNUSED,
                          curl_off_t up UNUSED, curl_off_t up_now UNUSED)
{
    struct httpc_request *r = ctx;

    return !r->is_tunnel_open && ++r->tunnel_reads > TUNNEL_ANSWER_MAX;
}

static CURLcode set_tunnel(CURL *easy, struct httpc_request *r)
{
    char proxy[TUNNEL_KEY_MAX + 32];
    CURLcode rc = CURLE_OK;

    if (r->tunnel == NULL)
        return rc;
    snprintf(proxy, sizeof(proxy), "http://%s:%s", r->tunnel_key, r->port);
    SET(CURLOPT_PROXY, proxy);
    SET(CURLOPT_NOPROXY, "");
    SET(CURLOPT_HTTPPROXYTUNNEL, 1L);
    SET(CURLOPT_HEADEROPT, (long) CURLHEADER_SEPARATE);
    SET(CURLOPT_PROXYHEADER, (struct curl_slist *) r->tunnel_list);
    SET(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
    SET(CURLOPT_PREREQFUNCTION, on_tunnel_open);
    SET(CURLOPT_PREREQDATA, (void *) r);
    SET(CURLOPT_NOPROGRESS, 0L);
    SET(CURLOPT_XFERINFOFUNCTION, on_tunnel_read);
    SET(CURLOPT_XFERINFODATA, (void *) r);
    return rc;
}

/* Peer and name are always checked: libcurl's default, said aloud. It keeps connections with different
 * settings apart. */
static CURLcode set_tls(CURL *easy, const struct httpc_request *r)
{
    const struct httpc_tls *tls = r->tls;
    CURLcode rc = CURLE_OK;

    SET(CURLOPT_SSL_VERIFYPEER, 1L);
    SET(CURLOPT_SSL_VERIFYHOST, 2L);
    SET(CURLOPT_SSLVERSION, (long) CURL_SSLVERSION_TLSv1_2);
    SET(CURLOPT_CA_CACHE_TIMEOUT, (long) AUTHORITIES_S);
    if (tls != NULL && tls->ca_file != NULL) {
        SET(CURLOPT_CAINFO, tls->ca_file);
        SET(CURLOPT_CAPATH, NULL); /* otherwise the system's authorities count as well */
    }
    if (tls != NULL && tls->cert_file != NULL) {
        SET(CURLOPT_SSLCERT, tls->cert_file);
        SET(CURLOPT_SSLKEY, tls->key_file != NULL ? tls->key_file : tls->cert_file);
        SET(CURLOPT_KEYPASSWD, ""); /* otherwise OpenSSL asks on the terminal */
    }
    return rc;
}

static CURLcode set_callbacks(CURL *easy, struct httpc_request *r)
{
    CURLcode rc = CURLE_OK;

    if (r->on_data != NULL) /* streams are long; the default is 16 KiB a read */
        SET(CURLOPT_BUFFERSIZE, (long) STREAM_READ_SIZE);
    SET(CURLOPT_HTTP_TRANSFER_DECODING, 0L); /* see httpc_chunks.h */
    SET(CURLOPT_WRITEFUNCTION, httpc_stream_on_body);
    SET(CURLOPT_WRITEDATA, r);
    SET(CURLOPT_HEADERFUNCTION, httpc_stream_on_header);
    SET(CURLOPT_HEADERDATA, r);
    SET(CURLOPT_ERRORBUFFER, r->error_text);
    SET(CURLOPT_PRIVATE, r);
    return rc;
}

bool httpc_easy_set(struct httpc_request *r, uint64_t connect_timeout_ms)
{
    bool is_set = r->tunnel != NULL ? add_tunnel(r) : !r->is_named || add_target(r);

    return is_set && add_headers(r) && set_tunnel(r->easy, r) == CURLE_OK &&
           set_message(r->easy, r) == CURLE_OK &&
           set_transport(r->easy, r, connect_timeout_ms) == CURLE_OK &&
           set_tls(r->easy, r) == CURLE_OK && set_callbacks(r->easy, r) == CURLE_OK;
}
