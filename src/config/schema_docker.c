/* schema_docker.c - keys of a profile that only backend docker has. */
#include "config/table.h"

static const char *const inject_names[] = {"auto", "mount", "upload", NULL};
static const char *const pull_names[] = {"missing", "always", "never", NULL};
static const char *const disk_names[] = {"auto", "places", "none", NULL};
static const char *const reach_names[] = {"port", "address", NULL};

static_assert(ARRAY_LEN(inject_names) == CONFIG_INJECT_COUNT + 1, "a name for each way");
static_assert(ARRAY_LEN(pull_names) == CONFIG_PULL_COUNT + 1, "a name for each moment");
static_assert(ARRAY_LEN(disk_names) == CONFIG_DISK_COUNT + 1, "a name for each way");
static_assert(ARRAY_LEN(reach_names) == CONFIG_REACH_COUNT + 1, "a name for each way");

static const struct config_key keys[] = {
    PROFILE(docker.host, STRING, CONFIG_SPEC | CONFIG_ADDRESS | CONFIG_OF_BACKEND, 0,
            CONFIG_PATH_MAX, "",
            "Where the engine listens: unix:///path or tcp://host:port. Empty: $DOCKER_HOST, else "
            "unix:///var/run/docker.sock."),
    PROFILE(docker.tls_ca, PATH, CONFIG_OF_BACKEND, 0, CONFIG_PATH_MAX, "",
            "For tcp://: the certificate authority (PEM) that signed the engine's certificate. "
            "If any of the three is set, only TLS is used. None of them: when $DOCKER_TLS_VERIFY "
            "is set, ca.pem, cert.pem and key.pem of $DOCKER_CERT_PATH. Of several profiles of "
            "one engine the first counts."),
    PROFILE(docker.tls_cert, PATH, CONFIG_OF_BACKEND, 0, CONFIG_PATH_MAX, "",
            "The certificate (PEM) that this daemon shows to the engine."),
    PROFILE(docker.tls_key, PATH, CONFIG_OF_BACKEND, 0, CONFIG_PATH_MAX, "",
            "The key (PEM) of that certificate."),
    PROFILE_CHOICE(docker.pull, CONFIG_OF_BACKEND, pull_names, "missing",
                   "When the image is fetched, at the daemon's start and before a box is made. "
                   "missing: when the engine does not have it. always: its registry is checked "
                   "for a newer one, at most once a minute. never: the engine must have it."),
    PROFILE(docker.auth_file, PATH, CONFIG_OF_BACKEND, 0, CONFIG_PATH_MAX, "",
            "A config.json of Docker with the user names and passwords of registries (`auths`), "
            "read at each pull. Credential helpers are not run."),
    PROFILE(docker.adopt_prefix, STRING, CONFIG_OF_BACKEND, 0, 40, "",
            "Adopts containers of other processes: a running container whose name is this "
            "prefix, a dash and a sandbox's id, without labels of any sandpool, is leased to the "
            "first caller that acquires that id, if it answers at its published docker.port. It "
            "has no token. From then on it belongs to that owner like any other box and ends by "
            "the same rules. Until then it is not touched: it may be in use. Needs `discover: "
            "true`. Of several profiles with the same prefix on one engine the first counts. If "
            "the prefix is removed, adopted containers are no longer managed after the next "
            "start, but they keep running. Empty: nothing is adopted."),
    PROFILE(docker.container_prefix, STRING, CONFIG_SPEC | CONFIG_OF_BACKEND, 1, 40, "sandpool",
            "The name of a container is this prefix, a dash and the sandbox's id."),
    PROFILE(docker.user, STRING, CONFIG_SPEC | CONFIG_OF_BACKEND, 0, CONFIG_NAME_MAX, "",
            "The user of everything in the container: name or number, optionally with :group. "
            "Empty: the image's own user."),
    PROFILE(docker.network, STRING, CONFIG_SPEC | CONFIG_OF_BACKEND, 1, CONFIG_NAME_MAX, "bridge",
            "The engine's network that is used for `network: nat`."),
    PROFILE_CHOICE(docker.inject, CONFIG_OF_BACKEND, inject_names, "auto",
                   "How the agent is put into the container. mount: this machine's file is "
                   "mounted read-only, which costs nothing but needs an engine on this machine. "
                   "upload: copied into each container. auto: mount over a Unix socket, else "
                   "upload."),
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
            "Seconds one call to the engine may take; after that the engine is asked for the "
            "result. Of several profiles of one engine the first counts."),
    PROFILE(docker.creates, U64, CONFIG_OF_BACKEND, 1, 64, "8",
            "Containers that are made at once on one engine, by all its profiles. Of several "
            "the first counts."),
    PROFILE(docker.volumes, LIST, CONFIG_SPEC | CONFIG_OF_BACKEND, 0, CONFIG_TEXT_MAX, "",
            "Named volumes of the engine in every box: name:/there, name:/there:ro. All boxes "
            "share the same volume, so a box can read what another wrote. Never removed by "
            "sandpool."),
    PROFILE(docker.tmpfs, MAP, CONFIG_SPEC | CONFIG_OF_BACKEND, 0, CONFIG_PATH_MAX, "",
            "File systems in memory, which counts as memory of the box: path in the box to "
            "options among size=64m, mode=1777, uid=, gid=, nr_inodes= and exec, separated by "
            "commas. Always nosuid and nodev, and noexec without exec."),
    PROFILE(docker.shm_size, SIZE, CONFIG_SPEC | CONFIG_OF_BACKEND, 0, TIB, "0",
            "Size of /dev/shm, which browsers and databases need. 0: what the engine gives, "
            "mostly 64M."),
    PROFILE_CHOICE(
        docker.disk, CONFIG_SPEC | CONFIG_OF_BACKEND, disk_names, "auto",
        "What limits.disk limits. auto: all that a box writes, where the engine's storage driver "
        "can do that (overlay2 on xfs with pquota, btrfs, zfs), elsewhere what it writes to its "
        "working directory, its home, /tmp and /var/tmp together, which needs root and an engine "
        "on this machine; the rest of the container, or where that cannot be all of it, stays "
        "without a limit, and `sandpool doctor` says so. places: as auto, but without at least "
        "those directories no box is made. none: nothing."),
    PROFILE(docker.gpus, STRING, CONFIG_SPEC | CONFIG_OF_BACKEND, 0, CONFIG_PATH_MAX, "",
            "Graphics processors: all, how many, or which: device=0,1. The engine needs the "
            "vendor's container toolkit. Empty: none."),
    PROFILE(docker.cap_add, LIST, CONFIG_SPEC | CONFIG_OF_BACKEND, 0, CONFIG_TEXT_MAX, "",
            "Capabilities of a box by name, like NET_RAW. Empty: a box that runs as root has "
            "CHOWN, DAC_OVERRIDE, FOWNER, SETGID, SETUID and, for our agent, KILL, any other has "
            "none. The engine's own seccomp list stays on, and no program gains privileges by "
            "setuid. Some capabilities, like SYS_ADMIN, make it possible to escape from the "
            "container."),
    PROFILE(docker.stop_grace_s, U64, CONFIG_SPEC | CONFIG_OF_BACKEND, 0, 600, "0",
            "Seconds that the processes of a box have to end after a SIGTERM when it is "
            "destroyed. Less than destroy_timeout_s. 0: killed at once."),
    PROFILE(docker.kernel_memory, SIZE, CONFIG_OF_BACKEND, 0, 64 * GIB, "128M",
            "How much memory of the machine a box may hold by file locks and open directories, "
            "which the kernel charges to nobody. A box with more is ended (`kernel_memory`). 128M: "
            "5461 open directories or 699050 locks. 0: no bound. Not for an engine at tcp://. Of "
            "several profiles of one engine the first counts."),
};

const struct config_table config_table_docker = {keys, ARRAY_LEN(keys)};
