/* schema.c - the one table of configuration keys. A key that is here is parsed, validated, printed,
 * documented and compared at reload; nothing else in the tree lists keys. The field of struct
 * config and the path in the file have the same name, so each entry says it once. */
#include "config/schema.h"

#include <string.h>

static const char *const level_names[] = {"debug", "info", "warn", "error", NULL};
static const char *const format_names[] = {"logfmt", "json", NULL};
static const char *const durability_names[] = {"auto", "process", "power", NULL};

static const char *const network_names[] = {"none", "host", "nat", NULL};

static const char *const sockets_names[] = {"any", "unix", NULL};
static const char *const agent_names[] = {"inject", "image", NULL};
static const char *const inject_names[] = {"auto", "mount", "upload", NULL};
static const char *const pull_names[] = {"missing", "always", "never", NULL};
static const char *const reach_names[] = {"port", "address", NULL};

static const char *const boxes_names[] = {"proxy", "open", NULL};

static_assert(ARRAY_LEN(boxes_names) == CONFIG_BOXES_COUNT + 1, "a name for each way");
static_assert(ARRAY_LEN(reach_names) == CONFIG_REACH_COUNT + 1, "a name for each way");
static_assert(ARRAY_LEN(sockets_names) == CONFIG_SOCKETS_COUNT + 1, "a name for each");
static_assert(ARRAY_LEN(agent_names) == CONFIG_AGENT_COUNT + 1, "a name for each agent");
static_assert(ARRAY_LEN(inject_names) == CONFIG_INJECT_COUNT + 1, "a name for each way");
static_assert(ARRAY_LEN(pull_names) == CONFIG_PULL_COUNT + 1, "a name for each moment");
static_assert(ARRAY_LEN(network_names) == CONFIG_NETWORK_COUNT + 1, "a name for each network");
static_assert(ARRAY_LEN(level_names) == LOG_LEVEL_COUNT + 1, "a name for each level");
static_assert(ARRAY_LEN(format_names) == LOG_FORMAT_COUNT + 1, "a name for each format");
static_assert(ARRAY_LEN(durability_names) == CONFIG_DURABILITY_COUNT + 1, "a name for each");
static_assert(sizeof(enum log_level) == sizeof(unsigned), "value.c stores enums as unsigned");

#define DAY (24 * 60 * 60)
#define YEAR (366 * DAY)
#define KIB 1024
#define MIB (1024 * 1024)
#define GIB (1024ULL * MIB)
#define TIB (1024ULL * GIB)

