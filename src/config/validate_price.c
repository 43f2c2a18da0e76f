/* validate_price.c - prices, which need a currency, and the limits that they are for; budgets. */
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "config/validate.h"

static bool is_currency(const char *s)
{
    size_t len = strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");

    return len >= 3 && s[len] == '\0';
}

/* Without the limit there is nothing to multiply by, and the price would be nothing. */
static void check_limit(const struct check *k, const struct config_profile *p,
                        enum config_rate rate, uint64_t limit, const char *path, const char *text)
{
    if (p->price.rates[rate] > 0 && limit == 0)
        check_complain(k, p, path, text);
}

/* Where nothing is counted there would be nothing to pay. */
static void check_used(const struct check *k, const struct config_profile *p, enum config_rate rate)
{
    char path[48];

    (void) snprintf(path, sizeof(path), "price.%s", config_rate_name(rate));
    check_limit(k, p, rate, k->c->usage.sample_s, path, "needs usage.sample_s");
}

void check_budgets(const struct check *k)
{
    if (str_is_empty(k->c->budgets.currency))
        return;
    if (!is_currency(k->c->budgets.currency))
        check_complain(k, NULL, "budgets.currency",
                       "must be three to eight capital letters, like EUR");
    if (!k->c->usage.enabled)
        check_complain(k, NULL, "budgets.currency", "needs usage.enabled: true");
}

void check_price(const struct check *k, const struct config_profile *p)
{
    bool has_rate = false;

    for (unsigned i = 0; i < CONFIG_RATE_COUNT; i++)
        has_rate = has_rate || p->price.rates[i] > 0;
    if (str_is_empty(p->price.currency)) {
        if (has_rate)
            check_complain(k, p, "price.currency", "must be given with a price");
        return;
    }
    if (!is_currency(p->price.currency))
        check_complain(k, p, "price.currency", "must be three to eight capital letters, like EUR");
    check_limit(k, p, CONFIG_RATE_CPU_HOUR, p->limits.cpus, "price.per_cpu_hour",
                "needs limits.cpus");
    check_limit(k, p, CONFIG_RATE_GB_HOUR, p->limits.memory, "price.per_gb_hour",
                "needs limits.memory");
    check_limit(k, p, CONFIG_RATE_DISK_GB_HOUR, p->limits.disk, "price.per_disk_gb_hour",
                "needs limits.disk");
    for (unsigned i = CONFIG_RATE_USED; i < CONFIG_RATE_COUNT; i++)
        check_used(k, p, (enum config_rate) i);
}
