/* duration.c - times as people write and read them. */
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "cli/cli.h"

bool duration_parse_ms(const char *s, uint64_t *ret)
{
    static const struct {
        const char *unit;
        uint64_t ms;
    } units[] = {{"ms", 1},        {"s", 1000},        {"", 1000},
                 {"m", 60 * 1000}, {"h", 3600 * 1000}, {"d", 24 * 3600 * 1000}};
    size_t digits = strspn(s, "0123456789");
    char number[24];
    uint64_t v;

    if (!str_copy_n(number, sizeof(number), s, digits))
        return false;
    for (size_t i = 0; i < ARRAY_LEN(units); i++) {
        if (strcmp(units[i].unit, s + digits) != 0)
            continue;
        if (!str_parse_u64(number, 0, UINT32_MAX, &v))
            return false;
        *ret = v * units[i].ms;
        return true;
    }
    return false;
}

void duration_print(double seconds, char *dst)
{
    static const struct {
        double below;
        double size;
        const char *unit;
    } steps[] = {{120, 1, "s"}, {120 * 60, 60, "m"}, {48 * 3600, 3600, "h"}, {1e18, 86400, "d"}};
    size_t i = 0;

    if (!(seconds >= 0) || seconds > 1e15) /* also not a number */
        seconds = 0;
    while (i + 1 < ARRAY_LEN(steps) && seconds >= steps[i].below)
        i++;
    (void) snprintf(dst, 24, "%llu%s", (unsigned long long) (seconds / steps[i].size),
                    steps[i].unit);
}
