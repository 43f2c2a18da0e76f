/* seccomp_rule.c - one rule of a filter, as runtimes read it in config.json. */
#include "backends/oci/seccomp_rule.h"

#include <assert.h>
#include <string.h>

static void put_action(struct json_out *o, int errnum)
{
    json_put_str(o, "action",
                 errnum == 0              ? "SCMP_ACT_ALLOW"
                 : errnum == OCI_RULE_ASK ? "SCMP_ACT_NOTIFY"
                                          : "SCMP_ACT_ERRNO");
    if (errnum > 0 || errnum == OCI_RULE_IGNORE)
        json_put_u64(o, "errnoRet", errnum > 0 ? (uint64_t) errnum : 0);
}

void oci_rule_names(struct json_out *o, const char *names)
{
    char name[64];

    while (*names != '\0') {
        size_t len = strcspn(names, " ");
        assert(len > 0 && len < sizeof(name));
        memcpy(name, names, len);
        name[len] = '\0';
        json_put_str(o, NULL, name);
        names += len;
        names += strspn(names, " ");
    }
}

void oci_rule_by_name(struct json_out *o, const char *names, int errnum)
{
    json_begin_obj(o, NULL);
    json_begin_arr(o, "names");
    oci_rule_names(o, names);
    json_end(o);
    put_action(o, errnum);
    json_end(o);
}

static void put_condition(struct json_out *o, const struct oci_condition *c)
{
    json_begin_obj(o, NULL);
    json_put_u64(o, "index", c->index);
    json_put_u64(o, "value", c->mask != 0 ? c->mask : c->value);
    if (c->mask != 0)
        json_put_u64(o, "valueTwo", c->value);
    json_put_str(o, "op", c->mask != 0 ? "SCMP_CMP_MASKED_EQ" : "SCMP_CMP_GE");
    json_end(o);
}

void oci_rule_by_arg(struct json_out *o, const char *names, int errnum,
                     const struct oci_condition *conditions, size_t count)
{
    json_begin_obj(o, NULL);
    json_begin_arr(o, "names");
    oci_rule_names(o, names);
    json_end(o);
    put_action(o, errnum);
    json_begin_arr(o, "args");
    for (size_t i = 0; i < count; i++)
        put_condition(o, &conditions[i]);
    json_end(o);
    json_end(o);
}
