/* schema_price.c - keys of profiles.*.price. */
#include "config/table.h"

static const struct config_key keys[] = {
    PROFILE(price.currency, STRING, 0, 0, CONFIG_CURRENCY_MAX, "",
            "Currency of the prices below, three to eight capital letters, like EUR. Empty: the "
            "profile has no price."),
    PROFILE_RATE("per_start", CONFIG_RATE_START, "For each box that a thread gets, however short."),
    PROFILE_RATE("per_hour", CONFIG_RATE_HOUR, "For each hour."),
    PROFILE_RATE("per_cpu_hour", CONFIG_RATE_CPU_HOUR,
                 "For each hour and processor of limits.cpus."),
    PROFILE_RATE("per_gb_hour", CONFIG_RATE_GB_HOUR, "For each hour and GB of limits.memory."),
    PROFILE_RATE("per_disk_gb_hour", CONFIG_RATE_DISK_GB_HOUR,
                 "For each hour and GB of limits.disk."),
    PROFILE_RATE("per_used_cpu_hour", CONFIG_RATE_USED_CPU_HOUR,
                 "For each hour of processor time that the box has used. This one and those below "
                 "need usage.sample_s; what the backend does not count costs nothing."),
    PROFILE_RATE("per_used_gb_hour", CONFIG_RATE_USED_GB_HOUR,
                 "For each GB (1024^3 bytes) of memory that it held for an hour."),
    PROFILE_RATE("per_used_net_gb", CONFIG_RATE_USED_NET_GB,
                 "For each GB that came or went over its network."),
    PROFILE_RATE("per_used_disk_gb", CONFIG_RATE_USED_DISK_GB,
                 "For each GB that it read from disks or wrote to them."),
};

const struct config_table config_table_price = {keys, ARRAY_LEN(keys)};

static_assert(ARRAY_LEN(keys) == CONFIG_RATE_COUNT + 1, "a key for each rate, and the currency");

const char *config_rate_name(enum config_rate rate)
{
    return keys[rate + 1].path + sizeof(CONFIG_PROFILE_PREFIX "price.") - 1;
}
