/* man_config.c - sandpool.yaml(5), from the table of keys. */
#include <string.h>

#include "config/schema.h"
#include "dist/man/pages.h"
#include "dist/man/roff.h"

static void put_key(const struct config_key *k, const void *object, struct buf *out)
{
    struct buf facts;

    roff_term(out, config_key_name(k), strlen(config_key_name(k)));
    roff_line(out, k->help, strlen(k->help));
    buf_init(&facts, 512);
    buf_putc(&facts, '[');
    config_print_facts(k, object, &facts);
    buf_putc(&facts, ']');
    buf_puts(out, ".br\n");
    roff_line(out, buf_str(&facts), strlen(buf_str(&facts)));
    buf_fini(&facts);
}

/* The words that stand above a section of the file. */
static void put_section_help(const struct config_key *k, const char *dot, struct buf *out)
{
    size_t len = (size_t) (dot - k->path);

    for (const struct config_section *s = config_sections; s->path != NULL; s++) {
        if (strlen(s->path) == len && strncmp(s->path, k->path, len) == 0)
            roff_text(out, s->help);
    }
}

static void put_keys(bool is_profile, const void *object, struct buf *out)
{
    const char *section = "";
    size_t section_len = 0;

    for (const struct config_key *k = config_key_next(NULL); k != NULL; k = config_key_next(k)) {
        const char *name = config_key_name(k);
        const char *dot = strchr(name, '.');
        size_t len = dot != NULL ? (size_t) (dot - name) : 0;

        if (config_key_is_profile(k) != is_profile)
            continue;
        if (len > 0 && (len != section_len || strncmp(name, section, len) != 0)) {
            buf_puts(out, ".SS ");
            roff_line(out, name, len);
            put_section_help(k, dot, out);
        }
        section = name;
        section_len = len;
        put_key(k, object, out);
    }
}

void man_config(struct buf *out)
{
    static const char *const others[] = {"sandpoold(8)", "sandpool(1)", NULL};
    struct config *c = config_new();

    (void) config_add_profile(c, "default");
    roff_page(out, "sandpool.yaml", 5, "configuration of sandpoold");
    roff_section(out, "DESCRIPTION");
    roff_text(out, "The daemon reads the file that --config names; as a service that is "
                   "/etc/sandpool/config.yaml. Every key has a default, so a file needs only "
                   "those that differ. A key below is written with the sections it is in, "
                   "separated by dots: http.max_body_bytes is max_body_bytes in the section "
                   "http.");
    roff_paragraph(out, "Unknown and repeated keys are errors. Times have their unit in the name. "
                        "Sizes may be written 512, 64k, 1M, 2G. In values ${NAME} is that "
                        "environment variable, ${NAME:-text} has a default, $$ is a dollar.");
    roff_paragraph(out, "'sandpoold --check --config FILE' finds mistakes, with --print it shows "
                        "the result, and 'sandpoold --example' prints a file with every key. "
                        "SIGHUP or 'sandpool reload' reads the file again and applies all of it "
                        "or, if anything is wrong or a key with \"reload: no\" differs, nothing.");
    roff_section(out, "KEYS");
    put_keys(false, c, out);
    roff_section(out, "KEYS OF A PROFILE");
    roff_text(out, "Each key below stands in profiles.NAME. The profile 'default' always "
                   "exists; what a profile leaves out has the default shown here.");
    put_keys(true, &c->profiles[0], out);
    roff_section(out, "EXAMPLE");
    roff_example_begin(out);
    buf_puts(out, "profiles:\n"
                  "  default:\n"
                  "    backend: oci\n"
                  "    warm: {min: 2, max: 8}\n"
                  "    limits: {memory: 1G, cpus: 1}\n");
    roff_example_end(out);
    roff_see_also(out, others);
    (void) config_free(c);
}
