/* schema_daemon.c - keys of the daemon itself, its log and its Unix socket. */
#include "config/table.h"

static const char *const level_names[] = {"debug", "info", "warn", "error", NULL};
static const char *const format_names[] = {"logfmt", "json", NULL};

static_assert(ARRAY_LEN(level_names) == LOG_LEVEL_COUNT + 1, "a name for each level");
static_assert(ARRAY_LEN(format_names) == LOG_FORMAT_COUNT + 1, "a name for each format");
static_assert(sizeof(enum log_level) == sizeof(unsigned), "value.c stores enums as unsigned");

static const struct config_key keys[] = {
    GLOBAL(instance, STRING, 0, 0, CONFIG_NAME_MAX, "",
           "Name of this daemon. Its boxes are labelled with it, and boxes of other instances "
           "are never touched. Empty: generated at the first start and kept in the state "
           "directory."),
    GLOBAL(state_dir, PATH, 0, 1, CONFIG_PATH_MAX, "/var/lib/sandpool",
           "Directory of the database and the lock. One daemon per directory."),
    GLOBAL(operator_uids, LIST, RELOAD, 0, CONFIG_TEXT_MAX, "",
           "User ids that may operate the pool (pause, drain, reload, see and destroy "
           "the boxes of others) over the Unix socket, beside root and the daemon's own."),

    CHOICE(log.level, RELOAD, level_names, "info", "The lowest level that is logged."),
    CHOICE(log.format, RELOAD, format_names, "logfmt", "The format of a log line."),

    GLOBAL(socket.path, PATH, 0, 1, CONFIG_PATH_MAX, "/run/sandpool/sandpool.sock",
           "Where the API listens. At most 107 bytes: the kernel's limit for socket "
           "paths."),
    GLOBAL(socket.mode, MODE, 0, 0, 0777, "0660",
           "File mode of the socket, octal. Who can write to it can use the API."),
    GLOBAL(socket.group, STRING, 0, 0, CONFIG_NAME_MAX, "",
           "Group the socket is given to. Empty: the daemon's own group."),
    GLOBAL(socket.hosts, LIST, RELOAD, 0, CONFIG_TEXT_MAX, "",
           "Names under which browsers reach the socket through a proxy of yours, like "
           "pool.example.com. Requests with another name that has a dot are refused, so that no "
           "page of the Web can call the API through a tunnel to the socket (DNS rebinding)."),

    GLOBAL(ui.enabled, BOOL, RELOAD, 0, 0, "true",
           "The web page at /ui. It has no rights of its own: it asks the API as whoever looks at "
           "it."),
};

const struct config_table config_table_daemon = {keys, ARRAY_LEN(keys)};
