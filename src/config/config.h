/* config.h - the configuration as the daemon uses it. Every key is described once, in the table of
 * config/schema*.c: that table parses, validates, prints and documents it. */
#ifndef CONFIG_CONFIG_H
#define CONFIG_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/egress.h"
#include "base/err.h"
#include "base/log.h"

#define CONFIG_NAME_MAX 64
#define CONFIG_PATH_MAX 256
#define CONFIG_TERMINALS_MAX 256U
#define CONFIG_TEXT_MAX 1024
#define CONFIG_CURRENCY_MAX 8
#define CONFIG_MICROS_MAX 32
#define CONFIG_BUDGET_MAX 1000000000000000ULL /* millionths */
#define CONFIG_CLOSED_MAX 16
#define CONFIG_PROFILES_MAX 64
#define CONFIG_ALLOW_ANY "any" /* of network.allow */
#define CONFIG_MAP_MAX 64
#define CONFIG_FILE_MAX (1024 * 1024)

/* All backends; the sections that only one of them has are named after it. */
#define CONFIG_BACKEND_OCI "oci"
#define CONFIG_BACKEND_DOCKER "docker"
#define CONFIG_BACKEND_REMOTE "remote"
#define CONFIG_BACKEND_SIM "sim"
extern const char *const config_backends[]; /* ends with NULL */

/* Name to text, in the order of the file. */
struct config_map {
    unsigned count;
    struct config_pair {
        char *key;
        char *value;
    } * pairs;
};

enum config_period { CONFIG_PERIOD_TOTAL, CONFIG_PERIOD_MONTH, CONFIG_PERIOD_COUNT };

enum config_durability {
    CONFIG_DURABILITY_AUTO,
    CONFIG_DURABILITY_PROCESS,
    CONFIG_DURABILITY_POWER,
    CONFIG_DURABILITY_COUNT
};

enum config_network {
    CONFIG_NETWORK_NONE,
    CONFIG_NETWORK_HOST,
    CONFIG_NETWORK_NAT,
    CONFIG_NETWORK_COUNT
};

/* Which sockets a box may make. */
enum config_sockets { CONFIG_SOCKETS_ANY, CONFIG_SOCKETS_UNIX, CONFIG_SOCKETS_COUNT };

/* Which program serves the API in a box. */
enum config_agent { CONFIG_AGENT_INJECT, CONFIG_AGENT_IMAGE, CONFIG_AGENT_COUNT };

enum config_inject {
    CONFIG_INJECT_AUTO,
    CONFIG_INJECT_MOUNT,
    CONFIG_INJECT_UPLOAD,
    CONFIG_INJECT_COUNT
};

/* When Docker has to fetch a profile's image. */
enum config_pull { CONFIG_PULL_MISSING, CONFIG_PULL_ALWAYS, CONFIG_PULL_NEVER, CONFIG_PULL_COUNT };

/* At which address a container with its own network is reached. */
enum config_reach { CONFIG_REACH_PORT, CONFIG_REACH_ADDRESS, CONFIG_REACH_COUNT };

/* What limits.disk means for a container. */
enum config_disk { CONFIG_DISK_AUTO, CONFIG_DISK_PLACES, CONFIG_DISK_NONE, CONFIG_DISK_COUNT };

/* How callers of the provisioner reach their boxes. */
enum config_boxes { CONFIG_BOXES_PROXY, CONFIG_BOXES_OPEN, CONFIG_BOXES_COUNT };

/* By what an acquire of the profile CONFIG_AUTO gets one. */
#define CONFIG_AUTO "auto"
enum config_auto {
    CONFIG_AUTO_ORDERED,
    CONFIG_AUTO_CHEAPEST,
    CONFIG_AUTO_FASTEST,
    CONFIG_AUTO_COUNT
};

/* What boxes cost, each in millionths of a currency. The last four are for what is counted: nobody knows before what they
 * will come to. */
