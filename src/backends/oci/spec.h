/* spec.h - from a profile to the runtime's config.json. Pure: no clock, no file, no process. */
#ifndef OCI_SPEC_H
#define OCI_SPEC_H

#include "base/buf.h"
#include "config/config.h"

/* Where the agent finds what it needs, inside the box. */
#define OCI_AGENT_PATH "/.sandpool/agent"
#define OCI_AGENT_SOCKET "/.sandpool/run/agent.sock" /* where no descriptor comes in */
#define OCI_USER_ID 1000
#define OCI_USER "1000:1000" /* the same, for an image */
#define OCI_WORKSPACE "/workspace"
#define OCI_BUS_LEN 64 /* of a name below /sys/devices */

struct oci_spec {
    const struct config_profile *profile;
    const char *rootfs;   /* root.path */
    const char *hostname; /* the box id */
    const char *token;    /* goes into the agent's environment, which wipes it */
    const char *cgroup;   /* "/sandpool-<instance>/<box id>" */
    uint32_t id_base;     /* host uid and gid of the box's root */
    uint32_t id_count;
    unsigned host_cpus;
    const char (*disk_buses)[OCI_BUS_LEN]; /* names below /sys/devices: disks of the machine */
    unsigned disk_bus_count;
    bool has_cpuset;    /* the box may be tied to some of them */
    unsigned first_cpu; /* where this box's cpuset begins, so that boxes spread */
    bool is_cgroup_v2;
    unsigned terminals;  /* its share of the machine's; 0: CONFIG_TERMINALS_MAX */
    bool has_syncookies; /* the kernel has net.ipv4.tcp_syncookies */
    uint64_t
        max_files;    /* for a process; 0: as much as we like. Without CAP_SYS_RESOURCE the runtime
                             cannot go above the daemon's own hard limit (RLIMIT_NOFILE) */
    bool has_cgroups; /* false: rootless without delegation, no limits can be set */
    bool is_in_group; /* the runtime is started in the box's control group, and knows of none */
    bool has_swap_limit; /* the kernel counts swap per cgroup (memory.memsw.limit_in_bytes,
                             memory.swap.max of any group below the root) */
    bool has_ipv6;       /* the kernel has it */
    bool has_user_ns;    /* false for runtimes that isolate otherwise (runsc) */
    bool is_rootless;    /* the box lies in the user namespace of whoever runs the runtime */
    const char *user_ns; /* a file that is the box's user namespace; NULL: the runtime makes one */
    const char *guard; /* a Unix socket on which the box's requests for sockets are answered; NULL:
                             they are allowed, by a runtime with its own kernel */
    const char *const *image_env;  /* NAME=value of the image, ends with NULL; may be NULL */
    const char *const *agent_args; /* what follows OCI_AGENT_PATH; ends with NULL */
};

/* How many sockets the box may have, Unix sockets not counted; 0: as many as it likes. */
uint64_t oci_spec_sockets(const struct oci_spec *s);
/* How many files a process of the box may have open. */
uint64_t oci_spec_files(const struct oci_spec *s);
/* The text of config.json. */
void oci_spec_print(const struct oci_spec *s, struct buf *out);

#endif
