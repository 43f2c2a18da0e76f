/* schema_provisioner.c - keys of the daemon as the provisioner of DeerFlow. */
#include "config/table.h"

static const char *const boxes_names[] = {"proxy", "open", NULL};

static_assert(ARRAY_LEN(boxes_names) == CONFIG_BOXES_COUNT + 1, "a name for each way");

static const struct config_key keys[] = {
    GLOBAL(provisioner.enabled, BOOL, 0, 0, 0, "false",
           "Whether DeerFlow's provisioner API is served: point its sandbox.provisioner_url here."),
    GLOBAL(provisioner.listen, STRING, 0, 1, CONFIG_NAME_MAX, "127.0.0.1:8002",
           "Address and port of it, like 0.0.0.0:8002 or [::1]:8002."),
    GLOBAL(
        provisioner.api_key, STRING, RELOAD | CONFIG_SECRET, 0, CONFIG_PATH_MAX, "",
        "What callers send as X-API-Key, at least 16 characters; DeerFlow's provisioner_api_key. "
        "Best kept out of this file, like ${PROVISIONER_API_KEY}. Without a key every call is "
        "refused."),
    GLOBAL(provisioner.api_key_file, PATH, RELOAD, 0, CONFIG_PATH_MAX, "",
           "A file whose first line is the key, instead of api_key. Read at start and reload."),
    GLOBAL(provisioner.profile, STRING, RELOAD, 1, CONFIG_NAME_MAX, "default",
           "The profile its boxes are taken from."),
    GLOBAL(provisioner.thread_data, PATH, RELOAD, 0, CONFIG_PATH_MAX, "",
           "Where on this machine a thread's /mnt/user-data is, like "
           "/srv/deer-flow/users/{user_id}/threads/{thread_id}/user-data: it outlives the box. "
           "Missing directories below the part without braces are made, for the owner of that part "
           "(1000 if that is root). Empty: it is in the box and is deleted with it."),
    CHOICE(provisioner.boxes, RELOAD, boxes_names, "proxy",
           "DeerFlow sends no token to a box. proxy: it talks to the box through this listener, "
           "at an address nobody can guess, and the daemon adds the token; anyone who knows the "
           "address can use the box. open: the box no longer requires its token and is reached "
           "on its own port. DANGER: then every user of this machine, and every box with "
           "`network: host`, can run commands in it and read its files."),
    GLOBAL(provisioner.advertise_host, STRING, RELOAD, 0, CONFIG_NAME_MAX, "",
           "Host, or host:port, of the sandbox_url with proxy. Empty: the one the caller used to "
           "reach this listener."),
    GLOBAL(provisioner.wait_ms, U64, RELOAD, 0, 3600000, "25000",
           "How long a create waits for a box. DeerFlow gives up after 30 seconds."),
    GLOBAL(provisioner.ttl_s, U64, RELOAD, 0, YEAR, "0",
           "Seconds until the daemon destroys such a box. 0: never, DeerFlow destroys it."),
    GLOBAL(provisioner.idle_timeout_s, U64, RELOAD, 0, YEAR, "0",
           "Seconds such a box may stand idle before it is destroyed. 0: never."),
    GLOBAL(provisioner.max_connections, U64, RELOAD, 1, 100000, "1024",
           "Open connections to it; one more is answered 503 and closed. Those that came by "
           "the address of a box may use http.share_percent of them; idle ones make way."),
    GLOBAL(provisioner.max_requests, U64, 0, 1, 65536, "512",
           "Requests that may pass through the proxy at once; one more is answered 503."),
    GLOBAL(provisioner.max_requests_per_box, U64, RELOAD, 1, 65536, "64",
           "The same for one box; one more is answered 429."),
    GLOBAL(provisioner.request_idle_s, U64, RELOAD, 1, DAY, "900",
           "Seconds without data after which a request in the proxy is aborted. DeerFlow's "
           "commands can run for up to 600 seconds without output."),
};

const struct config_table config_table_provisioner = {keys, ARRAY_LEN(keys)};