enum config_rate {
    CONFIG_RATE_START, /* once for each lease */
    CONFIG_RATE_HOUR,
    CONFIG_RATE_CPU_HOUR,     /* for each processor of limits.cpus */
    CONFIG_RATE_GB_HOUR,      /* for each GB (1024^3 bytes) of limits.memory */
    CONFIG_RATE_DISK_GB_HOUR, /* of limits.disk */
    CONFIG_RATE_USED_CPU_HOUR,
    CONFIG_RATE_USED_GB_HOUR,
    CONFIG_RATE_USED_NET_GB,
    CONFIG_RATE_USED_DISK_GB,
    CONFIG_RATE_COUNT,
    CONFIG_RATE_USED = CONFIG_RATE_USED_CPU_HOUR /* the first of them */
};

/* What becomes of a parked box that its profile has left behind. */
enum config_drift {
    CONFIG_DRIFT_KEEP,
    CONFIG_DRIFT_DESTROY,
    CONFIG_DRIFT_REBASE,
    CONFIG_DRIFT_COUNT
};
/* What a parked box does. */
enum config_park { CONFIG_PARK_RUN, CONFIG_PARK_FREEZE, CONFIG_PARK_SNAPSHOT, CONFIG_PARK_COUNT };

struct config_profile {
    char name[CONFIG_NAME_MAX + 1];
    char extends[CONFIG_NAME_MAX + 1]; /* "": no other profile */
    char backend[CONFIG_NAME_MAX + 1];
    char runtime[CONFIG_PATH_MAX + 1]; /* "": the first that works */
    char rootfs[CONFIG_PATH_MAX + 1];  /* "host", or a directory; not used with an image */
    char image[CONFIG_PATH_MAX + 1];   /* "": none */
    char snapshot[17];                 /* its id: boxes are made from it; "": none */
    char user[CONFIG_NAME_MAX + 1];    /* of the box, who runs commands */
    struct {
        enum config_network mode;
        char allow[EGRESS_TEXT_MAX + 1]; /* see base/egress.h; CONFIG_ALLOW_ANY: no list */
    } network;
    enum config_sockets sockets;
    uint64_t terminals; /* at most; 0: none at all */
    enum config_agent agent;
    struct {
        uint64_t memory; /* bytes; 0: no limit */
        uint64_t cpus;   /* thousandths; 0: no limit */
        uint64_t pids;   /* 0: no limit */
        uint64_t disk;   /* bytes; 0: no limit */
    } limits;
    char mounts[CONFIG_TEXT_MAX + 1]; /* "/host:/box:ro" each, comma separated */
    struct {
        uint64_t min;
        uint64_t max;
        uint64_t shrink_after_s;
        uint64_t check_s; /* 0: never */
    } warm;
    struct {
        uint64_t concurrency;
        uint64_t timeout_s;
        uint64_t backoff_min_ms;
        uint64_t backoff_max_ms;
        uint64_t breaker_failures;
    } create;
    uint64_t ready_timeout_s;
    struct config_command {
        char command[CONFIG_TEXT_MAX + 1]; /* "": none */
        uint64_t timeout_s;
    } setup, warm_up;
    uint64_t destroy_timeout_s;
    uint64_t ttl_s;          /* 0: never */
    uint64_t ttl_max_s;      /* 0: never */
    uint64_t idle_timeout_s; /* 0: never */
    uint64_t park_timeout_s; /* 0: release destroys */
    enum config_park park;
    enum config_drift on_drift;
    uint64_t hibernate_max_s; /* 0: as long as it is not acquired */
    bool durable;             /* what a box has written outlives it */
    uint64_t leak_after_s;    /* 0: no lease is too old */
    uint64_t max_age_s;       /* 0: never */
    uint64_t check_after_s;
    bool discover;
    bool personal;
    struct config_map env;
    struct config_map labels;
    struct {
        char currency[CONFIG_CURRENCY_MAX + 1]; /* "": the profile has no price */
        uint64_t rates[CONFIG_RATE_COUNT];      /* in millionths of it */
    } price;
    struct {
        char host[CONFIG_PATH_MAX + 1]; /* "": $DOCKER_HOST, else the usual socket */
        char tls_ca[CONFIG_PATH_MAX + 1];
        char tls_cert[CONFIG_PATH_MAX + 1];
        char tls_key[CONFIG_PATH_MAX + 1];
        char auth_file[CONFIG_PATH_MAX + 1]; /* "": none */
        enum config_pull pull;
        char adopt_prefix[CONFIG_NAME_MAX + 1]; /* "": nothing of others is adopted */
        char container_prefix[CONFIG_NAME_MAX + 1];
        char user[CONFIG_NAME_MAX + 1];    /* "": the image's own */
        char network[CONFIG_NAME_MAX + 1]; /* of `network: nat` */
        enum config_inject inject;
        uint64_t port; /* of `agent: image` */
        enum config_reach reach;
        enum config_disk disk;
        char bind_host[CONFIG_NAME_MAX + 1];
        char url_host[CONFIG_NAME_MAX + 1];
        uint64_t call_timeout_s;
        uint64_t creates;
        char volumes[CONFIG_TEXT_MAX + 1]; /* "name:/box:ro" each, comma separated */
        struct config_map tmpfs;           /* path in the box to options */
        uint64_t shm_size;                 /* 0: as Docker does */
        char gpus[CONFIG_PATH_MAX + 1];    /* "", "all", a number, ids */
        char cap_add[CONFIG_TEXT_MAX + 1]; /* comma separated */
        uint64_t stop_grace_s;             /* 0: killed at once */
        uint64_t kernel_memory;            /* bytes of one box, outside its limit; 0: no bound */
    } docker;
    struct {
        char provisioner_url[CONFIG_PATH_MAX + 1];
        char provisioner_api_key[CONFIG_PATH_MAX + 1]; /* "": see the file */
        char provisioner_api_key_file[CONFIG_PATH_MAX + 1];
        uint64_t create_timeout_s;
        uint64_t destroy_timeout_s;
        uint64_t get_timeout_s;
        uint64_t list_timeout_s;
        uint64_t max_shell_sessions; /* 0: as the provisioner likes */
    } remote;
    struct {
        char socket[CONFIG_PATH_MAX + 1]; /* of sandpool-sim; "": in this process */
        uint64_t create_ms;
        uint64_t create_jitter_ms;
        uint64_t ready_ms; /* sandpool-sim: how long /v1/sandbox answers 503 first */
        uint64_t destroy_ms;
        uint64_t fail_percent;
        uint64_t hang_percent;
        uint64_t seed;
        bool late;
    } sim;
};

