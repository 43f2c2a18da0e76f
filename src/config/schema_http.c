/* schema_http.c - keys of the API on TCP, the limits of its server, and of calls to boxes. */
#include "config/table.h"

static const struct config_key keys[] = {
    GLOBAL(tcp.listen, STRING, 0, 0, CONFIG_NAME_MAX, "",
           "Address and port of the API on TCP, like 127.0.0.1:8001 or [::1]:8001. Callers need "
           "tokens (sandpool token create). Empty: none."),
    GLOBAL(tcp.tokens, MAP, RELOAD | CONFIG_SECRET, 16, 256, "",
           "Caller's name to bearer token of at least 16 characters. Best kept out of "
           "this file, like alice: ${ALICE_TOKEN}. Tokens with scopes and an end are made by "
           "'sandpool token create'."),
    GLOBAL(tcp.operators, LIST, RELOAD, 0, CONFIG_TEXT_MAX, "",
           "Names among the tokens whose callers may operate the pool."),
    GLOBAL(tcp.max_unproven, U64, RELOAD, 1, 100000, "256",
           "Open connections that have not sent a valid token yet; for one more the oldest "
           "of them is closed. Applies to the provisioner's listener too."),

    GLOBAL(tcp.public_url, STRING, RELOAD, 0, CONFIG_NAME_MAX, "",
           "The URL at which callers on TCP reach this listener, like https://pool.example.com "
           "behind a proxy; their sandbox_url begins with it. Empty: the Host that they send."),
    GLOBAL(
        tcp.max_requests, U64, 0, 1, 65536, "512",
        "Requests to boxes that may pass through this listener at once; one more is answered 503."),
    GLOBAL(tcp.max_requests_per_box, U64, RELOAD, 1, 65536, "64",
           "The same for one box; one more is answered 429."),
    GLOBAL(tcp.request_idle_s, U64, RELOAD, 1, DAY, "900",
           "Seconds without data after which such a request is aborted."),

    GLOBAL(tls.cert, PATH, RELOAD, 0, CONFIG_PATH_MAX, "",
           "TLS for tcp.listen and provisioner.listen: a PEM file with the certificate and those "
           "between it and the root. It, the key and client_ca are read again by a reload; if one "
           "of them is bad, nothing changes. Empty: plain HTTP."),
    GLOBAL(tls.key, PATH, RELOAD, 0, CONFIG_PATH_MAX, "", "Its key, PEM, without a passphrase."),
    GLOBAL(tls.client_ca, PATH, RELOAD, 0, CONFIG_PATH_MAX, "",
           "Certificates (PEM) of those who sign certificates of clients. Whoever shows one on "
           "tcp.listen and sends no token is the caller of its common name. Empty: none is asked "
           "for."),
    GLOBAL(tls.client_required, BOOL, RELOAD, 0, 0, "false",
           "Clients without such a certificate are refused, also those with a token."),

    GLOBAL(http.max_connections, U64, RELOAD, 1, 1000000, "12000",
           "Open connections; one more is answered 503 and closed. Operators on the Unix socket "
           "can always connect."),
    GLOBAL(http.share_percent, U64, RELOAD, 1, 100, "90",
           "One caller (a user id, or a token's name) may use this part of its own and the free "
           "connections together, and TCP this part of all connections. The rest is kept for "
           "others."),
    GLOBAL(http.max_header_bytes, SIZE, RELOAD, KIB, MIB, "16k",
           "Longest request line and headers together; more is answered 431."),
    GLOBAL(http.max_body_bytes, SIZE, RELOAD, KIB, 1024 * MIB, "1M",
           "Longest body that is held in memory; more is answered 413."),
    GLOBAL(http.max_buffered, SIZE, RELOAD, 16 * MIB, 1024 * GIB, "256M",
           "Memory for all connections together: answers that are not read, requests that are "
           "not complete. One caller may use share_percent of what it has and what is free; "
           "more is answered 503 and closed."),
    GLOBAL(http.header_timeout_s, U64, RELOAD, 1, 3600, "10",
           "Seconds a request may take to arrive once it has begun. Its body may take "
           "longer when it comes faster than 8 KiB per second."),
    GLOBAL(http.idle_timeout_s, U64, RELOAD, 1, DAY, "300",
           "Seconds a connection may stay open without a request."),
    GLOBAL(http.write_timeout_s, U64, RELOAD, 1, 3600, "30",
           "Seconds a caller may take nothing of its answer before the connection is "
           "closed."),

    GLOBAL(calls.max, U64, 0, 1, 65536, "4096",
           "Calls that may run at once: commands, jobs, files and ports of boxes that are used "
           "through the daemon. One more is answered 429. A sixteenth is for operators only."),
    GLOBAL(calls.max_per_box, U64, RELOAD, 1, 65536, "200",
           "The same for one box; operators may have 8 more. Its agent serves 256 connections."),
    GLOBAL(calls.share_percent, U64, RELOAD, 1, 100, "90",
           "One caller may use this part of its own and the free calls together."),
    GLOBAL(calls.idle_timeout_s, U64, RELOAD, 1, DAY, "3600",
           "Seconds without data in either direction after which a call is ended with 504. The "
           "command goes on."),

    GLOBAL(snapshots.max, U64, 0, 1, 65536, "1024",
           "Snapshots that may be kept, of all callers together. One more is answered 429."),
    GLOBAL(snapshots.hibernated_max, U64, RELOAD, 1, 1000000, "10000",
           "Hibernated sandboxes (park: snapshot) that may be kept, of all callers together. When "
           "there are so many, boxes end as they do without park: snapshot."),
    GLOBAL(snapshots.hibernated_share_percent, U64, RELOAD, 1, 100, "90",
           "One caller may use only this part of what it has of them and what is free. When it "
           "hibernates one more, its oldest one is deleted."),
    GLOBAL(snapshots.hibernated_envs, SIZE, RELOAD, 0, 64 * GIB, "64M",
           "Memory for the variables of hibernated sandboxes, of all callers together; one caller "
           "may use hibernated_share_percent of what it has and what is free. A box beyond that "
           "hibernates without its variables."),
    GLOBAL(snapshots.max_per_caller, U64, RELOAD, 0, 65536, "0",
           "The same for one caller (a user id, or a token's name). 0: half of snapshots.max."),
    GLOBAL(snapshots.max_bytes, SIZE, RELOAD, 0, 1024 * 1024 * GIB, "0",
           "No further snapshot is made once those that there are take this much space. 0: no "
           "limit."),
    GLOBAL(snapshots.max_bytes_per_caller, SIZE, RELOAD, 0, 1024 * 1024 * GIB, "0",
           "The same for the snapshots of one caller. 0: no limit."),
    GLOBAL(snapshots.keep_s, U64, RELOAD, 0, 10 * 365 * DAY, "0",
           "Seconds after which a snapshot is deleted that nobody has made a box from. 0: they are "
           "kept until somebody deletes them."),
    GLOBAL(snapshots.import_max, SIZE, RELOAD, 16 * MIB, 1024 * GIB, "16G",
           "The largest disk of a snapshot that is imported. It is a little larger than what is in "
           "it. So much is set aside while it comes; what it does not need is given back."),
};

const struct config_table config_table_http = {keys, ARRAY_LEN(keys)};
