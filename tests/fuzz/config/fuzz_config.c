/* Any bytes as a configuration file: refused with an error message, or loaded. A loaded
 * configuration is printed to a file that loads again to the same configuration. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "config/schema.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_round_trip(const struct config *c)
{
    struct config *again = NULL;
    struct buf text;

    /* Hidden values are not restored. */
    for (unsigned i = 0; i < c->profile_count; i++) {
        (void) config_spec_hash(&c->profiles[i]);
        if (c->profiles[i].env.count > 0)
            return;
    }
    if (c->tcp.tokens.count > 0)
        return;
    buf_init(&text, CONFIG_FILE_MAX);
    config_print(c, &text);
    int r = config_parse("again", buf_str(&text), text.len, &again, NULL);
    assert(r == SP_OK);
    assert(again->profile_count == c->profile_count);
    for (const struct config_key *k = config_key_next(NULL); k != NULL; k = config_key_next(k)) {
        bool is_profile = config_key_is_profile(k);
        unsigned count = is_profile ? c->profile_count : 1;

        for (unsigned i = 0; i < count; i++) {
            const void *a = is_profile ? (const void *) &c->profiles[i] : c;
            const void *b = is_profile ? (const void *) &again->profiles[i] : again;

            assert(config_value_equal(k, a, b));
        }
    }
    (void) config_free(again);
    buf_fini(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct config *c = NULL;
    struct err err = {0};
    int r = config_parse("fuzz", (const char *) data, size, &c, &err);

    if (r == SP_OK) {
        assert(config_find_profile(c, "default") != NULL);
        check_round_trip(c);
    } else {
        assert(r == SP_CONFIG && c == NULL && strncmp(err.msg, "fuzz:", 5) == 0);
    }
    (void) config_free(c);
    return 0;
}
