/* schema_remote.c - keys of a profile that only backend remote has. */
#include "config/table.h"

static const struct config_key keys[] = {
    PROFILE(
        remote.provisioner_url, STRING, CONFIG_SPEC | CONFIG_ADDRESS | CONFIG_OF_BACKEND, 0,
        CONFIG_PATH_MAX, "",
        "Where the provisioner answers, like http://provisioner:8002. Required. Profiles of one "
        "provisioner must write it the same way; for the keys below, the first of these profiles "
        "counts."),
    PROFILE(
        remote.provisioner_api_key, STRING, CONFIG_SECRET | CONFIG_OF_BACKEND, 0, CONFIG_PATH_MAX,
        "",
        "Sent as X-API-Key. Best kept out of this file, like ${PROVISIONER_API_KEY}. Empty: the "
        "key of another profile of the same provisioner, or none."),
    PROFILE(remote.provisioner_api_key_file, PATH, CONFIG_OF_BACKEND, 0, CONFIG_PATH_MAX, "",
            "A file whose first line is the key, instead of provisioner_api_key. Read at start and "
            "reload."),
    PROFILE(remote.create_timeout_s, U64, CONFIG_OF_BACKEND, 1, 3600, "30",
            "Seconds one answer to a create may take. After that the provisioner is asked for "
            "the box by its id, until create.timeout_s is over."),
    PROFILE(remote.destroy_timeout_s, U64, CONFIG_OF_BACKEND, 1, 3600, "15",
            "The same for a delete, which is repeated until the box is known to be gone."),
    PROFILE(remote.get_timeout_s, U64, CONFIG_OF_BACKEND, 1, 3600, "10",
            "The same for a request for one box. Without an answer its state is unknown."),
    PROFILE(remote.list_timeout_s, U64, CONFIG_OF_BACKEND, 1, 3600, "10",
            "The same for the list of all boxes."),
    PROFILE(remote.max_shell_sessions, U64, CONFIG_SPEC | CONFIG_OF_BACKEND, 0, 10000, "0",
            "Shell sessions a box must have room for; used by provisioners that support the "
            "field. 0: the provisioner's default."),
};

const struct config_table config_table_remote = {keys, ARRAY_LEN(keys)};
