/* main() of a fuzz target outside the fuzz preset: feeds every file of the given directories to the
 * target once, so that each input that ever mattered stays a test. An empty corpus is a failure:
 * a test that runs nothing must not pass. */
#include <dirent.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_file(const char *path, size_t size)
{
    FILE *f = fopen(path, "rb");
    if (f == NULL) {
        perror(path);
        return -1;
    }
    /* An allocation of exactly the input's size lets the sanitizer see a read past its end. */
    uint8_t *data = malloc(size > 0 ? size : 1);
    if (data == NULL || fread(data, 1, size, f) != size) {
        fprintf(stderr, "%s: cannot read\n", path);
        free(data);
        fclose(f);
        return -1;
    }
    fclose(f);
    fprintf(stderr, "%s\n", path);
    LLVMFuzzerTestOneInput(data, size);
    free(data);
    return 0;
}

/* Returns how many files were replayed, or -1. */
static int replay_dir(const char *dir)
{
    struct dirent **names = NULL;
    int n = scandir(dir, &names, NULL, alphasort);
    if (n < 0) {
        perror(dir);
        return -1;
    }
    int replayed = 0;
    for (int i = 0; i < n; i++) {
        char path[4096];
        struct stat st;
        snprintf(path, sizeof(path), "%s/%s", dir, names[i]->d_name);
        free(names[i]);
        if (replayed < 0 || stat(path, &st) != 0 || !S_ISREG(st.st_mode))
            continue;
        replayed = replay_file(path, (size_t) st.st_size) == 0 ? replayed + 1 : -1;
    }
    free(names);
    return replayed;
}

int main(int argc, char **argv)
{
    int total = 0;
    for (int i = 1; i < argc; i++) {
        int n = replay_dir(argv[i]);
        if (n < 0)
            return 1;
        total += n;
    }
    fprintf(stderr, "%d inputs replayed\n", total);
    return total > 0 ? 0 : 1;
}