struct config {
    char instance[CONFIG_NAME_MAX + 1]; /* "": made up at first start and kept in the store */
    char state_dir[CONFIG_PATH_MAX + 1];
    struct {
        enum log_level level;
        enum log_format format;
    } log;
    struct {
        char path[CONFIG_PATH_MAX + 1];
        uint64_t mode; /* octal in the file */
        char group[CONFIG_NAME_MAX + 1];
        char hosts[CONFIG_TEXT_MAX + 1]; /* names that browsers may use for it, comma separated */
    } socket;
    struct {
        bool enabled;
    } ui;
    struct {
        char listen[CONFIG_NAME_MAX + 1];    /* "127.0.0.1:8001", "[::1]:8001"; "": no TCP */
        struct config_map tokens;            /* caller's name to bearer token */
        char operators[CONFIG_TEXT_MAX + 1]; /* names among them, comma separated */
        uint64_t max_unproven;               /* connections without a valid token */
        char public_url[CONFIG_NAME_MAX + 1];
        uint64_t max_requests; /* to boxes, through it */
        uint64_t max_requests_per_box;
        uint64_t request_idle_s;
    } tcp;
    char operator_uids[CONFIG_TEXT_MAX + 1]; /* beside root and the daemon's own, comma separated */
    struct {
        uint64_t max_connections;
        uint64_t share_percent;
        uint64_t max_header_bytes;
        uint64_t max_body_bytes;
        uint64_t max_buffered;
        uint64_t header_timeout_s;
        uint64_t idle_timeout_s;
        uint64_t write_timeout_s;
    } http;
    struct {
        uint64_t max;
        uint64_t max_per_box;
        uint64_t share_percent;
        uint64_t idle_timeout_s;
    } calls;
    struct {
        uint64_t max;
        uint64_t hibernated_max;
        uint64_t hibernated_share_percent;
        uint64_t hibernated_envs;
        uint64_t max_per_caller; /* 0: half of max */
        uint64_t max_bytes;      /* 0: no limit */
        uint64_t max_bytes_per_caller;
        uint64_t keep_s; /* 0: for ever */
        uint64_t import_max;
    } snapshots;
    struct {
        uint64_t max_boxes;
        uint64_t max_waiters;
        uint64_t share_percent;
        uint64_t default_wait_ms;
        uint64_t max_wait_ms;
        uint64_t reconcile_interval_s;
    } pool;
    struct {
        bool enabled;
        uint64_t caller_boxes; /* these: 0: no limit */
        uint64_t caller_waiting;
        uint64_t caller_per_minute;
        uint64_t user_boxes;
        uint64_t user_waiting;
        uint64_t user_per_minute;
    } quotas;
    struct {
        enum config_durability durability;
        uint64_t queue_max;
        uint64_t events_max;
        uint64_t min_free; /* bytes; 0: no floor */
        uint64_t timeout_s;
    } store;
    struct {
        bool enabled;
        uint64_t sample_s; /* 0: only time is metered */
        uint64_t keep_days;
        uint64_t keep_rows;
    } usage;
    struct {
        char currency[CONFIG_CURRENCY_MAX + 1]; /* "": there are no budgets */
        enum config_period period;
        uint64_t amount; /* of each user that has none of its own, in millionths */
    } budgets;
    struct {
        char allow[CONFIG_TEXT_MAX + 1]; /* host directories, comma separated */
    } mounts;
    struct {
        enum config_auto strategy;
        char profiles[CONFIG_TEXT_MAX + 1]; /* names, comma separated; "": all */
    } auto_;
    struct {                            /* of our listeners on TCP */
        char cert[CONFIG_PATH_MAX + 1]; /* "": no TLS */
        char key[CONFIG_PATH_MAX + 1];
        char client_ca[CONFIG_PATH_MAX + 1]; /* "": clients need no certificate */
        bool client_required;
    } tls;
    struct {
        char path[CONFIG_PATH_MAX + 1]; /* "": beside the daemon */
    } agent;
    struct {
        char path[CONFIG_PATH_MAX + 1]; /* "": beside the daemon */
    } helper;
    struct {
        uint64_t id_base;       /* first host uid and gid given to boxes */
        uint64_t kernel_memory; /* bytes of one box, outside its limit; 0: no bound */
    } oci;
    struct {
        bool enabled;
        char listen[CONFIG_NAME_MAX + 1];
        char api_key[CONFIG_PATH_MAX + 1]; /* "": see api_key_file */
        char api_key_file[CONFIG_PATH_MAX + 1];
        char profile[CONFIG_NAME_MAX + 1];
        char thread_data[CONFIG_PATH_MAX + 1]; /* "": a thread's data is in its box */
        enum config_boxes boxes;
        char advertise_host[CONFIG_NAME_MAX + 1]; /* "": the host that the caller used */
        uint64_t wait_ms;
        uint64_t ttl_s;          /* 0: never */
        uint64_t idle_timeout_s; /* 0: never */
        uint64_t max_connections;
        uint64_t max_requests; /* through the proxy */
        uint64_t max_requests_per_box;
        uint64_t request_idle_s;
    } provisioner;
    unsigned profile_count;
    struct config_profile *profiles; /* sorted by name; `default` always exists */
};

