/* body.c - fields of a body: found, checked and stored as their table says. */
#include "front/body.h"

#include <string.h>

#include "base/str.h"

static bool check_text(const struct front_field *f, const struct json *v, enum front_problem *ret)
{
    const char *text = json_str(v);

    if (text == NULL) {
        *ret = FRONT_WRONG_TYPE;
        return false;
    }
    if (strlen(text) > f->max) {
        *ret = FRONT_TOO_LONG;
        return false;
    }
    *ret = FRONT_NO_NAME;
    return f->type == FRONT_TEXT || (f->may_be_empty && str_is_empty(text)) ||
           (str_is_name(text, f->max, f->extra) && !(f->is_operand && text[0] == '-'));
}

static bool check_number(const struct front_field *f, const struct json *v, enum front_problem *ret)
{
    uint64_t n;

    if (!json_u64(v, &n)) {
        *ret = json_is_num(v) && json_num(v) <= 0 ? FRONT_TOO_SMALL : FRONT_WRONG_TYPE;
        return false;
    }
    *ret = n < f->min ? FRONT_TOO_SMALL : FRONT_TOO_LARGE;
    return n >= f->min && n <= f->max;
}

static bool check_list(const struct front_field *f, const struct json *v, enum front_problem *ret)
{
    *ret = json_is_arr(v) ? FRONT_TOO_LONG : FRONT_WRONG_TYPE;
    return json_is_arr(v) && (f->max == 0 || json_len(v) <= f->max);
}

static bool check(const struct front_field *f, const struct json *v, enum front_problem *ret)
{
    *ret = FRONT_WRONG_TYPE;
    switch (f->type) {
    case FRONT_TEXT:
    case FRONT_NAME:
        return check_text(f, v, ret);
    case FRONT_NUMBER:
        return check_number(f, v, ret);
    case FRONT_FLAG:
        return json_is_bool(v);
    case FRONT_OBJECT:
        return json_is_obj(v);
    case FRONT_LIST:
        return check_list(f, v, ret);
    case FRONT_ANY:
        break;
    }
    return true;
}

static void store(const struct front_field *f, const struct json *v, void *into)
{
    void *at = (char *) into + f->at;

    switch (f->type) {
    case FRONT_TEXT:
    case FRONT_NAME:
        *(const char **) at = json_str(v);
        break;
    case FRONT_NUMBER:
        (void) !json_u64(v, at); /* checked */
        break;
    case FRONT_FLAG:
        *(bool *) at = json_bool(v);
        break;
    case FRONT_OBJECT:
    case FRONT_LIST:
    case FRONT_ANY:
        *(const struct json **) at = v;
        break;
    }
}

bool front_decode(const struct json *obj, const struct front_field *fields, void *into,
                  front_report *report, void *ctx)
{
    bool is_good = true;

    for (const struct front_field *f = fields; f->name != NULL; f++) {
        const struct json *v = json_get(obj, f->name);
        enum front_problem problem = FRONT_MISSING;

        if (v != NULL && json_is_null(v) && !f->refuses_null)
            v = NULL;
        if (v == NULL && !f->is_required)
            continue;
        if (v != NULL && check(f, v, &problem)) {
            store(f, v, into);
            continue;
        }
        is_good = false;
        if (!report(ctx, f, problem, v))
            break;
    }
    return is_good;
}

/* --- in our own words --- */

static const char *type_text(enum front_type type)
{
    switch (type) {
    case FRONT_TEXT:
    case FRONT_NAME:
        return "a string";
    case FRONT_FLAG:
        return "true or false";
    case FRONT_OBJECT:
        return "an object";
    case FRONT_LIST:
        return "a list";
    case FRONT_NUMBER:
    case FRONT_ANY:
        break;
    }
    return "given";
}

static void say_long(const struct front_field *f, struct err *err)
{
    if (f->type == FRONT_LIST)
        (void) err_set(err, SP_INVALID_FIELD, "'%s' has more than %llu entries", f->name,
                       (unsigned long long) f->max);
    else
        (void) err_set(err, SP_INVALID_FIELD, "'%s' is longer than %llu characters", f->name,
                       (unsigned long long) f->max);
}

static bool say(void *ctx, const struct front_field *f, enum front_problem problem,
                const struct json *value)
{
    struct err *err = ctx;

    (void) value;
    if (problem == FRONT_MISSING)
        (void) err_set(err, SP_INVALID_FIELD, "'%s' is missing", f->name);
    else if (f->type == FRONT_NUMBER)
        (void) err_set(err, SP_INVALID_FIELD, "'%s' must be a whole number from %llu to %llu",
                       f->name, (unsigned long long) f->min, (unsigned long long) f->max);
    else if (problem == FRONT_TOO_LONG)
        say_long(f, err);
    else if (problem == FRONT_NO_NAME)
        (void) err_set(err, SP_INVALID_FIELD,
                       "'%s' must be 1 to %zu characters from letters, digits and '%s'%s", f->name,
                       (size_t) f->max, f->extra, f->is_operand ? ", the first not '-'" : "");
    else
        (void) err_set(err, SP_INVALID_FIELD, "'%s' must be %s", f->name, type_text(f->type));
    return false;
}

static bool is_known(const struct front_field *fields, const char *name)
{
    for (const struct front_field *f = fields; f->name != NULL; f++)
        if (strcmp(f->name, name) == 0)
            return true;
    return false;
}

int front_decode_strict(const struct json *obj, const struct front_field *fields, void *into,
                        struct err *err)
{
    const struct json *value;
    const char *key;

    for (size_t i = 0; json_member(obj, i, &key, &value); i++)
        if (!is_known(fields, key))
            return err_set(err, SP_INVALID_FIELD, "unknown field '%.60s'", key);
    return front_decode(obj, fields, into, say, err) ? SP_OK : SP_INVALID_FIELD;
}
