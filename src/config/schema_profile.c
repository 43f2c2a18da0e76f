/* schema_profile.c - keys that every profile has, whatever its backend. */
#include <string.h>

#include "base/str.h"
#include "config/table.h"

static const char *const network_names[] = {"none", "host", "nat", NULL};
static const char *const sockets_names[] = {"any", "unix", NULL};
static const char *const agent_names[] = {"inject", "image", NULL};
static const char *const park_names[] = {"run", "freeze", "snapshot", NULL};

static_assert(ARRAY_LEN(network_names) == CONFIG_NETWORK_COUNT + 1, "a name for each network");
static_assert(ARRAY_LEN(sockets_names) == CONFIG_SOCKETS_COUNT + 1, "a name for each");
static_assert(ARRAY_LEN(agent_names) == CONFIG_AGENT_COUNT + 1, "a name for each agent");
static const char *const drift_names[] = {"keep", "destroy", "rebase", NULL};

static_assert(ARRAY_LEN(drift_names) == CONFIG_DRIFT_COUNT + 1, "a name for each");
static_assert(ARRAY_LEN(park_names) == CONFIG_PARK_COUNT + 1, "a name for each");

static const struct config_key keys[] = {
    PROFILE(extends, STRING, 0, 0, CONFIG_NAME_MAX, "",
            "Another profile, whose values this one has where it gives none. Lists are replaced; "
            "env, labels and docker.tmpfs are joined, name by name. Empty: none."),
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
            "The file system of a box, below a writable layer of its own. host: this machine's "
            "/usr and a few files of /etc, but not /home, /root, /run or /var. Or the path of a "
            "directory with a complete system."),
    PROFILE(image, STRING, CONFIG_SPEC, 0, CONFIG_PATH_MAX, "",
            "Instead of rootfs: an OCI layout (oci:/path[:tag]), a docker archive "
            "(docker-archive:/path.tar) or a registry's image (docker://name), unpacked once by "
            "skopeo and umoci. For docker: a name as the engine knows it (debian:12), required, "
            "pulled when it is missing."),
    PROFILE(
        snapshot, STRING, CONFIG_SPEC, 0, 16, "",
        "The id of a snapshot that every box of this profile is made from, so that its blank boxes "
        "are warm copies of it; whoever owns it. It cannot be deleted meanwhile. Backends oci and "
        "docker; rootfs or image lie below it."),
    PROFILE(user, STRING, CONFIG_SPEC, 1, CONFIG_NAME_MAX, "user",
            "The user that runs commands and owns files in a box, unless a caller names another. "
            "For docker see docker.user."),
    PROFILE_CHOICE(network.mode, CONFIG_SPEC, network_names, "none",
                   "none: loopback only. nat: out through this machine, by pasta or slirp4netns "
                   "(docker: a network of the engine, see docker.network). "
                   "host: this machine's own network, loopback services included: no isolation."),
    PROFILE(
        network.allow, LIST, CONFIG_SPEC, 1, EGRESS_TEXT_MAX, CONFIG_ALLOW_ANY,
        "Only for oci with `mode: nat`. What boxes may reach, and nothing else: names (example.com), all names "
        "below one (*.example.com), IPv4 networks (192.0.2.0/24). Private networks and addresses of clouds' "
        "metadata only if a network names them. any: whatever this machine reaches (docs/oci.md)."),
    PROFILE_CHOICE(
        sockets, CONFIG_SPEC, sockets_names, "any",
        "Only for oci with `network: none`. unix: a box makes Unix and netlink sockets only, no "
        "connections even to itself: internet sockets use memory that the kernel does not count for the box "
        "(SECURITY.md)."),
    PROFILE(
        terminals, U64, CONFIG_SPEC, 0, CONFIG_TERMINALS_MAX, "256",
        "Only for oci. Terminals that a box may have at once; fewer where the machine has fewer for each box. 0: "
        "none, jobs with a pty and /v1/shell are refused: what is typed into a terminal uses processor time that "
        "the kernel does not count for the box (SECURITY.md)."),
    PROFILE(
        limits.memory, SIZE, CONFIG_SPEC, 0, TIB, "1G",
        "Memory of a box. 0: no limit. The number of its sockets follows from it (docs/oci.md)."),
    PROFILE(limits.cpus, MILLI, CONFIG_SPEC, 0, 1024 * 1000, "1",
            "Processors of a box, like 0.5 or 2. 0: no limit."),
    PROFILE(limits.pids, U64, CONFIG_SPEC, 0, 4194304, "512",
            "Processes and threads of a box. 0: no limit."),
    PROFILE(limits.disk, SIZE, CONFIG_SPEC, 0, 64 * TIB, "2G",
            "Disk space of a box. 0: no limit. Needs loop devices; without them there is no "
            "limit, and `sandpool doctor` reports it. Not for docker."),
    PROFILE(
        mounts, LIST, CONFIG_SPEC, 0, CONFIG_TEXT_MAX, "",
        "Directories and files of this machine in every box: /here:/there, /here:/there:ro. "
        "Only from below mounts.allow. With {user_id}, {thread_id}, {sandbox_id} or {principal} as parts "
        "of /here, a directory of the box's owner, mounted when a box gets one and made if it is "
        "missing, for the owner of the directory that the names begin in (1000 if that is root)."),
    PROFILE_CHOICE(agent, CONFIG_SPEC, agent_names, "inject",
                   "Only for docker. inject: sandpool-agent is put into the container and serves "
                   "the API, so that any image can be used. image: the image serves the API "
                   "itself; its key is in SANDBOX_API_KEY. image needs `network: nat`."),
    PROFILE(warm.min, U64, 0, 0, 100000, "2", "Ready boxes that are always kept."),
    PROFILE(warm.max, U64, 0, 0, 100000, "8",
            "Ready boxes that are kept under load: the number between min and max follows the "
            "rate of acquires."),
    PROFILE(warm.shrink_after_s, U64, 0, 1, DAY, "60",
            "Seconds after which a box that is no longer needed is removed."),
    PROFILE(warm.check_s, U64, 0, 0, DAY, "30",
            "A ready box that has not answered for this many seconds is probed before it is "
            "leased; each is probed twice in this time. 0: never."),
    PROFILE(
        create.concurrency, U64, 0, 0, 1000, "0",
        "Boxes that are made at once. For remote: creates that the provisioner has not answered "
        "yet; a box that only has to become ready does not count. Those made with what one caller "
        "asked for leave one to other callers, unless it is the only one. 0: 4, for remote 16."),
    PROFILE(create.timeout_s, U64, 0, 1, 3600, "60", "Seconds the backend may take to make one."),
    PROFILE(create.backoff_min_ms, U64, 0, 1, 3600000, "200",
            "Pause after the first failure; doubled by each further one."),
    PROFILE(create.backoff_max_ms, U64, 0, 1, 3600000, "30000", "The longest such pause."),
    PROFILE(create.breaker_failures, U64, 0, 1, 1000, "5",
            "Failures in a row after which callers are refused at once instead of "
            "waiting."),
    PROFILE(ready_timeout_s, U64, 0, 1, 3600, "60",
            "Seconds a new box may take to answer; then it is destroyed."),
    PROFILE(
        setup.command, STRING, CONFIG_SPEC | CONFIG_LINES, 0, CONFIG_TEXT_MAX, "",
        "A shell command that is run once in every new box, as the box's root (docker: as the "
        "container's user), before anybody gets it. It is run again if the daemon ends in the middle. "
        "A box in which it fails is destroyed, as one that cannot be made. Write $$ for a dollar. Empty: none."),
    PROFILE(setup.timeout_s, U64, 0, 1, 3600, "60", "Seconds it may take."),
    PROFILE(warm_up.command, STRING, CONFIG_SPEC | CONFIG_LINES, 0, CONFIG_TEXT_MAX, "",
            "The same after setup, as the box's user: what makes the first real command fast, like "
            "`python3 -c 'import pandas'`. What it leaves running keeps the box from being idle."),
    PROFILE(warm_up.timeout_s, U64, 0, 1, 3600, "60", "Seconds it may take."),
    PROFILE(destroy_timeout_s, U64, 0, 1, 3600, "30",
            "Seconds a destroy may take; then the answer is 202, and the daemon tries again."),
    PROFILE(ttl_s, U64, 0, 0, YEAR, "3600",
            "Seconds a lease lasts unless renewed; then the box is destroyed. 0: never."),
    PROFILE(ttl_max_s, U64, 0, 0, YEAR, "0",
            "Seconds after which a lease ends at the latest, however long it asks for and however "
            "often it is renewed. 0: never."),
    PROFILE(idle_timeout_s, U64, 0, 0, YEAR, "600",
            "Seconds a leased box may stand idle, without requests and processes. 0: for ever."),
    PROFILE(
        leak_after_s, U64, 0, 0, YEAR, "0",
        "Seconds after which a lease that is still held is reported once: an event (leak), a line in "
        "the log, a metric, a mark in lists. Nothing is done to it. 0: never."),
    PROFILE(park_timeout_s, U64, 0, 0, YEAR, "600",
            "Seconds a released box is kept for its thread. 0: release destroys it."),
    PROFILE_CHOICE(park, 0, park_names, "run",
                   "What a released box does meanwhile. run: its processes go on; freeze: they "
                   "stand still until its thread comes back, use no CPU, and give back what "
                   "memory the kernel takes (oci, docker); "
                   "snapshot: they go on, and when park_timeout_s is over (0: at once) the box "
                   "becomes a snapshot that its thread's next acquire restores. One whose ttl_s or "
                   "idle_timeout_s is over likewise."),
    PROFILE_CHOICE(
        on_drift, 0, drift_names, "keep",
        "What becomes of a parked box, at its thread's next acquire, that was made before its profile was "
        "changed (image, rootfs, limits and all else that boxes are made from). keep: the thread gets it as it "
        "is; destroy: it ends, and the thread gets a new one; rebase: the thread gets a box as the profile is "
        "now with the files that the old one has written (`source: restored`), and its processes end (oci, which "
        "needs limits.disk, and docker as root with an engine on this machine). Hibernated ones of oci come back "
        "on the new base in any case, those of docker with rebase."),
    PROFILE(
        hibernate_max_s, U64, 0, 0, YEAR, "2592000",
        "With park: snapshot or durable: seconds for which a hibernated sandbox is kept. 0: until "
        "it is acquired or destroyed."),
    PROFILE(
        durable, BOOL, CONFIG_SPEC, 0, 0, "false",
        "Only for oci. Whether what a box of a thread has written outlives a reboot, a power cut and the "
        "box's own death: the thread's next acquire gets a box with the same files "
        "(`source: restored`); processes are gone. Writes then wait for the disk where a "
        "program syncs. Needs limits.disk."),
    PROFILE(max_age_s, U64, 0, 0, YEAR, "86400",
            "Seconds after which a box that nobody holds is replaced (jittered). 0: "
            "never."),
    PROFILE(
        check_after_s, U64, 0, 0, DAY, "1",
        "Only for remote, whose provisioner does not report deaths: a box that has not answered "
        "for this many seconds is probed before it is leased or returned to its owner. 0: "
        "always. The other backends report a death at once."),
    PROFILE(discover, BOOL, 0, 0, 0, "false",
            "Whether an acquire first asks the backend for a box that another process made under "
            "the thread's id. Every new thread costs a call to the backend; the daemon's own "
            "boxes are known without it."),
    PROFILE(personal, BOOL, 0, 0, 0, "false",
            "Whether each box is made for the thread that asks, under its id and user. None are "
            "kept warm then, whatever warm says. For provisioners that mount a thread's own data."),
    PROFILE(env, MAP, CONFIG_SECRET | CONFIG_SPEC, 0, 8192, "",
            "Environment of the boxes: NAME: value. Changing it replaces the ready boxes."),
    PROFILE(labels, MAP, 0, 0, CONFIG_NAME_MAX, "",
            "What callers can choose a profile by, like gpu: none. Up to 64 letters, digits and "
            ". _ - / each; a value may be empty. Boxes do not see them."),
};

const char *config_network_name(enum config_network network)
{
    return network_names[network];
}

const char *config_egress(const struct config_profile *p)
{
    bool has_list = p->network.mode == CONFIG_NETWORK_NAT && !str_is_empty(p->network.allow) &&
                    strcmp(p->network.allow, CONFIG_ALLOW_ANY) != 0;

    return has_list ? p->network.allow : NULL;
}

const struct config_table config_table_profile = {keys, ARRAY_LEN(keys)};