/* Reads a file (or text) into a complete, validated configuration. Errors have file:line:column,
 * and a "did you mean" if a similar key exists; several problems are joined in err->msg as far as
 * they fit (the first is always complete). `path` NULL: all defaults. ${NAME} and ${NAME:-default}
 * in values are taken from the environment; $$ is a dollar. */
MUST_CHECK int config_load(const char *path, struct config **ret, struct err *err);
MUST_CHECK int config_parse(const char *name, const char *text, size_t len, struct config **ret,
                            struct err *err);
struct config *config_free(struct config *c); /* NULL is fine; returns NULL */

/* SP_CONFIG with the first key that differs and cannot change while the daemon runs. */
MUST_CHECK int config_can_reload(const struct config *from, const struct config *to,
                                 struct err *err);

const struct config_profile *config_find_profile(const struct config *c, const char *name);
/* Hash of what a box of this profile is made from: a box with another hash has drifted. Sizes,
 * timeouts and pool settings do not count. */
uint64_t config_spec_hash(const struct config_profile *p);
/* Profiles with the same key share one backend object, e.g. "sim:/run/sim.sock". */
void config_backend_key(const struct config_profile *p, char *dst, size_t cap);
/* The reverse: a profile with only the backend of that key. False if it is not a valid key. */
MUST_CHECK bool config_profile_at(const char *key, struct config_profile *ret);
/* create.concurrency, or the default of the profile's backend. */
uint64_t config_create_concurrency(const struct config_profile *p);
/* mounts.c: checks only the text of paths; the code that mounts checks links again. An absolute
 * path of at most CONFIG_PATH_MAX bytes without ".", "..", empty parts or control characters. */
