/* args.c - arguments by the table: long and short options, values checked by kind, operands
 * counted. Common options may stand before the command as well. */
#include <string.h>

#include "base/str.h"
#include "cli/cli.h"

struct parser {
    int argc;
    const char *const *argv;
    int next;
    bool has_ended;  /* after "--" all are operands */
    bool is_unknown; /* the command: what follows is not looked at */
    struct cli_args *args;
    struct err *err;
};

/* Turns what err_set() returns into our false. */
static bool fail(int code)
{
    return code == SP_OK;
}

/* An option of one table by its name (of `len` bytes) or its letter; -1 when it is not there. */
static int find_option(const struct cli_option *table, const char *name, size_t len, char letter)
{
    for (int i = 0; table != NULL && table[i].name != NULL; i++) {
        assert(i < CLI_OPTIONS_MAX);
        if (letter != 0 ? table[i].letter == letter
                        : strlen(table[i].name) == len && memcmp(table[i].name, name, len) == 0)
            return i;
    }
    return -1;
}

static bool is_choice(const char *choices, const char *value)
{
    size_t len = strlen(value);

    while (*choices != '\0') {
        size_t n = strcspn(choices, " ");

        if (n == len && memcmp(choices, value, n) == 0)
            return true;
        choices += n + strspn(choices + n, " ");
    }
    return false;
}

static bool check_value(struct parser *p, const struct cli_option *o, const char *value)
{
    uint64_t v;

    switch (o->kind) {
    case CLI_FLAG:
    case CLI_TEXT:
    case CLI_LIST:
        break;
    case CLI_NUMBER:
        if (!str_parse_u64(value, 0, INT64_MAX, &v))
            return fail(err_set(p->err, SP_BAD_REQUEST, "--%s must be a number, not '%.40s'",
                                o->name, value));
        break;
    case CLI_DURATION:
        if (!duration_parse_ms(value, &v))
            return fail(err_set(p->err, SP_BAD_REQUEST,
                                "--%s must be a time like 500ms, 30s or 5m, not '%.40s'", o->name,
                                value));
        break;
    case CLI_KIND_COUNT:
        assert(false && "unknown kind");
    }
    if (o->choices != NULL && !is_choice(o->choices, value))
        return fail(err_set(p->err, SP_BAD_REQUEST, "--%s must be one of %s, not '%.40s'", o->name,
                            o->choices, value));
    return true;
}

static bool take_item(struct parser *p, const struct cli_option *o, const char *value)
{
    struct cli_args *a = p->args;

    if (a->list_count == CLI_LIST_MAX)
        return fail(err_set(p->err, SP_BAD_REQUEST, "--%s is given more than %d times", o->name,
                            (int) CLI_LIST_MAX));
    a->list[a->list_count] = (struct cli_item){.option = o, .value = value};
    a->list_count++;
    return true;
}

/* `value` is what stood after "=", NULL when there was none. */
static bool take_value(struct parser *p, const struct cli_option *o, const char *value,
                       const char **ret)
{
    if (o->kind == CLI_FLAG) {
        if (value != NULL)
            return fail(err_set(p->err, SP_BAD_REQUEST, "--%s takes no value", o->name));
        *ret = "";
        return true;
    }
    if (value == NULL) {
        if (p->next == p->argc)
            return fail(err_set(p->err, SP_BAD_REQUEST, "--%s needs a value", o->name));
        value = p->argv[p->next];
        p->next++;
    }
    *ret = value;
    return check_value(p, o, value) && (o->kind != CLI_LIST || take_item(p, o, value));
}

/* An option begins with a dash, a command does not. */
static bool fail_unknown(struct parser *p, const char *what, const char *arg,
                         const struct cli_command *command)
{
    struct buf hint;
    int r;

    buf_init(&hint, 512);
    if (arg[0] == '-')
        suggest_option(command, arg, &hint);
    else
        suggest_command(arg, &hint);
    r = err_set(p->err, SP_BAD_REQUEST, "%s '%.64s'%s", what, arg, buf_str(&hint));
    buf_fini(&hint);
    return fail(r);
}

/* Flags in one word, "-it". False when it is something else: it has not been taken then. */
static bool take_flags(struct parser *p, const char *letters)
{
    const struct cli_command *command = p->args->command;

    for (const char *at = letters; *at != '\0'; at++) {
        int i = command != NULL ? find_option(command->options, NULL, 0, *at) : -1;

        if (i < 0 || command->options[i].kind != CLI_FLAG)
            return false;
    }
    for (const char *at = letters; *at != '\0'; at++)
        p->args->values[find_option(command->options, NULL, 0, *at)] = "";
    return true;
}

