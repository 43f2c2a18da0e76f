/* The text format of Prometheus: labels with any text, histograms that add up, exact seconds. */
#include <math.h>
#include <string.h>

#include "base/prometheus.h"
#include "tests/lib/unit.h"

static void test_labels_are_escaped(void **state)
{
    struct buf out;
    struct prom p = {.out = &out};

    (void) state;
    buf_init(&out, 4096);
    prom_family(&p, "a_total", PROM_COUNTER, "Help.");
    prom_put(&p, (struct prom_label[]){{"x", "q\"b\\s\nn"}, {"y", ""}, {NULL, NULL}}, 7);
    prom_put(&p, NULL, UINT64_MAX);
    assert_string_equal(buf_str(&out), "# HELP a_total Help.\n# TYPE a_total counter\n"
                                       "a_total{x=\"q\\\"b\\\\s\\nn\",y=\"\"} 7\n"
                                       "a_total 18446744073709551615\n");
    buf_fini(&out);
}

static void test_seconds_are_exact(void **state)
{
    struct buf out;
    struct prom p = {.out = &out, .name = "s"};

    (void) state;
    buf_init(&out, 4096);
    prom_put_seconds(&p, NULL, 0);
    prom_put_seconds(&p, NULL, 1);
    prom_put_seconds(&p, NULL, 2500000000);
    prom_put_seconds(&p, NULL, UINT64_MAX);
    assert_string_equal(buf_str(&out), "s 0\ns 0.000000001\ns 2.5\ns 18446744073.709551615\n");
    buf_fini(&out);
}

static void test_a_histogram_adds_up(void **state)
{
    struct histogram h = {.sum_ns = 0};
    struct buf out;
    struct prom p = {.out = &out};

    (void) state;
    histogram_add(&h, 0);
    histogram_add(&h, 50000); /* equal to a bound: in it */
    histogram_add(&h, 50001);
    histogram_add(&h, UINT64_C(60000000001));
    buf_init(&out, 65536);
    prom_family(&p, "d_seconds", PROM_HISTOGRAM, "Help.");
    prom_put_histogram(&p, (struct prom_label[]){{"k", "v"}, {NULL, NULL}}, &h);
    assert_non_null(strstr(buf_str(&out), "\nd_seconds_bucket{k=\"v\",le=\"0.00005\"} 2\n"));
    assert_non_null(strstr(buf_str(&out), "\nd_seconds_bucket{k=\"v\",le=\"0.0001\"} 3\n"));
    assert_non_null(strstr(buf_str(&out), "\nd_seconds_bucket{k=\"v\",le=\"60\"} 3\n"));
    assert_non_null(strstr(buf_str(&out), "\nd_seconds_bucket{k=\"v\",le=\"+Inf\"} 4\n"));
    assert_non_null(strstr(buf_str(&out), "\nd_seconds_sum{k=\"v\"} 60.000100002\n"));
    assert_non_null(strstr(buf_str(&out), "\nd_seconds_count{k=\"v\"} 4\n"));
    for (unsigned i = 1; i < HISTOGRAM_BOUNDS; i++)
        assert_true(histogram_bounds[i - 1] < histogram_bounds[i]);
    buf_fini(&out);
}

static void test_quantiles(void **state)
{
    struct histogram h = {.sum_ns = 0};

    (void) state;
    assert_true(histogram_quantile_of(&h, 0.5) < 0); /* of nothing */
    for (unsigned i = 0; i < 100; i++)
        histogram_add(&h, i < 50 ? 60000 : 2000000); /* between 50 and 100 us, and 1 and 2.5 ms */
    assert_int_equal(histogram_count(&h), 100);
    assert_int_equal((int) (histogram_quantile_of(&h, 0.25) * 1e6 + 0.5), 75);
    assert_int_equal((int) (histogram_quantile_of(&h, 0.5) * 1e6 + 0.5), 100);
    assert_int_equal((int) (histogram_quantile_of(&h, 0.75) * 1e6 + 0.5), 1750);
    histogram_add(&h, UINT64_C(60000000001));
    assert_true(isinf(histogram_quantile_of(&h, 1)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_labels_are_escaped),
        cmocka_unit_test(test_seconds_are_exact),
        cmocka_unit_test(test_a_histogram_adds_up),
        cmocka_unit_test(test_quantiles),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