bool config_path_is_plain(const char *path);
/* Whether a plain path is another one, or below it; both are not "/". */
bool config_path_is_within(const char *path, const char *dir);
/* A plain path that is, or is below, one of mounts.allow. */
bool config_mount_is_allowed(const struct config *c, const char *host_path);
/* A plain path in a box that is not reserved: not /, /proc, /sys, /dev, /.sandpool. */
bool config_box_path_is_free(const char *box_path);
/* provisioner.thread_data: NULL, or the reason why it is wrong, as the rest of a sentence. */
const char *config_thread_data_problem(const char *template);
/* The directory of one thread. False if a name is not valid, or the path would be longer than
 * CONFIG_PATH_MAX. *ret_base: the length of the part that is the same for all threads. */
MUST_CHECK bool config_thread_path(const char *template, const char *user, const char *thread,
                                   char ret[CONFIG_PATH_MAX + 1], size_t *ret_base);
/* The part of it that is the same for all threads, and so holds the data of all; false: there is
 * none. */
MUST_CHECK bool config_thread_base(const struct config *c, char ret[CONFIG_PATH_MAX + 1]);
/* Whether a plain path is inside a directory with data of threads (config_closed_dirs()), or contains one, judged
 * by its text only. */
bool config_mount_is_closed(const struct config *c, const char *host_path);
/* Whether a box of this thread may mount such a path: it is in the thread's own directory, or in
 * one of its user's that has no threads. *ret_own: the length of the name of that directory. */
MUST_CHECK bool config_thread_owns(const struct config *c, const char *user, const char *thread,
                                   const char *host_path, size_t *ret_own);
/* templates.c: an entry of a profile's mounts. */
struct config_mount {
    char host_path[CONFIG_PATH_MAX + 1];
    char box_path[CONFIG_PATH_MAX + 1];
    bool is_read_only;
    bool is_template; /* host_path names the owner of the box: nothing to mount before it has one */
};

/* The next of them; false at the end. */
bool config_mount_next(const char **list, struct config_mount *ret);