static bool take_option(struct parser *p, const char *arg)
{
    const struct cli_command *command = p->args->command;
    bool is_long = arg[1] == '-';
    const char *name = arg + (is_long ? 2 : 1);
    const char *equals = is_long ? strchr(name, '=') : NULL;
    size_t len = equals != NULL ? (size_t) (equals - name) : strlen(name);
    char letter = is_long ? 0 : name[0];
    int i;

    if (!is_long && len > 1 && take_flags(p, name))
        return true;
    if (is_long || len == 1) {
        i = command != NULL ? find_option(command->options, name, len, letter) : -1;
        if (i >= 0)
            return take_value(p, &command->options[i], equals != NULL ? equals + 1 : NULL,
                              &p->args->values[i]);
        i = find_option(cli_common, name, len, letter);
        if (i >= 0)
            return take_value(p, &cli_common[i], equals != NULL ? equals + 1 : NULL,
                              &p->args->common[i]);
    }
    return fail_unknown(p, "unknown option", arg, command);
}

static bool take_operand(struct parser *p, const char *arg)
{
    struct cli_args *a = p->args;

    if (a->command == NULL) {
        a->command = p->is_unknown ? NULL : cli_find_command(arg);
        if (a->command == NULL && !p->is_unknown) {
            p->is_unknown = true;
            return fail_unknown(p, "unknown command", arg, NULL);
        }
        return true;
    }
    if (a->command->operands_max == CLI_REST && a->operand_count + 1 >= a->command->operands_min) {
        a->rest = p->argv + p->next - 1;
        a->rest_count = (unsigned) (p->argc - p->next + 1);
        p->next = p->argc;
    } else if (a->operand_count == MIN_OF(a->command->operands_max, (unsigned) CLI_OPERANDS_MAX)) {
        return fail(err_set(p->err, SP_BAD_REQUEST, "'%.64s' is one argument too many", arg));
    }
    a->operands[a->operand_count] = arg;
    a->operand_count++;
    return true;
}

static bool check_operands(struct parser *p)
{
    const struct cli_args *a = p->args;

    if (a->command == NULL)
        return fail(err_set(p->err, SP_BAD_REQUEST, "a command is missing"));
    if (a->operand_count < a->command->operands_min)
        return fail(err_set(p->err, SP_BAD_REQUEST, "%s is missing", a->command->operands));
    for (unsigned i = 0; i < a->operand_count; i++) {
        if (str_is_empty(a->operands[i]))
            return fail(err_set(p->err, SP_BAD_REQUEST, "%s is empty", a->command->operands));
    }
    return true;
}

bool cli_parse(int argc, const char *const *argv, struct cli_args *ret, struct err *err)
{
    struct parser p = {.argc = argc, .argv = argv, .next = 1, .args = ret, .err = err};
    bool is_good = true;

    memset(ret, 0, sizeof(*ret));
    while (p.next < argc) {
        const char *arg = argv[p.next];
        bool is_fine = true;

        p.next++;
        if (p.has_ended || arg[0] != '-' || arg[1] == '\0')
            is_fine = take_operand(&p, arg);
        else if (strcmp(arg, "--") == 0)
            p.has_ended = true;
        else
            is_fine = take_option(&p, arg);
        if (!is_fine) {
            /* The first mistake is reported; help asked for later is still given. */
            p.err = NULL;
            is_good = false;
        }
    }
    if (cli_flag(ret, "help") || cli_flag(ret, "version"))
        return true;
    return is_good && check_operands(&p);
}

static const struct cli_option *option_of(const struct cli_args *a, const char *name,
                                          const char **ret_value)
{
    int i = a->command != NULL ? find_option(a->command->options, name, strlen(name), 0) : -1;

    if (i >= 0) {
        *ret_value = a->values[i];
        return &a->command->options[i];
    }
    i = find_option(cli_common, name, strlen(name), 0);
    assert(i >= 0); /* the command asks for an option that its table lacks */
    *ret_value = a->common[i];
    return &cli_common[i];
}

const char *cli_option(const struct cli_args *a, const char *name)
{
    const char *value;

    (void) option_of(a, name, &value);
    return value;
}

bool cli_flag(const struct cli_args *a, const char *name)
{
    return cli_option(a, name) != NULL;
}

const char *cli_list(const struct cli_args *a, const char *name, unsigned n)
{
    const char *value;
    const struct cli_option *o = option_of(a, name, &value);

    assert(o->kind == CLI_LIST);
    for (unsigned i = 0; i < a->list_count; i++) {
        if (a->list[i].option != o)
            continue;
        if (n == 0)
            return a->list[i].value;
        n--;
    }
    return NULL;
}

bool cli_number(const struct cli_args *a, const char *name, uint64_t *ret)
{
    const char *value;
    const struct cli_option *o = option_of(a, name, &value);

    assert(o->kind == CLI_NUMBER);
    return value != NULL && str_parse_u64(value, 0, INT64_MAX, ret);
}

bool cli_duration_ms(const struct cli_args *a, const char *name, uint64_t *ret)
{
    const char *value;
    const struct cli_option *o = option_of(a, name, &value);

    assert(o->kind == CLI_DURATION);
    return value != NULL && duration_parse_ms(value, ret);
}
