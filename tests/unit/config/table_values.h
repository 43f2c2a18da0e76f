/* table_values.h - for test_config_table: a valid file for each key of the table. */
#ifndef TABLE_VALUES_H
#define TABLE_VALUES_H

#include "config/schema.h"

/* A value other than the default that is valid by itself. */
const char *other_value(const struct config_key *k);
/* The rest of a profile that a key of one backend needs. */
const char *backend_of(const struct config_key *k);
/* Other keys that the section of such a key requires. */
const char *section_rest(const struct config_key *k);
/* Keys that this key requires, as the rest of the file. */
const char *companions(const struct config_key *k);

#endif
