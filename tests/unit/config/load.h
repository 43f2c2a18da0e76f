/* load.h - a configuration from a text, and the error of one that is refused. */
#pragma once

#include <string.h>

#include "base/compiler.h"
#include "config/config.h"
#include "tests/lib/unit.h"

static inline struct config *load(const char *text)
{
    struct config *c = NULL;
    struct err err = {0};

    if (config_parse("t.yaml", text, strlen(text), &c, &err) != SP_OK)
        fail_msg("%s\nin:\n%s", err.msg, text);
    return c;
}

static inline void expect_error(const char *text, const char *message)
{
    struct config *c = NULL;
    struct err err = {0};

    if (config_parse("t.yaml", text, strlen(text), &c, &err) != SP_CONFIG)
        fail_msg("was not refused: %s", text);
    assert_int_equal(err.code, SP_CONFIG);
    assert_null(c);
    assert_string_equal(err.msg, message);
    /* an error is optional */
    assert_int_equal(config_parse("t.yaml", text, strlen(text), &c, NULL), SP_CONFIG);
}
