/* body.h - the body of a request, decoded by a table of its fields: what each is called, what it may be and where it
 * goes. A problem is given to the dialect, which has its own words and its own form for it and says whether to go on. */
#ifndef FRONT_BODY_H
#define FRONT_BODY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/json.h"

/* What is stored at `at`; in a field that is absent it is left alone. */
enum front_type {
    FRONT_TEXT,   /* const char *, lives as long as the document */
    FRONT_NAME,   /* the same: letters, digits and those of `extra` */
    FRONT_NUMBER, /* uint64_t */
    FRONT_FLAG,   /* bool */
    FRONT_OBJECT, /* const struct json * */
    FRONT_LIST,   /* const struct json * */
    FRONT_ANY,    /* const struct json *, of whatever type; the dialect looks at it */
};

struct front_field {
    const char *name; /* NULL ends the table */
    enum front_type type;
    size_t at; /* offset of the member it goes to */
    uint64_t min;
    uint64_t max;      /* NUMBER: range; TEXT, NAME: bytes; LIST: entries. 0 for a list: no limit */
    const char *extra; /* NAME */
    bool may_be_empty; /* NAME: "" too */
    bool is_operand;   /* NAME: it does not begin as an option of a program does */
    bool is_required;
    bool refuses_null; /* else null is as good as absent */
};

enum front_problem {
    FRONT_MISSING,
    FRONT_WRONG_TYPE, /* also null where it is refused, and a number with a fraction */
    FRONT_TOO_LONG,   /* a text, a name, a list */
    FRONT_NO_NAME,    /* has other characters, or none */
    FRONT_TOO_SMALL,  /* below `min`, or negative */
    FRONT_TOO_LARGE,
};

/* Gets each problem in the order of the table. True: go on with the next field. `value` is NULL when missing. */
typedef bool front_report(void *ctx, const struct front_field *f, enum front_problem problem,
                          const struct json *value);

/* Decodes `obj` into the struct at `into`; whether there was no problem. Members that no field names are not looked
 * at. */
MUST_CHECK bool front_decode(const struct json *obj, const struct front_field *fields, void *into,
                             front_report *report, void *ctx);

/* The same in our own words: unknown members are refused before anything else, and the first problem is an
 * SP_INVALID_FIELD in err. */
MUST_CHECK int front_decode_strict(const struct json *obj, const struct front_field *fields,
                                   void *into, struct err *err);

#endif