#define RELOAD CONFIG_RELOADABLE
/* clang-format off */
#define GLOBAL(field, kind, flag, lo, hi, value, text) \
    {#field, CONFIG_TYPE_##kind, flag, offsetof(struct config, field), lo, hi, value, NULL, text}
#define CHOICE(field, flag, names, value, text) \
    {#field, CONFIG_TYPE_ENUM, flag, offsetof(struct config, field), 0, 0, value, names, text}
#define PROFILE(field, kind, flag, lo, hi, value, text) \
    {CONFIG_PROFILE_PREFIX #field, CONFIG_TYPE_##kind, RELOAD | (flag), \
     offsetof(struct config_profile, field), lo, hi, value, NULL, text}
#define PROFILE_CHOICE(field, flag, names, value, text) \
    {CONFIG_PROFILE_PREFIX #field, CONFIG_TYPE_ENUM, RELOAD | (flag), \
     offsetof(struct config_profile, field), 0, 0, value, names, text}
/* clang-format on */

const struct config_key config_keys[] = {
    GLOBAL(instance, STRING, 0, 0, CONFIG_NAME_MAX, "",
           "Name of this daemon. Its boxes carry it, and boxes of other instances are "
           "never touched. Empty: made up at the first start and kept in the state "
           "directory."),
    GLOBAL(state_dir, PATH, 0, 1, CONFIG_PATH_MAX, "/var/lib/sandpool",
           "Directory of the database and the lock. One daemon per directory."),
    GLOBAL(operator_uids, LIST, RELOAD, 0, CONFIG_TEXT_MAX, "",
           "User ids that may operate the pool (pause, drain, reload, see and destroy "
           "the boxes of others) over the Unix socket, beside root and the daemon's own."),

    CHOICE(log.level, RELOAD, level_names, "info", "What is logged: this level and worse."),
    CHOICE(log.format, RELOAD, format_names, "logfmt", "How a line looks."),

    GLOBAL(socket.path, PATH, 0, 1, CONFIG_PATH_MAX, "/run/sandpool/sandpool.sock",
           "Where the API listens. At most 107 bytes: the kernel's limit for socket "
           "paths."),
    GLOBAL(socket.mode, MODE, 0, 0, 0777, "0660",
           "File mode of the socket, octal. Who can write to it can use the API."),
    GLOBAL(socket.group, STRING, 0, 0, CONFIG_NAME_MAX, "",
           "Group the socket is given to. Empty: the daemon's own group."),

    GLOBAL(tcp.listen, STRING, 0, 0, CONFIG_NAME_MAX, "",
           "Address and port of the API on TCP, like 127.0.0.1:8001 or [::1]:8001. Needs "
           "tokens. Empty: none."),
    GLOBAL(tcp.tokens, MAP, RELOAD | CONFIG_SECRET, 16, 256, "",
           "Caller's name to bearer token of at least 16 characters. Best kept out of "
           "this file, like alice: ${ALICE_TOKEN}."),
    GLOBAL(tcp.operators, LIST, RELOAD, 0, CONFIG_TEXT_MAX, "",
           "Names among the tokens whose callers may operate the pool."),
    GLOBAL(tcp.max_unproven, U64, RELOAD, 1, 100000, "256",
           "Open connections that have not sent a valid token yet; for one more the oldest "
           "of them is closed. Applies to the provisioner's listener too."),

    GLOBAL(tcp.public_url, STRING, RELOAD, 0, CONFIG_NAME_MAX, "",
           "What callers on TCP reach this listener as, like https://pool.example.com when a proxy "
           "stands before it; their sandbox_url begins with it. Empty: what they send as Host."),
    GLOBAL(
        tcp.max_requests, U64, 0, 1, 65536, "512",
        "Requests to boxes that may pass through this listener at once; one more is answered 503."),
    GLOBAL(tcp.max_requests_per_box, U64, RELOAD, 1, 65536, "64",
           "The same for one box; one more is answered 429."),
    GLOBAL(tcp.request_idle_s, U64, RELOAD, 1, DAY, "900",
           "Seconds such a request may stand still before it is given up."),

    GLOBAL(http.max_connections, U64, RELOAD, 1, 1000000, "12000",
           "Open connections; one more is answered 503 and closed. Operators on the Unix "
           "socket get in all the same."),
    GLOBAL(http.share_percent, U64, RELOAD, 1, 100, "90",
           "Of the connections that it has and that are free, one caller (a user id, or a "
           "token's name) may use this part, and TCP this part of all. The rest is kept "
           "for others."),
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

    GLOBAL(pool.max_boxes, U64, 0, 1, 100000, "1000",
           "Boxes that may exist at once, those being made and destroyed included. Never "
           "exceeded."),
    GLOBAL(pool.max_waiters, U64, 0, 1, 1000000, "4096",
           "Callers that may wait for a box at once; one more is answered 429."),
    GLOBAL(pool.share_percent, U64, 0, 1, 100, "90",
           "Of the places in the queue that it has and that are free, one caller (a user "
           "id, or a token's name) may use this part. The rest is kept for other callers."),
    GLOBAL(pool.default_wait_ms, U64, RELOAD, 0, 3600000, "30000",
           "How long an acquire waits for a box when it does not say."),
    GLOBAL(pool.max_wait_ms, U64, RELOAD, 0, 3600000, "600000",
           "The longest wait an acquire may ask for."),
    GLOBAL(pool.reconcile_interval_s, U64, RELOAD, 1, DAY, "60",
           "Seconds between two comparisons of what the backends run with what is "
           "recorded."),

    CHOICE(store.durability, 0, durability_names, "auto",
           "What a committed lease survives: process is any crash of the daemon, power "
           "is also a crash of the machine. auto: power when a backend's boxes outlive "
           "this machine, else process."),
    GLOBAL(store.queue_max, U64, 0, 16, 10000000, "65536",
           "Changes that may wait to be written; when full, new leases are answered 503."),
    GLOBAL(store.events_max, U64, 0, 100, 100000000, "100000",
           "Events kept in the audit trail; the oldest go first."),
    GLOBAL(store.min_free, SIZE, RELOAD, 0, 64 * TIB, "512M",
           "Free space of the file system that holds the database and the disks of boxes, below "
           "which no new box is made. Boxes that exist can still be used, released and "
           "destroyed. 0: no floor."),
    GLOBAL(
        store.timeout_s, U64, 0, 1, 3600, "10",
        "Seconds the disk may take for a change. When one takes longer, callers are answered 503 "
        "until it is done."),

    GLOBAL(mounts.allow, LIST, 0, 0, CONFIG_TEXT_MAX, "",
           "Directories of this machine whose contents may be mounted into boxes, by a profile "
           "or by a caller. Symbolic links that lead out of them are refused. Empty: none."),

    GLOBAL(oci.id_base, U64, 0, 65536, 0x7fff0000, "1610612736",
           "First of the user and group ids that boxes get, 65536 each, so that no box shares "
           "one with another or with this machine. The range must be free."),
    GLOBAL(oci.agent, PATH, 0, 0, CONFIG_PATH_MAX, "",
           "The sandpool-agent that is put into boxes, those of docker too. Empty: the one beside "
           "the daemon."),
    GLOBAL(oci.helper, PATH, 0, 0, CONFIG_PATH_MAX, "",
           "The program that makes and removes boxes for the daemon. Empty: the sandpool-helper "
           "beside the daemon."),

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
    GLOBAL(
        provisioner.thread_data, PATH, RELOAD, 0, CONFIG_PATH_MAX, "",
        "Where on this machine a thread's /mnt/user-data is, like "
        "/srv/deer-flow/users/{user_id}/threads/{thread_id}/user-data: it outlives the box. What is "
        "missing below the part without braces is made, for the owner of that part (1000 "
        "where it is root's). Empty: it is in the box and goes with it."),
    CHOICE(provisioner.boxes, RELOAD, boxes_names, "proxy",
           "DeerFlow sends no token to a box. proxy: it talks to the box through this listener, at "
           "an address nobody can guess, and the daemon adds the token; whoever learns the address "
           "has the box. open: the box itself stops asking for its token and is reached on its own "
           "port. DANGER: then every user of this machine, and every box with `network: host`, can "
           "run commands in it and read its files."),
    GLOBAL(provisioner.advertise_host, STRING, RELOAD, 0, CONFIG_NAME_MAX, "",
           "Host, or host:port, of the sandbox_url with proxy. Empty: the one the caller used to "
           "reach this listener."),
    GLOBAL(provisioner.wait_ms, U64, RELOAD, 0, 3600000, "25000",
           "How long a create waits for a box. DeerFlow gives up after 30 seconds."),
    GLOBAL(provisioner.ttl_s, U64, RELOAD, 0, YEAR, "0",
           "Seconds until such a box is destroyed by itself. 0: never, DeerFlow destroys it."),
    GLOBAL(provisioner.idle_timeout_s, U64, RELOAD, 0, YEAR, "0",
           "Seconds such a box may stand idle before it is destroyed. 0: never."),
    GLOBAL(provisioner.max_connections, U64, RELOAD, 1, 100000, "1024",
           "Open connections to it; one more is answered 503 and closed."),
    GLOBAL(provisioner.max_requests, U64, 0, 1, 65536, "512",
           "Requests that may pass through the proxy at once; one more is answered 503."),
    GLOBAL(provisioner.max_requests_per_box, U64, RELOAD, 1, 65536, "64",
           "The same for one box; one more is answered 429."),
    GLOBAL(provisioner.request_idle_s, U64, RELOAD, 1, DAY, "900",
           "Seconds a request in the proxy may stand still before it is given up. DeerFlow's "
           "commands run for up to 600 without a word."),

    PROFILE(
        backend, STRING, CONFIG_SPEC | CONFIG_ADDRESS, 1, CONFIG_NAME_MAX, "oci",
        "Where the boxes come from. oci: real boxes on this machine, by an OCI runtime. "
        "docker: containers of a Docker engine. remote: whatever a provisioner makes, like Pods "
        "of a cluster. sim: simulated boxes, to try things out."),
    PROFILE(runtime, STRING, CONFIG_SPEC, 0, CONFIG_PATH_MAX, "",
            "OCI runtime: crun, runc, runsc or a path. Empty: the first of crun, runc and runsc "
            "that can start a box here; `sandpool doctor` shows which and why. For docker: a "
            "runtime the engine knows by this name (Podman: none); empty: the engine's default."),
    PROFILE(rootfs, STRING, CONFIG_SPEC, 1, CONFIG_PATH_MAX, "host",
            "What a box sees as its file system, under a layer of its own. host: this machine's "
            "/usr and a few files of /etc, nothing of homes, root, run or var. Or the path of a "
            "directory that holds a whole system."),
    PROFILE(image, STRING, CONFIG_SPEC, 0, CONFIG_PATH_MAX, "",
            "Instead of rootfs: an OCI layout (oci:/path[:tag]), a docker archive "
            "(docker-archive:/path.tar) or a registry's image (docker://name), unpacked once by "
            "skopeo and umoci. For docker: a name as the engine knows it (debian:12), required, "
            "pulled when it is missing."),
    PROFILE(user, STRING, CONFIG_SPEC, 1, CONFIG_NAME_MAX, "user",
            "Who runs commands and owns files in a box unless a caller says otherwise. For docker "
            "see docker.user."),
    PROFILE_CHOICE(network, CONFIG_SPEC, network_names, "none",
                   "none: loopback only. nat: out through this machine, by pasta or slirp4netns "
                   "(docker: a network of the engine, see docker.network). "
                   "host: this machine's own network, loopback services included: no isolation."),
    PROFILE_CHOICE(
        sockets, CONFIG_SPEC, sockets_names, "any",
        "Only for oci with `network: none`. unix: a box makes Unix sockets only, no connections even "
        "to itself: those of the internet hold memory that the kernel charges to nobody (SECURITY.md)."),
    PROFILE(
        limits.memory, SIZE, CONFIG_SPEC, 0, TIB, "1G",
        "Memory of a box. 0: no limit. The number of its sockets follows from it (docs/oci.md)."),
    PROFILE(limits.cpus, MILLI, CONFIG_SPEC, 0, 1024 * 1000, "1",
            "Processors of a box, like 0.5 or 2. 0: no limit."),
    PROFILE(limits.pids, U64, CONFIG_SPEC, 0, 4194304, "512",
            "Processes and threads of a box. 0: no limit."),
    PROFILE(limits.disk, SIZE, CONFIG_SPEC, 0, 64 * TIB, "2G",
            "Space a box may fill. 0: no limit. Needs loop devices; without them there is none, "
            "and `sandpool doctor` says so. Not for docker."),
    PROFILE(mounts, LIST, CONFIG_SPEC, 0, CONFIG_TEXT_MAX, "",
            "Directories and files of this machine in every box: /here:/there, /here:/there:ro. "
            "Only from below mounts.allow."),
    PROFILE_CHOICE(agent, CONFIG_SPEC, agent_names, "inject",
                   "Only for docker. inject: sandpool-agent is put into the container and serves "
                   "it, so that any image will do. image: the image serves the API itself; its "
                   "key is in SANDBOX_API_KEY. image needs `network: nat`."),
    PROFILE(warm.min, U64, 0, 0, 100000, "2", "Ready boxes that are always kept."),
    PROFILE(warm.max, U64, 0, 0, 100000, "8",
            "Ready boxes that are kept under load: the number in between follows the "
            "arrivals."),
    PROFILE(warm.shrink_after_s, U64, 0, 1, DAY, "60",
            "Seconds without need after which a surplus box is removed."),
    PROFILE(warm.check_s, U64, 0, 0, DAY, "30",
            "A ready box that has not answered for this many seconds is asked before it is handed "
            "out; each is asked twice in this time. 0: never."),
    PROFILE(
        create.concurrency, U64, 0, 0, 1000, "0",
        "Boxes that are made at once. For remote: creates that the provisioner has not answered "
        "yet; a box that only has to become ready does not count. 0: 4, for remote 16."),
    PROFILE(create.timeout_s, U64, 0, 1, 3600, "60", "Seconds the backend may take to make one."),
    PROFILE(create.backoff_min_ms, U64, 0, 1, 3600000, "200",
            "Pause after the first failure; doubled by each further one."),
    PROFILE(create.backoff_max_ms, U64, 0, 1, 3600000, "30000", "The longest such pause."),
    PROFILE(create.breaker_failures, U64, 0, 1, 1000, "5",
            "Failures in a row after which callers are refused at once instead of "
            "waiting."),
    PROFILE(ready_timeout_s, U64, 0, 1, 3600, "60",
            "Seconds a new box may take to answer; then it is destroyed."),
    PROFILE(destroy_timeout_s, U64, 0, 1, 3600, "30",
            "Seconds a destroy may take; then 202 is answered, and it is tried again."),
    PROFILE(ttl_s, U64, 0, 0, YEAR, "3600",
            "Seconds a lease lasts unless renewed; then the box is destroyed. 0: never."),
    PROFILE(idle_timeout_s, U64, 0, 0, YEAR, "600",
            "Seconds a leased box may stand idle, without requests and processes. 0: for ever."),
    PROFILE(park_timeout_s, U64, 0, 0, YEAR, "600",
            "Seconds a released box is kept for its thread. 0: release destroys it."),
    PROFILE(max_age_s, U64, 0, 0, YEAR, "86400",
            "Seconds after which a box that nobody holds is replaced (jittered). 0: "
            "never."),
    PROFILE(
        check_after_s, U64, 0, 0, DAY, "1",
        "Only for remote, whose provisioner does not tell of deaths: a box that has not answered "
        "for this many seconds is asked before it is handed out, ready, parked or kept. 0: "
        "always. The other backends tell of a death at once."),
    PROFILE(discover, BOOL, 0, 0, 0, "false",
            "Whether an acquire first asks the backend for a box that another process made "
            "under the thread's id. Costs every new thread a question to the backend; the "
            "daemon's own boxes are known without it."),
    PROFILE(personal, BOOL, 0, 0, 0, "false",
            "Whether each box is made for the thread that asks, under its id and user. None are "
            "kept warm then, whatever warm says. For provisioners that mount a thread's own data."),
    PROFILE(env, MAP, CONFIG_SECRET | CONFIG_SPEC, 0, 8192, "",
            "Environment of the boxes: NAME: value. Changing it replaces the ready boxes."),
    PROFILE(docker.host, STRING, CONFIG_SPEC | CONFIG_ADDRESS | CONFIG_OF_BACKEND, 0,
            CONFIG_PATH_MAX, "",
            "Where the engine listens: unix:///path or tcp://host:port. Empty: $DOCKER_HOST, else "
            "unix:///var/run/docker.sock."),
    PROFILE(docker.tls_ca, PATH, CONFIG_OF_BACKEND, 0, CONFIG_PATH_MAX, "",
            "For tcp://: the authority (PEM) that vouches for the engine. With any of the three "
            "the engine is spoken to over TLS only. None of them: when $DOCKER_TLS_VERIFY is set, "
            "ca.pem, cert.pem and key.pem of $DOCKER_CERT_PATH. Of several profiles of one engine "
            "the first counts."),
    PROFILE(docker.tls_cert, PATH, CONFIG_OF_BACKEND, 0, CONFIG_PATH_MAX, "",
            "The certificate (PEM) that this daemon shows to the engine."),
    PROFILE(docker.tls_key, PATH, CONFIG_OF_BACKEND, 0, CONFIG_PATH_MAX, "",
            "The key (PEM) of that certificate."),
    PROFILE_CHOICE(docker.pull, CONFIG_OF_BACKEND, pull_names, "missing",
                   "When the image is fetched, at the daemon's start and before a box is made. "
                   "missing: when the engine does not have it. always: its registry is asked for "
                   "a newer one, at most once a minute. never: it must be there."),
    PROFILE(docker.auth_file, PATH, CONFIG_OF_BACKEND, 0, CONFIG_PATH_MAX, "",
            "A config.json of Docker with the user names and passwords of registries (`auths`), "
            "read at each pull. Credential helpers are not run."),
    PROFILE(docker.adopt_prefix, STRING, CONFIG_OF_BACKEND, 0, 40, "",
            "Adopts what another process runs: a running container called by this, a dash and a "
            "sandbox's id, without labels of any sandpool, is given to the first who acquires "
            "that id, when it answers at its published docker.port. It has no token. From then "
            "on it is that owner's like any other box and ends by the same rules. Until then it "
            "is not touched: it may be in use. Needs `discover: true`. Of several profiles with "
            "the same prefix on one engine the first counts. When the prefix is taken away, those "
            "that were adopted are given up at the next start, but not ended. Empty: nothing is "
            "adopted."),
    PROFILE(docker.container_prefix, STRING, CONFIG_SPEC | CONFIG_OF_BACKEND, 1, 40, "sandpool",
            "Containers are called by this, a dash and the sandbox's id."),
    PROFILE(docker.user, STRING, CONFIG_SPEC | CONFIG_OF_BACKEND, 0, CONFIG_NAME_MAX, "",
            "Who everything in the container runs as: name or number, with :group. Empty: the "
            "image's own user."),
    PROFILE(docker.network, STRING, CONFIG_SPEC | CONFIG_OF_BACKEND, 1, CONFIG_NAME_MAX, "bridge",
            "The engine's network that `network: nat` means."),
    PROFILE_CHOICE(docker.inject, CONFIG_OF_BACKEND, inject_names, "auto",
                   "How the agent comes into the container. mount: this machine's file is mounted "
                   "read-only, which costs nothing but needs an engine on this machine. upload: "
                   "copied into each container. auto: mount over a Unix socket, else upload."),
    PROFILE(docker.port, U64, CONFIG_SPEC | CONFIG_OF_BACKEND, 1, 65535, "8080",
            "Port in the container that an image with `agent: image` serves."),
    PROFILE_CHOICE(
        docker.reach, CONFIG_SPEC | CONFIG_OF_BACKEND, reach_names, "port",
        "How a box with `network: nat` is reached. port: the engine publishes a port, see "
        "docker.bind_host. address: nothing is published, the box is called at its own "
        "address on docker.network, for a daemon on the engine's machine or in a "
        "container of the same network."),
    PROFILE(docker.bind_host, STRING, CONFIG_SPEC | CONFIG_OF_BACKEND, 1, CONFIG_NAME_MAX,
            "127.0.0.1", "Address of the engine's machine on which ports are published."),
    PROFILE(docker.url_host, STRING, CONFIG_SPEC | CONFIG_OF_BACKEND, 1, CONFIG_NAME_MAX,
            "127.0.0.1",
            "Address under which published ports are reached from here: for an engine elsewhere, "
            "or a daemon that runs in a container itself."),
    PROFILE(docker.call_timeout_s, U64, CONFIG_OF_BACKEND, 1, 3600, "30",
            "Seconds one call to the engine may take; then the engine is asked what became of "
            "it. Of several profiles of one engine the first counts."),
    PROFILE(docker.creates, U64, CONFIG_OF_BACKEND, 1, 64, "8",
            "Containers that are made at once on one engine, by all its profiles. Of several "
            "the first counts."),
    PROFILE(docker.volumes, LIST, CONFIG_SPEC | CONFIG_OF_BACKEND, 0, CONFIG_TEXT_MAX, "",
            "Named volumes of the engine in every box: name:/there, name:/there:ro. All boxes see "
            "the same one, so what a box can write another can read. Never removed by us."),
    PROFILE(docker.tmpfs, MAP, CONFIG_SPEC | CONFIG_OF_BACKEND, 0, CONFIG_PATH_MAX, "",
            "File systems in memory, which counts as the box's: path in the box to options among "
            "size=64m, mode=1777, uid=, gid=, nr_inodes= and exec, separated by commas. Always "
            "nosuid and nodev, and noexec without exec."),
    PROFILE(docker.shm_size, SIZE, CONFIG_SPEC | CONFIG_OF_BACKEND, 0, TIB, "0",
            "Size of /dev/shm, which browsers and databases need. 0: what the engine gives, "
            "mostly 64M."),
    PROFILE(docker.gpus, STRING, CONFIG_SPEC | CONFIG_OF_BACKEND, 0, CONFIG_PATH_MAX, "",
            "Graphics processors: all, how many, or which: device=0,1. The engine needs the "
            "vendor's container toolkit. Empty: none."),
    PROFILE(docker.cap_add, LIST, CONFIG_SPEC | CONFIG_OF_BACKEND, 0, CONFIG_TEXT_MAX, "",
            "Capabilities of a box by name, like NET_RAW. Without: a box that runs as root has "
            "CHOWN, DAC_OVERRIDE, FOWNER, SETGID, SETUID and, for our agent, KILL, any other has "
            "none. The engine's own seccomp list stays on, and no program gains rights by setuid. "
            "Some, like SYS_ADMIN, open the way out of the container."),
    PROFILE(docker.stop_grace_s, U64, CONFIG_SPEC | CONFIG_OF_BACKEND, 0, 600, "0",
            "Seconds that what runs in a box has to end by itself, after a SIGTERM, when it is "
            "destroyed. Less than destroy_timeout_s. 0: killed at once."),
    PROFILE(
        remote.provisioner_url, STRING, CONFIG_SPEC | CONFIG_ADDRESS | CONFIG_OF_BACKEND, 0,
        CONFIG_PATH_MAX, "",
        "Where the provisioner answers, like http://provisioner:8002. Required. Profiles of one "
        "provisioner must say it the same way; of what follows, the first of them counts."),
    PROFILE(
        remote.provisioner_api_key, STRING, CONFIG_SECRET | CONFIG_OF_BACKEND, 0, CONFIG_PATH_MAX,
        "",
        "Sent as X-API-Key. Best kept out of this file, like ${PROVISIONER_API_KEY}. Empty: that "
        "of another profile of the same provisioner, or none is sent."),
    PROFILE(remote.provisioner_api_key_file, PATH, CONFIG_OF_BACKEND, 0, CONFIG_PATH_MAX, "",
            "A file whose first line is the key, instead of provisioner_api_key. Read at start and "
            "reload."),
    PROFILE(remote.create_timeout_s, U64, CONFIG_OF_BACKEND, 1, 3600, "30",
            "Seconds one answer to a create may take. Later ones are not lost: the provisioner is "
            "asked for the box by its id, as long as create.timeout_s allows."),
    PROFILE(remote.destroy_timeout_s, U64, CONFIG_OF_BACKEND, 1, 3600, "15",
            "The same for a delete, which is repeated until the box is known to be gone."),
    PROFILE(remote.get_timeout_s, U64, CONFIG_OF_BACKEND, 1, 3600, "10",
            "The same for a question about one box. No answer means that nothing is known."),
    PROFILE(remote.list_timeout_s, U64, CONFIG_OF_BACKEND, 1, 3600, "10",
            "The same for the list of all boxes."),
    PROFILE(remote.max_shell_sessions, U64, CONFIG_SPEC | CONFIG_OF_BACKEND, 0, 10000, "0",
            "Shell sessions a box must have room for; a provisioner that knows the field makes it "
            "so. 0: as the provisioner likes."),
    PROFILE(sim.socket, PATH, CONFIG_SPEC | CONFIG_ADDRESS | CONFIG_OF_BACKEND, 0, CONFIG_PATH_MAX,
            "",
            "Socket of a sandpool-sim, whose boxes outlive this daemon. Empty: boxes "
            "inside this process."),
    PROFILE(sim.create_ms, U64, CONFIG_OF_BACKEND, 0, 3600000, "50",
            "How long making a box takes."),
    PROFILE(sim.create_jitter_ms, U64, CONFIG_OF_BACKEND, 0, 3600000, "20",
            "Up to this much more, at random."),
    PROFILE(sim.ready_ms, U64, CONFIG_OF_BACKEND, 0, 3600000, "0",
            "How long a box of sandpool-sim answers 503 before it is ready."),
    PROFILE(sim.destroy_ms, U64, CONFIG_OF_BACKEND, 0, 3600000, "10",
            "How long destroying one takes."),
    PROFILE(sim.fail_percent, U64, CONFIG_OF_BACKEND, 0, 100, "0",
            "How many creates of a hundred fail."),
    PROFILE(sim.hang_percent, U64, CONFIG_OF_BACKEND, 0, 100, "0",
            "How many creates of a hundred never answer."),
    PROFILE(sim.seed, U64, CONFIG_OF_BACKEND, 0, UINT64_MAX, "1",
            "Start of the random numbers: the same seed, the same run."),
    PROFILE(sim.late, BOOL, CONFIG_OF_BACKEND, 0, 0, "true",
            "Whether a box takes envs, mounts and limits while it runs. false: only when it is "
            "made, so one is made for each caller that brings some."),
    {.path = NULL},
};

const struct config_section config_sections[] = {
    {"log", "Logs go to standard error."},
    {"socket", "The API on a Unix socket."},
    {"tcp", "The API on TCP, for callers on other machines."},
    {"http", "Limits of the API's server, for both kinds of socket."},
    {"pool", "Limits of the whole pool."},
    {"store", "The database of boxes, leases and events."},
    {"mounts", "What of this machine may be mounted into boxes."},
    {"oci", "For backend oci."},
    {"provisioner", "The daemon as the provisioner of DeerFlow, on a TCP listener of its own."},
    {"profiles",
     "Recipes of boxes by name (lower-case letters, digits, '.', '_', '-'). `default` always "
     "exists; what a profile leaves out has the value shown here."},
    {"profiles.*.warm", "How many boxes are kept ready."},
    {"profiles.*.create", "Making boxes, and what happens when that fails."},
    {"profiles.*.limits", "What a box may use."},
    {"profiles.*.docker", "Only for backend docker."},
    {"profiles.*.remote",
     "Only for backend remote. What a box is like is the provisioner's business: image, user, "
     "network, limits and env of the profile mean nothing to it; mounts are passed on."},
    {"profiles.*.sim", "Only for backend sim."},
    {NULL, NULL},
};

bool config_key_is_profile(const struct config_key *k)
{
    return strncmp(k->path, CONFIG_PROFILE_PREFIX, strlen(CONFIG_PROFILE_PREFIX)) == 0;
}

const char *config_key_name(const struct config_key *k)
{
    return config_key_is_profile(k) ? k->path + strlen(CONFIG_PROFILE_PREFIX) : k->path;
}

const struct config_key *config_key_find(bool is_profile, const char *name)
{
    for (const struct config_key *k = config_keys; k->path != NULL; k++) {
        if (config_key_is_profile(k) == is_profile && strcmp(config_key_name(k), name) == 0)
            return k;
    }
    return NULL;
}

bool config_section_exists(bool is_profile, const char *name)
{
    size_t len = strlen(name);

    for (const struct config_key *k = config_keys; k->path != NULL; k++) {
        const char *path = config_key_name(k);

        if (config_key_is_profile(k) == is_profile && strncmp(path, name, len) == 0 &&
            path[len] == '.')
            return true;
    }
    return false;
}