enum config_id {
    CONFIG_ID_USER,
    CONFIG_ID_THREAD,
    CONFIG_ID_SANDBOX,
    CONFIG_ID_PRINCIPAL,
    CONFIG_ID_COUNT
};

/* NULL, or the reason why such a host_path is wrong, as the rest of a sentence. */
const char *config_template_problem(const char *template);
bool config_template_has(const char *template, enum config_id id);
/* The part that is the same for everybody. */
void config_template_base(const char *template, char ret[CONFIG_PATH_MAX + 1]);
/* The directory of one owner. NULL, or the reason why there is none, as a sentence about the profile. */
const char *config_template_path(const char *template, const char *const ids[CONFIG_ID_COUNT],
                                 char ret[CONFIG_PATH_MAX + 1]);

/* The directories with data of threads: that of provisioner.thread_data, and those of templates. */
struct config_dirs {
    unsigned count; /* above CONFIG_CLOSED_MAX: more than there may be */
    char dirs[CONFIG_CLOSED_MAX][CONFIG_PATH_MAX + 1];
};

#define CONFIG_CLOSED_TEXT (CONFIG_CLOSED_MAX * (CONFIG_PATH_MAX + 1) + 1)
void config_closed_dirs(const struct config *c, struct config_dirs *ret);
/* The same, with line breaks between; returns the length. */
size_t config_closed_text(const struct config *c, char ret[CONFIG_CLOSED_TEXT]);

/* http:// or https://, a host, optionally a port and a path; no user, query or fragment. */
bool config_is_url(const char *url);
/* secret.c: the first line of the file that the setting `name` names, of `min` to cap - 1 printable
 * characters without spaces. SP_CONFIG otherwise. */
MUST_CHECK int config_read_secret(const char *name, const char *path, size_t min, char *ret,
                                  size_t cap, struct err *err);
/* price.c: what a lease of this length costs, in millionths of the profile's currency: each part rounded to the
 * nearest, half up, and the total is the sum of the parts. What is paid by use has no part in it. False: the profile
 * has no price. */
struct config_quote {
    uint64_t parts[CONFIG_RATE_COUNT];
    uint64_t total;
};

/* What an hour costs, without what is paid once, in millionths of a millionth of the currency: for amounts that are
 * added up before they are rounded. At most INT64_MAX. */
uint64_t config_hourly(const struct config_profile *p);
bool config_quote(const struct config_profile *p, uint64_t seconds, struct config_quote *ret);
/* "per_cpu_hour", as in the file. */
const char *config_rate_name(enum config_rate rate);
/* Millionths as a number without needless zeros: 12500 is "0.0125". */
void config_print_micros(uint64_t v, char dst[CONFIG_MICROS_MAX]);
/* The other way, up to `max`; false when it is no such number. */
MUST_CHECK bool config_parse_micros(const char *text, uint64_t max, uint64_t *ret);
/* As it is written in the file. */
const char *config_network_name(enum config_network network);
/* What boxes of the profile may reach; NULL: whatever there is. */
const char *config_egress(const struct config_profile *p);
/* A valid name of a variable. */
bool config_is_env_name(const char *name);

/* docker_options.c: an entry of docker.volumes. NULL, or the reason as the rest of a sentence. */
struct config_volume {
    char name[CONFIG_NAME_MAX + 1];
    char box_path[CONFIG_PATH_MAX + 1];
    bool is_read_only;
};

const char *config_volume_problem(const char *text, struct config_volume *ret);
/* Takes the next word of a comma separated list; false at its end. `cap` holds the longest. */
bool config_list_next(const char **list, char *word, size_t cap);

/* The effective configuration as YAML, secrets replaced: `sandpoold --check --print`. */
void config_print(const struct config *c, struct buf *out);
/* Every key with its default, range, meaning and whether SIGHUP changes it: the text of
 * config.example.yaml. */
void config_print_example(struct buf *out);

#endif
