/* table.h - how the keys of a section are written; only for the schema_*.c. The field of struct
 * config and the path in the file have the same name, so each entry has it once. */
#ifndef CONFIG_TABLE_H
#define CONFIG_TABLE_H

#include <stddef.h>

#include "config/schema.h"

#define DAY (24 * 60 * 60)
#define YEAR (366 * DAY)
#define KIB 1024
#define MIB (1024 * 1024)
#define GIB (1024ULL * MIB)
#define TIB (1024ULL * GIB)

#define RATE_MAX 10000000000ULL /* 10000: a year of the largest box still fits into 64 bits */

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
#define PROFILE_RATE(name, rate, text) \
    {CONFIG_PROFILE_PREFIX "price." name, CONFIG_TYPE_MICRO, RELOAD, \
     offsetof(struct config_profile, price.rates[rate]), 0, RATE_MAX, "0", NULL, text}
/* clang-format on */

#endif
