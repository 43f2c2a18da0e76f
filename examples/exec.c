/* exec.c - a box, a file in it, a command, its output as it comes.
 *
 *   cc exec.c $(pkg-config --cflags --libs sandpool) -o exec && ./exec 'echo hello; cat note.txt' */
#include <sandpool/exec.h>
#include <sandpool/files.h>
#include <stdio.h>

static bool print(void *ctx, const char *data, size_t len)
{
    return fwrite(data, 1, len, ctx) == len;
}

static int run(struct sp_box *box, const char *command, struct sp_failure *f)
{
    struct sp_exec e = {.command = command, .on_stdout = print, .ctx = stdout};
    struct sp_exec_result result = {0};
    int r = sp_file_write(box, "note.txt", NULL, "a note\n", 7, f);

    if (r == SP_OK)
        r = sp_exec(box, &e, &result, f);
    if (r == SP_OK)
        printf("%s, exit code %d, %llu ms\n", sp_outcome_name(result.outcome), result.exit_code,
               (unsigned long long) result.duration_ms);
    sp_exec_result_fini(&result);
    return r;
}

int main(int argc, char **argv)
{
    struct sp_client *client = sp_client_new(NULL);
    struct sp_acquire request = {.thread_id = "example"};
    struct sp_failure f = {0};
    struct sp_lease lease;
    int r = sp_acquire(client, &request, &lease, &f);

    if (r == SP_OK) {
        struct sp_box *box = sp_box_new(client, lease.sandbox_id);

        r = run(box, argc > 1 ? argv[1] : "cat note.txt", &f);
        sp_box_free(box);
    }
    if (r != SP_OK)
        fprintf(stderr, "%s\n", f.message);
    sp_client_free(client);
    return r == SP_OK ? 0 : 1;
}
